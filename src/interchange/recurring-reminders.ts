import { isDay, type TaskDates } from '../domain/shared/dates.ts'
import { maxOffset, morning, remindAt } from '../domain/tasks/reminders.ts'
import { dayOf, daysBetween, localTimeOf } from '../domain/shared/time-zones.ts'
import type { Reminder, TaskRecord } from './records.ts'

/** Why one is named in the report. */
export const lostReminder = 'is of this occurrence alone: the next one has no reminder at its time'

/**
 * The reminders of a task from a product in which each occurrence has them. Here, one at a time stays with its occurrence: it becomes one
 * that is relative to the date of the task. `onLost` is called for one that no relative one equals.
 */
export const recurringReminders = (
  { recurrence, reminders, ...dates }: Required<TaskDates> & Pick<TaskRecord, 'recurrence' | 'reminders'>,
  timeZone: string,
  onLost: () => void,
): readonly Reminder[] =>
  reminders.map((reminder) => {
    if (recurrence === null || !('at' in reminder)) return reminder
    const relative = relativeTo(dates, reminder.at, timeZone)
    if (relative === null) onLost()
    return relative ?? reminder
  })

/** A reminder that is due at the same time, relative to the due date or, without one, to the start; null if there is none. */
const relativeTo = (dates: Required<TaskDates>, at: string, timeZone: string): Reminder | null => {
  const { start_at, start_on, due_at, due_on } = dates
  const due = due_at ?? due_on
  const date = due ?? start_at ?? start_on
  if (date === null) return null
  const days = daysBetween(dayOf(date, timeZone), dayOf(at, timeZone)) * 1440
  const offsets = isDay(date) ? [days] : [days, (Date.parse(at) - Date.parse(date)) / 60_000]
  const relative = {
    relative_to: due === null ? 'start' : 'due',
    time_of_day: isDay(date) ? localTimeOf(at, timeZone).slice(11, 16) : null,
  } as const
  const isSame = (offset_minutes: number): boolean =>
    Math.abs(offset_minutes) <= maxOffset &&
    Number.isInteger(offset_minutes) &&
    remindAt(
      { at: null, ...relative, time_of_day: relative.time_of_day ?? morning, offset_minutes },
      dates,
      timeZone,
    ) === at
  const offset_minutes = offsets.find(isSame)
  return offset_minutes === undefined ? null : { ...relative, offset_minutes }
}
