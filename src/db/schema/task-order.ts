import { priorityRanks, statusRanks } from '../../domain/task-ranks.ts'
import { type SQL, sql } from './drizzle.ts'

/** Expressions that tasks are sorted and ranked by. */

const rank = (ranks: readonly string[], value: SQL): SQL =>
  sql`array_position(${sql.raw(`'{${ranks.join()}}'::text[]`)}, ${value})`

export const statusRank = (status: SQL): SQL => rank(statusRanks, status)

export const priorityRank = (priority: SQL): SQL => rank(priorityRanks, priority)

/** The words of the title among those of a task: a trigger gives them the weight A. */
export const wordsOfTitle = (search: SQL): SQL => sql`ts_filter(${search}, '{a}')`

/** The first 100 characters of a folded title, so that a cursor stays short. By code points, alike on every database. */
export const titleOrder = (titleFolded: SQL): SQL => sql`left(${titleFolded}, 100) collate "C"`
