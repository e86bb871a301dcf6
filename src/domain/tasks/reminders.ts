import { earliestInstant, isDay, latestInstant, type TaskDates } from '../shared/dates.ts'
import { atTime, shift } from '../shared/time-zones.ts'

/** When a reminder is due: at a time, or relative to a date of its task. */
export interface ReminderTime {
  readonly at: string | null
  readonly relative_to: 'due' | 'start' | null
  /** Negative is before the date. Whole days are days of the calendar. Null with `at`, as the next. */
  readonly offset_minutes: number | null
  /** `HH:MM` in the time zone of the user, for an all-day date. */
  readonly time_of_day: string | null
}

/** Reminders of one user about one task. */
export const maxPerTask = 20

/** Reminders of one user about open tasks. */
export const maxOpenReminders = 1_000

/** Reminders of one user, also about closed tasks, which can be reopened. A change of the time zone computes all of them. */
export const maxReminders = 10_000

/** The reminders of a user. */
export interface ReminderCounts {
  readonly open_reminders: number
  readonly reminders: number
}

/** The quota that another reminder of a user would exceed, and what is used of it; null if there is room. */
export const fullQuota = (
  { open_reminders, reminders }: ReminderCounts,
  { isOpen = true }: { readonly isOpen?: boolean } = {},
): { readonly quota: number; readonly used: number } | null => {
  if (isOpen && open_reminders >= maxOpenReminders) return { quota: maxOpenReminders, used: open_reminders }
  return reminders >= maxReminders ? { quota: maxReminders, used: reminders } : null
}

/** The largest offset, a year, in minutes. The contract documents it. */
export const maxOffset = 525_600

/** How long ago a time in a request may be: it fires at once. Clocks differ, and requests take time. In milliseconds. */
const tolerance = 60_000

/** Whether a time in a request is too long ago to be meant. */
export const isLongPast = (instant: string, now: Date): boolean =>
  Date.parse(instant) < now.getTime() - tolerance

const minutesPerDay = 1_440

/**
 * When a reminder is due, as an instant; null if the task has no such date, or the time is not in the years 1 to 9999. `timeZone` is that
 * of the user.
 */
export const remindAt = (
  { at, relative_to, offset_minutes, time_of_day }: ReminderTime,
  { start_at, start_on, due_at, due_on }: Required<TaskDates>,
  timeZone: string,
): string | null => {
  if (at !== null) return at
  const date = relative_to === 'due' ? (due_at ?? due_on) : (start_at ?? start_on)
  if (date === null || offset_minutes === null || time_of_day === null) return null
  const days = offset_minutes % minutesPerDay === 0 ? offset_minutes / minutesPerDay : 0
  const minutes = days === 0 ? offset_minutes : 0
  const moved = shift(date, days, timeZone)
  if (moved === null) return null
  const instant = isDay(moved) ? atTime(time_of_day, moved, timeZone) : moved
  return instant === null ? null : plusMinutes(instant, minutes)
}

const plusMinutes = (instant: string, minutes: number): string | null => {
  const milliseconds = Date.parse(instant) + minutes * 60_000
  return milliseconds > latestInstant || milliseconds < earliestInstant
    ? null
    : new Date(milliseconds).toISOString()
}

/** What a request says of a reminder; absent fields keep their values. */
export type ReminderChange = Partial<ReminderTime>

/** Why a reminder in a request is refused. */
export interface ReminderFault {
  readonly field: keyof ReminderTime
  readonly message: string
}

const unset: ReminderTime = { at: null, relative_to: null, offset_minutes: null, time_of_day: null }

/** All-day dates have a reminder in the morning. */
export const morning = '09:00'

/** What was read and is sent back is no change. */
const changedIn = (sent: ReminderChange, present: ReminderTime): ReminderChange => {
  const { at, relative_to, offset_minutes, time_of_day } = sent
  return {
    ...(at !== undefined && at !== present.at && { at }),
    ...(relative_to !== undefined && relative_to !== present.relative_to && { relative_to }),
    ...(offset_minutes !== undefined && offset_minutes !== present.offset_minutes && { offset_minutes }),
    ...(time_of_day !== undefined && time_of_day !== present.time_of_day && { time_of_day }),
  }
}

/**
 * The time of a reminder after a request. Setting one kind replaces the other: `at` and `relative_to` exclude each other, and the other
 * fields belong to `relative_to`.
 */
export const readReminder = (
  request: ReminderChange,
  present: ReminderTime = unset,
): ReminderTime | ReminderFault => {
  const sent = changedIn(request, present)
  const relative = (['relative_to', 'offset_minutes', 'time_of_day'] as const).find(
    (field) => sent[field] != null,
  )
  if (sent.at != null && relative !== undefined)
    return { field: relative, message: 'cannot be combined with at; send one of them' }
  const replaced = sent.at != null ? unset : sent.relative_to != null ? { ...present, at: null } : present
  const { at, relative_to, offset_minutes, time_of_day } = { ...replaced, ...sent }
  if (at !== null) {
    return relative === undefined ? { ...unset, at } : { field: relative, message: 'requires relative_to' }
  }
  if (relative_to === null) return { field: 'at', message: 'is required, or relative_to' }
  return { at, relative_to, offset_minutes: offset_minutes ?? 0, time_of_day: time_of_day ?? morning }
}
