/** A calendar feed, as it is read. */
export interface CalendarFeed {
  readonly id: string
  readonly name: string
  /** A filter of tasks; empty for all. */
  readonly filter: string
  readonly kind: 'todo' | 'event'
  readonly alarms: boolean
  readonly color: string | null
  readonly version: number
}

/** Feeds that a user may have. The contract says so. */
export const maxFeeds = 50

/** Tasks in a feed. The contract says so. */
export const maxFeedTasks = 2_000
