import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { environmentFor } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { runProcess, startProcess } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** The default log format: JSON, one object per line, on both streams. */

const json = { LOG_FORMAT: '', LOG_LEVEL: 'info' }

interface Line {
  readonly level: number
  readonly time: number
  readonly pid: number
  readonly msg: string
  readonly worker?: number
  readonly err?: { readonly stack: string }
}

/** Throws if a line is not JSON. */
const linesOf = (output: string): readonly Line[] =>
  output.split('\n').map((line): Line => JSON.parse(line) as Line)

const messagesOf = (lines: readonly Line[]): string => lines.map(({ msg }) => msg).join('\n')

for (const WORKERS of ['1', '2'])
  t.test(`start, requests and stop are JSON lines, WORKERS=${WORKERS}`, async (t) => {
    const environment = { ...(await environmentFor(t)), ...json, WORKERS }
    const service = await startProcess(t, environment)
    await createClient(service.url).register('ada')
    t.equal(await service.end('SIGTERM'), 0)
    const lines = linesOf(service.output())
    for (const { level, time, pid, msg } of lines)
      t.match({ level, time, pid, msg }, { level: Number, time: Number, pid: Number, msg: String })
    const messages = messagesOf(lines)
    t.match(messages, /^ready and listening; /m)
    t.match(messages, /^stopping after SIGTERM/m)
    t.equal(lines.at(-1)?.msg, 'stopped')
  })

t.test('an invalid configuration is one JSON line', async (t) => {
  const { code, output } = await runProcess({ ...json, PORT: 'eighty' })
  t.equal(code, 78)
  const [line, ...others] = linesOf(output)
  t.match(line, { level: 60, msg: /^Invalid configuration:\nPORT must be/, err: undefined })
  t.equal(others.length, 0)
})

const preload = (code: string) => `--import=data:text/javascript,${encodeURIComponent(code)}`

t.test('a missing package is one JSON line', async (t) => {
  const hook = `import { registerHooks } from 'node:module'
    registerHooks({ resolve(name, context, next) {
      if (name === 'proper-lockfile') throw new Error('Cannot find package ' + name)
      return next(name, context)
    } })`
  const { code, output } = await runProcess({ ...json, NODE_OPTIONS: preload(hook) })
  t.equal(code, 1)
  const [line, ...others] = linesOf(output)
  const err = { stack: /Cannot find package proper-lockfile/ }
  t.match(line, { level: 60, msg: /^The service cannot be loaded\. "npm ci" installs/, err })
  t.equal(others.length, 0)
})

t.test('a killed worker and a failed one are JSON lines', async (t) => {
  const service = await startProcess(t, { ...(await environmentFor(t)), ...json, WORKERS: '2' })
  const worker = linesOf(service.output()).find((line) => line.worker !== undefined)
  process.kill(worker?.pid ?? 0, 'SIGKILL')
  await eventually('the supervisor replaces it', async () => /starting a new one/.test(service.output()))
  t.equal(await service.end('SIGTERM'), 0)
  t.match(messagesOf(linesOf(service.output())), /^worker \d+ exited \(SIGKILL\); starting a new one$/m)

  const failing = { ...(await environmentFor(t)), ...json, WORKERS: '2', PORT: new URL(service.url).port }
  const taken = createServer().listen(Number(failing.PORT), '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { code, output } = await runProcess(failing)
  t.equal(code, 1)
  const messages = messagesOf(linesOf(output))
  t.match(messages, /EADDRINUSE/)
  t.match(messages, /^worker \d+ could not start$/m)
})

t.test('an unexpected exception and a warning are JSON lines', async (t) => {
  const later = (code: string) => ({
    ...json,
    NODE_OPTIONS: preload(`setTimeout(() => { ${code} }, 1500).unref()`),
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  })
  const failed = await runProcess({
    ...(await environmentFor(t)),
    ...later("process.emitWarning('odd'); setImmediate(() => { throw new Error('planted') })"),
  })
  t.equal(failed.code, 1)
  const lines = linesOf(failed.output)
  t.match(
    lines.find(({ msg }) => msg === 'Warning: odd'),
    { level: 40 },
  )
  t.match(lines.at(-1), { level: 60, msg: 'planted', err: { stack: /planted\n +at / } })
})

t.test('an unsupported Node.js version is one line', async (t) => {
  const code =
    "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })"
  const { code: exitCode, output } = await runProcess({
    NODE_OPTIONS: preload(code),
  })
  t.equal(exitCode, 1)
  t.match(
    output,
    /^taskwright: needs Node\.js 24 or newer, and this is 20\.20\.2\. "npm ci" installs a suitable one/,
  )
  t.equal(output.split('\n').length, 1)
})

t.test('LOG_FORMAT=pretty is plain text', async (t) => {
  const { output } = await runProcess({ PORT: 'eighty', LOG_FORMAT: 'pretty' })
  t.match(output, /^taskwright: Invalid configuration:\nPORT must be/)
  const wrong = await runProcess({ ...json, LOG_FORMAT: 'xml' })
  t.match(linesOf(wrong.output)[0]?.msg, /LOG_FORMAT must be one of json, pretty/)
})
