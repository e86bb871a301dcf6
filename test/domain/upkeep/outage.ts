import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { watchOutage } from '../../../src/domain/upkeep/outage.ts'

t.test('an outage is reported at its start, and when nothing has failed for a while', async (t) => {
  const reported: unknown[] = []
  const report = watchOutage(
    { began: ({ message }) => reported.push(message), ended: (end) => reported.push(end) },
    200,
  )
  report(null)
  t.strictSame(reported, [])
  report(new Error('the first'))
  report(null)
  report(new Error('the second'))
  t.strictSame(reported, ['the first'], 'a success in between does not end it')
  await pause(250)
  report(null)
  report(null)
  t.strictSame(reported, ['the first', { seconds: 0, failures: 2 }])
  report(new Error('another'))
  t.equal(reported.at(-1), 'another')
})
