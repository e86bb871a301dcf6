import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { currentWork, runAs } from '../../concurrency/work.ts'
import { selectCalendarTasks } from '../../db/tasks/list.ts'
import { type CalendarFeed, maxFeedTasks } from '../../domain/shared/feeds.ts'
import type { Position } from '../../domain/shared/cursors.ts'
import { maxLimit } from '../../domain/shared/pages.ts'
import type { FeedPrincipal } from '../../domain/shared/permissions.ts'
import { calendarLists, type TaskList } from '../../domain/tasks/filter.ts'
import { version } from '../../domain/shared/version.ts'
import { calendarComponents, calendarHead, type CalendarTask, uidsOf } from '../../interchange/calendar.ts'
import { problems } from '../../problems/problems.ts'
import type { OpContext } from '../shared/context.ts'

/** The files of calendar feeds. */

/** A file, and a hash that is another one for other text. */
interface Calendar {
  readonly text: string
  readonly hash: string
}

/** The file of the feed whose token authenticated the request. */
export type ReadCalendar = (ctx: OpContext<FeedPrincipal>) => Promise<Calendar>

/** What is kept of a file. Its head, which has the name and the color, is written for each request. */
interface Content extends Calendar {
  /** By `performance.now()`. */
  readonly builtAt: number
}

export interface FeedLimits {
  /** Milliseconds for which content is served without building it anew. */
  readonly maxAge: number
  /** Builds per minute of the feeds of one user, by this process. */
  readonly maxBuilds: number
}

/** The contract promises them. */
export const feedLimits: FeedLimits = { maxAge: 60_000, maxBuilds: 10 }

/** How often clients should ask, in minutes. */
const refreshMinutes = 60

/** Milliseconds for which content is served while its owner has no builds left. The contract promises it. Longer than clients wait. */
const maxStaleAge = 2 * refreshMinutes * 60_000

/** UTF-16 code units of all content that is kept. */
const maxKept = 32 * 1_048_576

/** UTF-16 code units of the titles and descriptions in a file at most. The contract says so. */
const maxCharacters = 4 * 1_048_576

/** Pages that are read of a list at most. A filter that searches texts finds few tasks on each. */
const maxPages = 40

/** Builds the content of each feed once a minute at most, however many requests ask for it, and of all feeds of a user `maxBuilds` times. */
export const createReadCalendar = ({ maxAge, maxBuilds }: FeedLimits = feedLimits): ReadCalendar => {
  const kept = new LRUCache<string, Content>({
    maxSize: maxKept,
    sizeCalculation: ({ text }) => text.length,
    ttl: maxStaleAge,
  })
  const building = new Map<string, Promise<Content>>()
  const builds = new RateLimiterMemory({ points: maxBuilds, duration: 60 })

  /** @throws Problem 429 when the owner has no builds left, and no content is kept */
  const renew = async (ctx: OpContext<FeedPrincipal>, key: string): Promise<Content> => {
    // `penalty` counts without refusing.
    const { consumedPoints, msBeforeNext } = await builds.penalty(ctx.principal.userId)
    if (consumedPoints <= maxBuilds) {
      const content = await build(ctx)
      kept.set(key, content)
      return content
    }
    const stale = kept.get(key)
    if (stale === undefined)
      throw problems.tooManyFeedBuilds(maxBuilds, Math.max(1, Math.ceil(msBeforeNext / 1_000)))
    return stale
  }

  const contentOf = (ctx: OpContext<FeedPrincipal>): Content | Promise<Content> => {
    const { id, alarms } = ctx.principal.credential.feed
    // What else the content depends on never changes (`filter`, `kind`), is in the head (name, color), or may be as old as the content (the
    // owner's role and time zone).
    const key = `${id} ${alarms}`
    const present = kept.get(key)
    if (present !== undefined && performance.now() - present.builtAt < maxAge) return present
    const running = building.get(key)
    if (running !== undefined) return running
    // Others may wait for it when the client of this request has gone.
    const work = { ...currentWork(), isAbandoned: () => false }
    const renewing = runAs(work, () => renew(ctx, key)).finally(() => building.delete(key))
    building.set(key, renewing)
    return renewing
  }

  return async (ctx) => {
    const { name, color } = ctx.principal.credential.feed
    const head = calendarHead({ generator: version, name, color, refreshMinutes })
    const content = await contentOf(ctx)
    return { text: head + content.text, hash: hash('sha256', head + content.hash) }
  }
}

