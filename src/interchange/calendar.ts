/** A calendar of tasks (RFC 5545). */
export interface CalendarFacts {
  readonly name: string
  readonly color: string | null
  readonly kind: 'todo' | 'event'
  readonly alarms: boolean
  /** The zone of all-day dates that recur until a time, or until a day with a time. */
  readonly timeZone: string
  /** How often clients should read it again, in minutes; null for a file. */
  readonly refreshMinutes: number | null
}
