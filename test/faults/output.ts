import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freePort } from '../fixture/ports.ts'
import { temporaryFolder } from '../fixture/process.ts'

/** The reader of the service's output exits, as in `npm start | head -1`. */

const server = fileURLToPath(new URL('../../src/process/server.ts', import.meta.url))

for (const WORKERS of ['1', '2'])
  t.test(`WORKERS=${WORKERS}: closed output does not prevent serving and stopping`, async (t) => {
    const port = await freePort()
    const child = spawn(process.execPath, [server], {
      env: {
        PATH: process.env.PATH,
        HOST: '127.0.0.1',
        PORT: String(port),
        DATA_DIR: await temporaryFolder(t),
        DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
        WORKERS,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    t.teardown(async () => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    child.stdout.destroy()
    child.stderr.destroy()
    const lives = () =>
      fetch(`http://127.0.0.1:${port}/health/live`).then(
        ({ ok }) => ok,
        () => false,
      )
    const exited = once(child, 'exit')
    while (child.exitCode === null && !(await lives())) await pause(50)
    child.kill('SIGTERM')
    t.strictSame(await exited, [0, null], 'stops normally, while waiting for its database')
  })
