const dateTime =
  /^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/

const earliest = Date.parse('0001-01-01T00:00:00.000Z')
const latest = Date.parse('9999-12-31T23:59:59.999Z')

/** Whether text is an RFC 3339 time whose year in UTC is 1 to 9999. */
export const isInstant = (text: string): boolean => {
  if (!dateTime.test(text) || !isCalendarDay(text)) return false
  const time = Date.parse(text.toUpperCase())
  return time >= earliest && time <= latest
}

/** Date.parse accepts February 30 as March 2. */
const isCalendarDay = (text: string): boolean => {
  const [year, month, day] = text.slice(0, 10).split('-').map(Number)
  const last = new Date(Date.UTC(2000, month ?? 0, 0))
  last.setUTCFullYear(year ?? 0, month ?? 0, 0)
  return (month ?? 0) >= 1 && (month ?? 0) <= 12 && (day ?? 0) >= 1 && (day ?? 0) <= last.getUTCDate()
}

/**
 * Whether a task would be due before it starts. Both are RFC 3339 instants, in milliseconds and UTC, as the request
 * validation leaves them, so they compare as text.
 */
export const isDueBeforeStart = (task: { start_at?: string | null; due_at?: string | null }): boolean =>
  task.start_at != null && task.due_at != null && task.due_at < task.start_at
