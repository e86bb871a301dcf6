import t from 'tap'
import { nextDigestAt } from '../../../src/domain/activity/digests.ts'

const nextDaily = (now: string, timeZone: string): string | null =>
  nextDigestAt('daily', timeZone, new Date(now))

t.test('hourly digests are due in an hour, and none if they are off', async (t) => {
  const now = new Date('2026-07-01T05:59:00Z')
  t.equal(nextDigestAt('hourly', 'CET', now), '2026-07-01T06:59:00.000Z')
  t.equal(nextDigestAt('off', 'CET', now), null)
})

t.test('daily digests are due when it is next 08:00', async (t) => {
  t.equal(nextDaily('2026-07-01T02:29:59.999Z', 'Asia/Kolkata'), '2026-07-01T02:30:00.000Z')
  t.equal(nextDaily('2026-07-01T02:30:00Z', 'Asia/Kolkata'), '2026-07-02T02:30:00.000Z')
  t.equal(nextDaily('2026-07-01T23:00:00Z', 'Pacific/Auckland'), '2026-07-02T20:00:00.000Z')
})

t.test('daily digests follow daylight saving time', async (t) => {
  t.equal(nextDaily('2026-03-28T12:00:00Z', 'Europe/Berlin'), '2026-03-29T06:00:00.000Z')
  t.equal(nextDaily('2026-10-24T12:00:00Z', 'Europe/Berlin'), '2026-10-25T07:00:00.000Z')
})

t.test('also in zones whose name PostgreSQL takes for an offset', async (t) => {
  for (const [zone, winter, summer] of [
    ['CET', '07', '06'],
    ['MET', '07', '06'],
    ['EET', '06', '05'],
    ['WET', '08', '07'],
  ] as const) {
    t.equal(nextDaily('2026-01-15T00:00:00Z', zone), `2026-01-15T${winter}:00:00.000Z`, zone)
    t.equal(nextDaily('2026-07-15T00:00:00Z', zone), `2026-07-15T${summer}:00:00.000Z`, zone)
  }
})