const build = async (ctx: OpContext<FeedPrincipal>): Promise<Content> => {
  const builtAt = performance.now()
  const { timeZone, credential } = ctx.principal
  const { kind, alarms } = credential.feed
  const tasks = await tasksOf(ctx, credential.feed)
  const pieces = await Array.fromAsync(calendarComponents({ kind, alarms, timeZone }, tasks, uidsOf(tasks)))
  const text = pieces.join('')
  return { text, hash: hash('sha256', text), builtAt }
}

/** What a file has room for. */
interface Room {
  tasks: number
  characters: number
}

/** The tasks of a feed, by their due dates, so that the file changes only if one of them does. */
const tasksOf = async (
  ctx: OpContext<FeedPrincipal>,
  feed: CalendarFeed,
): Promise<readonly CalendarTask[]> => {
  const now = new Date()
  const { ahead, behind, undated } = calendarLists(feed, { now, ...ctx.principal })
  const room: Room = { tasks: maxFeedTasks, characters: maxCharacters }
  const [later, earlier] = [await readAll(ctx, ahead, room), await readAll(ctx, behind, room)]
  const tasks = nearest(later, earlier, { now: now.getTime(), room })
  for (const task of await readAll(ctx, undated, room)) if (takeRoom(room, task)) tasks.push(task)
  // A task whose date was changed meanwhile is in two lists. It is as it was read last.
  return [...new Map(tasks.map((task) => [task.id, task])).values()]
}

/** Takes the room of the next task. Whether it fits: after the first one that does not, no other does. */
const takeRoom = (room: Room, { title, description }: CalendarTask): boolean => {
  room.tasks -= 1
  room.characters -= title.length + description.length
  return room.tasks >= 0 && room.characters >= 0
}

/** The tasks that are due nearest to now, of two lists that both begin there, as far as there is room. */
const nearest = (
  ahead: readonly CalendarTask[],
  behind: readonly CalendarTask[],
  { now, room }: { readonly now: number; readonly room: Room },
): CalendarTask[] => {
  const distance = (task: CalendarTask | undefined): number =>
    task === undefined ? Infinity : Math.abs(Date.parse(task.due_at ?? task.due_on ?? '') - now)
  let [later, earlier] = [0, 0]
  for (;;) {
    const isLater = distance(ahead[later]) <= distance(behind[earlier])
    const next = isLater ? ahead[later] : behind[earlier]
    if (next === undefined || !takeRoom(room, next)) break
    if (isLater) later += 1
    else earlier += 1
  }
  return [...behind.slice(0, earlier).toReversed(), ...ahead.slice(0, later)]
}

/** Reads a list until there is as much as a file has room for. The last page can be more than that. */
const readAll = async (
  { db, principal }: OpContext<FeedPrincipal>,
  list: TaskList,
  room: Room,
): Promise<readonly CalendarTask[]> => {
  const tasks: CalendarTask[] = []
  const left = { ...room }
  let [position, pages]: [Position | null, number] = [null, 0]
  while (left.tasks > 0 && left.characters > 0 && pages < maxPages) {
    const limit = Math.min(maxLimit, left.tasks)
    const page = await selectCalendarTasks(db, principal, list, {
      position,
      limit,
      offset: 0,
      includeTotal: false,
    })
    for (const task of readTasks(page.items)) {
      takeRoom(left, task)
      tasks.push(task)
    }
    position = page.next
    pages += 1
    if (position === null) break
  }
  return tasks
}

/** Reads what `calendarTaskJson` has written. */
const readTasks = (json: string): readonly CalendarTask[] => JSON.parse(json) as readonly CalendarTask[]
