import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Upload } from 'tus-js-client'
import { type ServiceProcess, startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient } from '../../test/fixture/service.ts'
import { startTcpProxy } from '../../test/fixture/tcp-proxy.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Uploads a large file with tus-js-client, the tus client for browsers. The connection is cut after a third of the file, and the
 * service is killed after two thirds and restarted. The storage is the bucket of TEST_STORAGE_URL, if set, or else the disk.
 */

const size = 200 * 1024 * 1024

/** Milliseconds. */
const deadline = 240_000

/** Milliseconds until the client retries. */
const retryDelay = 500

const describeBytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

/** Writes a file of random bytes. Resolves to its SHA-256. */
const writeRandomFile = async (path: string): Promise<string> => {
  const block = 4 * 1024 * 1024
  const hash = createHash('sha256')
  const file = await open(path, 'wx')
  for (let written = 0; written < size; written += block) {
    const bytes = randomBytes(block)
    hash.update(bytes)
    await file.writeFile(bytes)
  }
  await file.close()
  return hash.digest('hex')
}

/** Uploads a file. Resolves to the URL of the attachment. `onOffset` is called when the client resumes at an offset. */
const upload = (
  path: string,
  endpoint: string,
  token: string,
  sha256: string,
  onOffset: (offset: number) => void,
): Promise<string> =>
  new Promise((resolve, reject) => {
    new Upload(createReadStream(path), {
      endpoint,
      uploadSize: size,
      headers: { authorization: `Bearer ${token}` },
      metadata: { filename: 'large.bin', filetype: 'application/octet-stream', sha256 },
      // Retries until the deadline, because the service may take long to restart on a busy machine.
      retryDelays: Array<number>(deadline / retryDelay).fill(retryDelay),
      onAfterResponse(request, response) {
        const offset = response.getHeader('Upload-Offset')
        if (request.getMethod() === 'HEAD' && offset !== undefined) onOffset(Number(offset))
      },
      onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('Content-Location') ?? ''),
      onError: reject,
    }).start()
  })

const digestOf = async (content: ReadableStream<Uint8Array> | null): Promise<string> => {
  const hash = createHash('sha256')
  for await (const chunk of content ?? []) hash.update(chunk)
  return hash.digest('hex')
}

const portOf = ({ url }: ServiceProcess): number => Number(new URL(url).port)

const environmentOf = async (t: Teardown): Promise<Record<string, string>> => {
  const { TEST_STORAGE_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = process.env
  return {
    DATA_DIR: await temporaryFolder(t),
    ATTACHMENT_MAX_BYTES: String(size),
    ...(TEST_STORAGE_URL !== undefined && {
      STORAGE_URL: TEST_STORAGE_URL,
      AWS_ACCESS_KEY_ID: AWS_ACCESS_KEY_ID ?? '',
      AWS_SECRET_ACCESS_KEY: AWS_SECRET_ACCESS_KEY ?? '',
    }),
  }
}

const run = async (t: Teardown): Promise<void> => {
  const environment = await environmentOf(t)
  const path = join(await temporaryFolder(t), 'large.bin')
  const sha256 = await writeRandomFile(path)
  let service: ServiceProcess = await startProcess(t, environment)
  t.teardown(async () => {
    if (process.exitCode === 1) console.error(service.output())
  })
  const { register, expect } = createClient(service.url, () => undefined)
  const { token } = await register('ada')
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With a large file' } })
  console.log(`tus: sending ${describeBytes(size)} to ${environment.STORAGE_URL ? 'a bucket' : 'the disk'}`)

  const proxy = await startTcpProxy(t, portOf(service))
  const interrupt = async (): Promise<void> => {
    await proxy.untilSent(size / 3)
    proxy.cut()
    console.log('tus: the connection was cut after a third')
    await proxy.untilSent((2 / 3) * size)
    await service.end('SIGKILL')
    console.log('tus: the service was killed after two thirds; restarting it')
    service = await startProcess(t, environment)
    proxy.target = portOf(service)
  }

  const offsets: number[] = []
  const startedAt = performance.now()
  const endpoint = `http://127.0.0.1:${proxy.port}/tasks/${task.id}/uploads`
  const uploaded = upload(path, endpoint, token, sha256, (offset) => {
    offsets.push(offset)
    console.log(`tus: the client resumes at ${describeBytes(offset)}`)
  })
  const [location] = await Promise.all([uploaded, interrupt()])
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  console.log(`tus: done after ${seconds} s: ${location}`)

  if (offsets.length < 2 || offsets.some((offset) => offset === 0))
    throw new Error(`The upload was not resumed twice; offsets: ${offsets.join(', ')}`)
  const download = await fetch(`${service.url}${location}`, { headers: { authorization: `Bearer ${token}` } })
  const received = await digestOf(download.body)
  if (received !== sha256)
    throw new Error(`The SHA-256 of the stored file is ${received} instead of ${sha256}`)
  console.log(`tus: the SHA-256 matches: ${sha256}`)
  const code = await service.end('SIGTERM')
  if (code !== 0) throw new Error(`The service exited with ${code} instead of 0:\n${service.output()}`)
}

await runToEnd('tus', deadline, run)
