import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { watchPulse } from '../../src/process/heartbeat.ts'
import { eventually } from '../fixture/eventually.ts'

const rhythm = { every: 5, mostMissed: 3 }

t.test('whoever answers every few questions is alive, and asked until it ends', async (t) => {
  let asked = 0
  const end = watchPulse(
    rhythm,
    async () => {
      asked += 1
      if (asked % 3 !== 0) throw new Error('Not now')
    },
    () => t.fail('It is taken for dead'),
  )
  await eventually('it is asked', async () => asked >= 20)
  end()
  const before = asked
  await pause(50)
  t.equal(asked, before)
})

t.test('whoever answers no more is told of once, after so many questions', async (t) => {
  let asked = 0
  const silent = new AbortController()
  watchPulse(
    rhythm,
    async () => {
      asked += 1
      if (asked > 1) await new Promise<never>(() => {})
    },
    () => silent.abort(),
  )
  // What is watched does not keep a process alive.
  const keepAlive = setInterval(() => undefined, 1_000)
  if (!silent.signal.aborted) await once(silent.signal, 'abort')
  clearInterval(keepAlive)
  t.equal(asked, 1 + rhythm.mostMissed)
})
