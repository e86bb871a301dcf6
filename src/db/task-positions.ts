import { placeOf, type Place } from '../domain/task-fields.ts'
import type { TransactionContext } from './engine/context.ts'
import { expectRow } from './engine/row-statements.ts'
import { statement } from './engine/statement.ts'
import {
  type Destination,
  destinationParameters,
  findPosition,
  gapColumns,
  gapFields,
  joinAnchor,
  joinGap,
  type OrderedList,
  rebalance,
  windowColumns,
  windowFields,
} from './positions.ts'
import { listOfTask } from './schema/task-order.ts'
import { aliasedTable, sql } from './schema/drizzle.ts'
import { tasks } from './schema/tables.ts'

const item = aliasedTable(tasks, 'item')

const parameters = { id: 'uuid', place: 'uuid', ...destinationParameters } as const

/** The tasks of the place `list.id`. */
const tasksOfPlace: OrderedList = {
  table: tasks,
  isListed: sql`${listOfTask(item)} = list.id and ${item.deleted_at} is null`,
}

const selectGap = statement(
  'tasks.select_gap',
  parameters,
  gapColumns,
  (p) => sql`select ${gapFields} from (select ${p.place} as id) list ${joinGap(tasksOfPlace, p)}`,
)

const selectWindow = statement(
  'tasks.select_window',
  { ...parameters, size: 'int' },
  windowColumns,
  (p) => sql`
    select ${windowFields(tasksOfPlace, p, p.size)} from (select ${p.place} as id) list ${joinAnchor(tasksOfPlace, p)}`,
)

// Clients see no change: the order stays. A task that was moved meanwhile keeps its position.
const spread = statement(
  'tasks.spread',
  { moved: 'json' },
  {},
  (p) => sql`
    with moved as (
      select * from jsonb_to_recordset(${p.moved} -> 'rows') as row (id uuid, "from" text, "to" text)
    ), locked as materialized (
      select item.id, item.position from tasks item join moved on moved.id = item.id order by item.id for no key update of item
    )
    update tasks set position = moved."to" from moved join locked on locked.id = moved.id
    where tasks.id = moved.id and locked.position = moved."from" collate "C"`,
)

/**
 * The position of a locked task at its destination in a place; null if the task that it goes next to is not there. If there is no room,
 * the tasks around it make some.
 */
export const findTaskPosition = (
  { db }: TransactionContext,
  task: Place & { readonly id: string },
  destination: Destination,
): Promise<string | null> => {
  const move = { id: task.id, place: placeOf(task), ...destination }
  return findPosition(destination, {
    readGap: async () => expectRow(await selectGap(db, move)),
    makeRoom: () =>
      rebalance({
        readWindow: async (size) => (await selectWindow(db, { ...move, size }))[0],
        spread: async (rows) => {
          await spread(db, { moved: { rows } })
        },
      }),
  })
}
