import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

/** The watchdog kills a process whose event loop is blocked; that of the fixture after a second. */

const program = fileURLToPath(new URL('../fixture/standing-still.ts', import.meta.url))

const start = async (t: Test) => {
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines: string[] = []
  const output = createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
  await once(output, 'line')
  return { child, lines, closed }
}

t.test('a process with a blocked event loop is killed, and the reason is logged', async (t) => {
  const { child, lines, closed } = await start(t)
  child.stdin.write('x')
  t.same(await closed, [null, 'SIGKILL'])
  t.equal(lines.length, 3)
  t.match(JSON.parse(lines[2] ?? ''), {
    level: 60,
    time: Number,
    pid: child.pid,
    msg: 'The event loop has been blocked for 1 s; killing the process',
  })
})

t.test('a process that was suspended for longer continues', async (t) => {
  const { child, lines } = await start(t)
  child.kill('SIGSTOP')
  // Longer than the limit.
  await pause(2_500)
  child.kill('SIGCONT')
  await pause(500)
  t.equal(child.signalCode, null, 'the process is running')
  child.stdin.write('x')
  t.same(await once(child, 'close'), [null, 'SIGKILL'], 'the watchdog is still active')
  t.same(lines.slice(0, 2), ['started', 'standing still'])
})
