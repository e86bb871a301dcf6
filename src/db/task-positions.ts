import { placeOf, type Place } from '../domain/task-fields.ts'
import type { TransactionContext } from './engine/context.ts'
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
import { columnsOf } from './schema/columns.ts'
import { listOfTask } from './schema/task-order.ts'
import { sql } from './schema/drizzle.ts'

const parameters = { id: 'uuid', place: 'uuid', ...destinationParameters } as const

/** The tasks of the place `list.id`. */
const tasksOfPlace: OrderedList = {
  table: sql`tasks`,
  holds: (row) =>
    sql`${listOfTask(columnsOf<'tasks'>(row))} = list.id and ${columnsOf<'tasks'>(row).deleted_at} is null`,
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

/** A task at the place that it moves to. */
export type MovedTask = Place & { readonly id: string }

const moveOf = (task: MovedTask, destination: Destination) => ({
  id: task.id,
  place: placeOf(task),
  ...destination,
})

/**
 * The position of a locked task at its destination in a place; null if the task that it goes next to is not there.
 *
 * @throws NoRoom
 */
export const findTaskPosition = (
  { db }: TransactionContext,
  task: MovedTask,
  destination: Destination,
): Promise<string | null> =>
  findPosition(destination, async () => {
    const [gap] = await selectGap(db, moveOf(task, destination))
    if (gap === undefined) throw new Error('The statement returned no row')
    return gap
  })

/** Makes room at the destination of a task. The transaction has not locked any task: this locks those around, in the order of their ids. */
export const makeRoom = (
  { db }: TransactionContext,
  task: MovedTask,
  destination: Destination,
): Promise<void> =>
  rebalance({
    readWindow: async (size) => (await selectWindow(db, { ...moveOf(task, destination), size }))[0],
    spread: async (rows) => {
      await spread(db, { moved: { rows } })
    },
  })
