import { priorityRanks, statusRanks } from '../../domain/task-ranks.ts'
import { type SQL, sql } from './drizzle.ts'

/** What tasks are sorted by where it is no column of theirs: the indexes and the lists must say it in the same words. */

const rank = (ranks: readonly string[], value: SQL): SQL =>
  sql`array_position(${sql.raw(`'{${ranks.join()}}'::text[]`)}, ${value})`

export const statusRank = (status: SQL): SQL => rank(statusRanks, status)

export const priorityRank = (priority: SQL): SQL => rank(priorityRanks, priority)

/** The words of a title among those of a task, which a trigger has marked. */
export const wordsOfTitle = (search: SQL): SQL => sql`ts_filter(${search}, '{a}')`

/** As much of a title as fits into an index and a cursor, by the code points of its folded form: alike on every database. */
export const titleOrder = (titleFolded: SQL): SQL => sql`left(${titleFolded}, 100) collate "C"`
