import t from 'tap'
import { delayAfter } from '../../../src/domain/activity/webhook-retries.ts'

const hour = 3_600_000
const now = Date.parse('2026-11-02T11:30:00Z')
const half = { now, random: 0.5 }

t.test('delays double, with jitter, up to six hours', async (t) => {
  t.strictSame(
    [1, 2, 3, 10, 11, 1_000].map((attempts) => delayAfter(attempts, null, half)),
    [15_000, 30_000, 60_000, 7_680_000, 3 * hour, 3 * hour],
  )
  t.equal(delayAfter(1, null, { now, random: 0 }), 1_000, 'at least a second')
})

t.test('Retry-After can lengthen the delay, up to six hours', async (t) => {
  t.equal(delayAfter(1, '120', half), 120_000)
  t.equal(delayAfter(3, '10', half), 60_000, 'not shorten it')
  t.equal(delayAfter(1, 'Mon, 02 Nov 2026 11:40:00 GMT', half), 600_000)
  t.equal(delayAfter(1, '999999999', half), 6 * hour)
  for (const invalid of ['-1', '1e3', 'soon', '', '2026-11-02', '99999999999'])
    t.equal(delayAfter(1, invalid, half), 15_000, invalid)
  t.equal(delayAfter(1, 'Mon, 02 Nov 2020 11:40:00 GMT', half), 15_000, 'a time in the past')
})
