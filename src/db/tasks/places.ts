import { placeOf, type Place } from '../../domain/tasks/fields.ts'
import type { TransactionContext } from '../statements/context.ts'
import { SerializationFailure } from '../engine/errors.ts'
import { statement } from '../statements/statement.ts'
import { type Destination, type Move, positionsOf } from '../shared/positions.ts'
import { listOfTask } from '../schema/task-order.ts'
import { aliasedTable, sql } from '../schema/drizzle.ts'
import { tasks } from '../schema/tables.ts'

const item = aliasedTable(tasks, 'item')

// The order stays, and so does the version. The change feed delivers the tasks again, with their new positions.
const spread = statement(
  'tasks.spread',
  { moved: 'json' },
  { id: 'text' },
  (p) => sql`
    with moved as (
      select * from jsonb_to_recordset(${p.moved} -> 'rows') as row (id uuid, "from" text, "to" text)
    ), locked as materialized (
      select item.id, item.position from tasks item join moved on moved.id = item.id order by item.id for no key update of item
    )
    update tasks set position = moved."to", side_changes = side_changes + 1 from moved join locked on locked.id = moved.id
    where tasks.id = moved.id and locked.position = moved."from" collate "C"
    returning tasks.id::text`,
)

const positions = positionsOf('tasks', {
  table: tasks,
  isListed: (place) => sql`${listOfTask(item)} = ${place} and ${item.deleted_at} is null`,
  async spread(db, rows) {
    const spreadOut = await spread(db, { moved: { rows } })
    // Some were moved after they were read: the positions of the others fit only with theirs.
    if (spreadOut.length < rows.length) throw new SerializationFailure()
  },
})

/**
 * The position of a locked task at its destination in a place; null if the task that it goes next to is not there.
 *
 * @throws NoRoom
 */
export const findTaskPosition = (
  { db }: TransactionContext,
  task: Place & { readonly id: string },
  destination: Destination,
): Promise<string | null> => positions.find(db, { ...destination, list: placeOf(task), id: task.id })

/**
 * Makes room at the destination of a task, in a transaction that has locked no task: this locks those around by their ids.
 *
 * @throws SerializationFailure when one of them was moved meanwhile; the transaction is repeated
 */
export const makeRoomForTask = ({ db }: TransactionContext, move: Move): Promise<void> =>
  positions.makeRoom(db, move)
