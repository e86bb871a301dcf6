import { atTime, dayAfter, dayAt } from '../shared/time-zones.ts'

/** When a user gets unread notifications by email: in every hour, every morning, or never. */
export type MailDigest = 'off' | 'hourly' | 'daily'

const morning = '08:00'

/** When the next digest is due: in an hour, or when it is next 08:00 in the time zone; null if digests are off. */
export const nextDigestAt = (digest: MailDigest, timeZone: string, now: Date): string | null => {
  if (digest === 'off') return null
  if (digest === 'hourly') return new Date(now.getTime() + 3_600_000).toISOString()
  const today = dayAt(now.getTime(), timeZone)
  const due = atTime(morning, today, timeZone)
  return due !== null && due > now.toISOString() ? due : atTime(morning, dayAfter(today), timeZone)
}
