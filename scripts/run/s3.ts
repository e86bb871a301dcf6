import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../test/fixture/ports.ts'
import { findGoProgram, runAttached, skip } from './commands.ts'
import { answers, startProgram } from './processes.ts'
import { runToEnd, type Teardown } from './run-to-end.ts'
import { temporaryRoot } from './temporary-root.ts'

/**
 * Runs a command with a new S3 server, the Versity gateway. TEST_STORAGE_URL is the URL of its bucket:
 *
 *     node scripts/run/s3.ts [--] <command> [parameter...]
 */

/** Milliseconds, including the build of the server. */
const deadline = 20 * 60_000

const region = 'us-east-1'
const bucket = 'taskwright'

/** Starts the server with an empty bucket. Resolves to the environment of its clients. */
const startServer = async (t: Teardown, server: string): Promise<Readonly<Record<string, string>>> => {
  const folder = await mkdtemp(join(temporaryRoot(), 'taskwright-s3-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [data, metadata] = [join(folder, 'data'), join(folder, 'metadata')]
  await Promise.all([data, metadata].map((path) => mkdir(path)))
  const address = `127.0.0.1:${await freePort()}`
  const keys = { accessKeyId: 'taskwright', secretAccessKey: randomBytes(16).toString('hex') }
  const options = ['--port', address, '--region', region, '--keep-alive', '--quiet', '--health', '/health']
  // A separate folder for metadata, because not every file system has extended attributes.
  const endpoint = `http://${address}`
  await startProgram(t, [server, ...options, 'posix', '--sidecar', metadata, data], {
    env: { ROOT_ACCESS_KEY_ID: keys.accessKeyId, ROOT_SECRET_ACCESS_KEY: keys.secretAccessKey },
    log: join(folder, 'log'),
    isReady: () => answers(`${endpoint}/health`),
  })
  const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: keys })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return {
    TEST_STORAGE_URL: `s3://${bucket}?endpoint=${endpoint}&region=${region}&path_style=true`,
    AWS_ACCESS_KEY_ID: keys.accessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
  }
}

await runToEnd('s3', deadline, async (t) => {
  const command = process.argv.slice(process.argv[2] === '--' ? 3 : 2)
  if (command.length === 0) throw new Error('Usage: node scripts/run/s3.ts [--] <command> [parameter...]')
  const server = findGoProgram('github.com/versity/versitygw/cmd/versitygw', 'v1.8.0')
  if (server === null) return skip('Go is not installed')
  process.exitCode = await runAttached(t, command, await startServer(t, server))
})
