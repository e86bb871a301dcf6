import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { currentWork, runAs } from '../concurrency/work.ts'
import { selectCalendarTasks } from '../db/task-list.ts'
import { type CalendarFeed, maxFeedTasks } from '../domain/feeds.ts'
import type { Position } from '../domain/cursors.ts'
import { maxLimit } from '../domain/pages.ts'
import type { FeedPrincipal } from '../domain/permissions.ts'
import { calendarLists, type TaskList } from '../domain/task-filter.ts'
import { version } from '../domain/version.ts'
import { type CalendarTask, calendarText, uidsOf } from '../interchange/calendar.ts'
import type { OpContext } from './context.ts'

/** The files of calendar feeds. */

/** A file, and its SHA-256 in hex. */
interface Calendar {
  readonly text: string
  readonly sha256: string
}

/** The file of the feed whose token authenticated the request. */
export type ReadCalendar = (ctx: OpContext<FeedPrincipal>) => Promise<Calendar>

/** Milliseconds for which a file is served without building it anew. The contract promises it. */
const maxAge = 60_000

/** How often clients should ask, in minutes. */
const refreshMinutes = 60

/** UTF-16 code units of all files that are kept. */
const maxKept = 32 * 1_048_576

/** Characters of tasks, as JSON, that a list adds to a file at most: some thousand times those of a usual task. */
const maxCharacters = 4 * 1_048_576

/** Pages that are read of a list at most. A filter that searches texts finds few tasks on each. */
const maxPages = 40

/** Builds each file once a minute at most, however many requests ask for it. */
export const createReadCalendar = (): ReadCalendar => {
  const kept = new LRUCache<string, Calendar>({
    maxSize: maxKept,
    sizeCalculation: ({ text }) => text.length,
    ttl: maxAge,
  })
  const building = new Map<string, Promise<Calendar>>()

  return async (ctx) => {
    const { id, version: feedVersion } = ctx.principal.credential.feed
    const key = `${id} ${feedVersion}`
    const present = kept.get(key) ?? building.get(key)
    if (present !== undefined) return present
    // Others may wait for it when the client of this request has gone.
    const work = { ...currentWork(), isAbandoned: () => false }
    const built = runAs(work, () => build(ctx)).finally(() => building.delete(key))
    building.set(key, built)
    const calendar = await built
    kept.set(key, calendar)
    return calendar
  }
}

const build = async (ctx: OpContext<FeedPrincipal>): Promise<Calendar> => {
  const { timeZone, credential } = ctx.principal
  const { name, color, kind, alarms } = credential.feed
  const tasks = await tasksOf(ctx, credential.feed)
  const facts = { generator: version, name, color, kind, alarms, timeZone, refreshMinutes }
  const pieces: string[] = []
  for await (const piece of calendarText(facts, tasks, uidsOf(tasks))) pieces.push(piece)
  const text = pieces.join('')
  return { text, sha256: hash('sha256', text) }
}

/** The tasks of a feed, by their due dates, so that the file changes only if one of them does. */
const tasksOf = async (
  ctx: OpContext<FeedPrincipal>,
  feed: CalendarFeed,
): Promise<readonly CalendarTask[]> => {
  const now = new Date()
  const { ahead, behind, undated } = calendarLists(feed, { now, ...ctx.principal })
  const dated = nearest(await readAll(ctx, ahead), await readAll(ctx, behind), now.getTime())
  const tasks = [...dated, ...(await readAll(ctx, undated, maxFeedTasks - dated.length))]
  // A task whose date was changed meanwhile is in two lists. It is as it was read last.
  return [...new Map(tasks.map((task) => [task.id, task])).values()]
}

/** The tasks that are due nearest to a time, of two lists that both begin there. */
const nearest = (
  ahead: readonly CalendarTask[],
  behind: readonly CalendarTask[],
  now: number,
): readonly CalendarTask[] => {
  const distance = (task: CalendarTask | undefined): number =>
    task === undefined ? Infinity : Math.abs(Date.parse(task.due_at ?? task.due_on ?? '') - now)
  let [later, earlier] = [0, 0]
  const count = Math.min(ahead.length + behind.length, maxFeedTasks)
  while (later + earlier < count)
    if (distance(ahead[later]) <= distance(behind[earlier])) later += 1
    else earlier += 1
  return [...behind.slice(0, earlier).toReversed(), ...ahead.slice(0, later)]
}

const readAll = async (
  { db, principal }: OpContext<FeedPrincipal>,
  list: TaskList,
  count = maxFeedTasks,
): Promise<readonly CalendarTask[]> => {
  const tasks: CalendarTask[] = []
  let [position, pages, characters]: [Position | null, number, number] = [null, 0, 0]
  while (tasks.length < count && pages < maxPages && characters < maxCharacters) {
    const limit = Math.min(maxLimit, count - tasks.length)
    const page = await selectCalendarTasks(db, principal, list, {
      position,
      limit,
      offset: 0,
      includeTotal: false,
    })
    tasks.push(...readTasks(page.items))
    position = page.next
    pages += 1
    characters += page.items.length
    if (position === null) break
  }
  return tasks
}

/** Reads what `calendarTaskJson` has written. */
const readTasks = (json: string): readonly CalendarTask[] => JSON.parse(json) as readonly CalendarTask[]
