import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findCommand, isExecutable, runCommand } from '../../scripts/run/commands.ts'
import type { Teardown } from '../../scripts/run/run-to-end.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { eventually } from '../fixture/eventually.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { startService } from '../fixture/service.ts'
import { fencedBlocks } from '../fixture/transcript.ts'
import { expectedSignature } from '../fixture/webhooks.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const sourceOf = (path: string): string => join(root, 'scripts/sdk/receivers', path)

/** Go's installer does not add it to PATH. */
const installedGo = '/usr/local/go/bin/go'

interface Language {
  readonly name: string
  readonly source: string
  readonly tool: string
  readonly path: string | null
  /** Resolves to the command that starts the receiver. */
  readonly prepare: (t: Teardown, tool: string, source: string) => Promise<readonly string[]>
}

const interpret: Language['prepare'] = async (_, tool, source) => [tool, source]

const languages: readonly Language[] = [
  {
    name: 'TypeScript',
    source: sourceOf('typescript/main.ts'),
    tool: 'node',
    path: process.execPath,
    prepare: interpret,
  },
  {
    name: 'Python',
    source: sourceOf('python/main.py'),
    tool: 'python3',
    path: findCommand('python3'),
    prepare: interpret,
  },
  {
    name: 'Go',
    source: sourceOf('go/main.go'),
    tool: 'go',
    path: findCommand('go') ?? (isExecutable(installedGo) ? installedGo : null),
    prepare: async (t, tool, source) => {
      const folder = await temporaryFolder(t)
      const program = join(folder, 'receiver')
      const env = { ...process.env, GOTOOLCHAIN: 'local', GOFLAGS: '' }
      await runCommand(t, { command: tool, args: ['build', '-o', program, source], cwd: folder, env })
      return [program]
    },
  },
]

/** Starts a receiver on a free port. Resolves to its URL and its output. */
const startProgram = async (t: Teardown, [file = '', ...parameters]: readonly string[], secret: string) => {
  const child = spawn(file, parameters, {
    env: { ...process.env, WEBHOOK_SECRET: secret, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  await eventually(`${file} listens`, async () => lines.length > 0)
  const url = lines.shift()?.replace('listening at ', '') ?? ''
  return { url, lines }
}

const service = await startService(t, {
  jobTimes: { ...jobTimes, events: 20 },
  config: { webhookAllow: ['127.0.0.1'] },
})

t.test('the guide shows the receiver in TypeScript, and links to each', async (t) => {
  const guide = await readFile(join(root, 'docs/guides/webhooks.md'), 'utf8')
  t.strictSame(fencedBlocks(guide, 'ts'), [await readFile(sourceOf('typescript/main.ts'), 'utf8')])
  for (const { name, source } of languages) t.ok(guide.includes(`](../../${relative(root, source)})`), name)
})

for (const { name, source, tool, path, prepare } of languages) {
  // A tool may be missing on a developer's machine, but not in CI.
  const skip = path === null && !process.env.CI && `skipped: no ${tool}`
  t.test(`the receiver in ${name} verifies signatures`, { skip }, async (t) => {
    if (path === null) throw new Error(`${tool} is not installed`)
    const command = await prepare(t, path, source)
    const { token } = await service.register(`receiver-${tool}`)
    const body = { url: 'http://127.0.0.1:9/', event_types: ['project.*'] }
    const { body: webhook } = await service.expect('createWebhook', 201, { token, body })
    const params = { webhook_id: webhook.id }
    const { url, lines } = await startProgram(t, command, webhook.secret)
    await service.expect('updateWebhook', 200, { token, params, body: { url } })

    /** The receiver's response status for a delivery. */
    const statusFor = async (delivery: string): Promise<number | null> => {
      const request = { token, params: { ...params, delivery_id: delivery } }
      let status: number | null = null
      await eventually('the delivery is attempted', async () => {
        const { body } = await service.expect('getWebhookDelivery', 200, request)
        status = body.response_status
        return body.attempts > 0
      })
      return status
    }
    const sendTest = async () => (await service.expect('testWebhook', 201, { token, params })).body.id

    const first = await sendTest()
    t.equal(await statusFor(first), 204, 'a signed message is accepted')
    const again = await service.expect('redeliverWebhook', 201, {
      token,
      params: { ...params, delivery_id: first },
    })
    t.equal(await statusFor(again.body.id), 204, 'a redelivery is accepted')
    await service.expect('rotateWebhookSecret', 200, { token, params })
    t.equal(await statusFor(await sendTest()), 204, 'the previous secret verifies after a rotation')

    const now = Math.floor(Date.now() / 1_000)
    const send = async (
      id: string,
      { timestamp = String(now), secret = webhook.secret, sent = '', signature = '' } = {},
    ): Promise<number> => {
      const body = '{"type":"ümlaut","data":{}}'
      const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp }
      const signed = signature || expectedSignature(secret, { headers, body })
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...headers, 'webhook-sequence': '9', 'webhook-signature': signed },
        body: sent || body,
      })
      return response.status
    }
    t.equal(await send('changed', { sent: '{"type":"ümlaut","data":[]}' }), 401, 'changed bytes')
    t.equal(await send('old', { timestamp: String(now - 330) }), 401, 'an old timestamp')
    t.equal(await send('ahead', { timestamp: String(now + 330) }), 401, 'a timestamp ahead')
    t.equal(await send('none', { timestamp: 'NaN' }), 401, 'no timestamp')
    t.equal(await send('other', { secret: 'whsec_AAAA' }), 401, 'a signature with another secret')
    t.equal(await send('short', { signature: 'v1, v1,é' }), 401, 'malformed signatures')
    t.equal(await send('last'), 204)
    await eventually('the last message is printed', async () => lines.includes('ümlaut 9'))
    t.strictSame(lines, ['webhook.test 1', 'webhook.test 3', 'ümlaut 9'], 'each message is printed once')
  })
}
