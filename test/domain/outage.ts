import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { watchOutage } from '../../src/domain/outage.ts'

t.test('an outage is told of when it begins, and when nothing has failed for a while', async (t) => {
  const told: unknown[] = []
  const report = watchOutage(
    { began: ({ message }) => told.push(message), ended: (end) => told.push(end) },
    200,
  )
  report(null)
  t.strictSame(told, [])
  report(new Error('the first'))
  report(null)
  report(new Error('the second'))
  t.strictSame(told, ['the first'], 'what is done meanwhile does not end it')
  await pause(250)
  report(null)
  report(null)
  t.strictSame(told, ['the first', { seconds: 0, failures: 2 }])
  report(new Error('another'))
  t.equal(told.at(-1), 'another')
})
