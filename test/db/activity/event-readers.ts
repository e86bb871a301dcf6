import t, { type Test } from 'tap'
import { newId } from '../../../src/db/shared/ids.ts'
import { restampEvents } from '../../../src/db/activity/events.ts'
import { notifyOfEvents } from '../../../src/db/activity/notifications.ts'
import { changesToBeKnown } from '../../fixture/changes.ts'
import { openTestDatabase } from '../../fixture/database.ts'

/** The background readers of events, tested by the one that creates notifications. */

const never = new AbortController().signal

/** A database with a task that its owner follows and the service completes. */
const openWorld = async (t: Test) => {
  const { db } = await openTestDatabase(t)
  const [reader, task] = [newId(), newId()]
  await db.run(
    `insert into users (id, username, email, display_name, role, password_hash) values ($1, $2, $2, $2, 'member', '')`,
    [reader, 'reader'],
  )
  await db.run(
    `insert into tasks (id, title, description, status, priority, owner_id) values ($1, 'A task', '', 'todo', 'none', $2)`,
    [task, reader],
  )
  await db.run('insert into task_followers (task_id, user_id) values ($1, $2)', [task, reader])
  const change = (field: 'status' | 'title', value: string) =>
    db.run(
      `with changed as (
         update tasks set ${field} = $2${field === 'status' ? `, completed_at = case when $2 = 'done' then now() end` : ''} where id = $1 returning *)
       select record_event('task.updated', id, project_id, owner_id, assignee_id, null, '{}',
         jsonb_build_object('${field}', ${field}))::text from changed`,
      [task, value],
    )
  return {
    db,
    read: async () => {
      await changesToBeKnown(db)
      return notifyOfEvents(db, never)
    },
    complete: async (times = 1) => {
      for (let index = 0; index < times; index += 1)
        for (const status of ['todo', 'done']) await change('status', status)
    },
    rename: async (times: number) => {
      for (let index = 0; index < times; index += 1) await change('title', newId())
    },
    count: async () => (await db.run('select id from notifications where user_id = $1', [reader])).length,
    place: async () =>
      (await db.run('select changed_in::text, ordinal::text, xmax::text from event_readers', []))[0],
  }
}

t.test('a new reader starts with the current position', async (t) => {
  const { complete, read, count } = await openWorld(t)
  await complete()
  await read()
  t.equal(await count(), 0)
  await complete()
  await read()
  t.equal(await count(), 1)
})

t.test('a reader that is up to date writes nothing', async (t) => {
  const { complete, read, place } = await openWorld(t)
  await read()
  await complete()
  await read()
  const before = await place()
  await read()
  t.strictSame(await place(), before, 'neither the position nor a row lock')
})

t.test('concurrent readers read each event once', async (t) => {
  const { complete, read, count } = await openWorld(t)
  await read()
  const reading = Promise.all(
    [1, 2, 3].map(async () => {
      for (let round = 0; round < 40; round += 1) await read()
    }),
  )
  await complete(130)
  await reading
  await read()
  t.equal(await count(), 130)
})

t.test('no event is missed among any number of other events', async (t) => {
  const { complete, read, rename, count } = await openWorld(t)
  await read()
  for (const others of [0, 99, 100, 250]) {
    await rename(others)
    await complete(2)
    await rename(others)
  }
  await read()
  t.equal(await count(), 8)
  await rename(1)
  await complete()
  await read()
  t.equal(await count(), 9)
})

t.test('events with transaction ids of another database are read after they are restamped', async (t) => {
  const { db, complete, read, count } = await openWorld(t)
  await read()
  await complete(3)
  await read()
  t.equal(await count(), 3)
  await complete(2)
  // As after the restore of a dump from a database that was a million transactions ahead.
  const later = `(changed_in::text::bigint + 1000000)::text::xid8`
  await db.run(`update events set changed_in = ${later}`, [])
  await db.run(`update event_readers set changed_in = ${later}`, [])
  await read()
  t.equal(await count(), 3, 'nothing is read before')
  await restampEvents(db)
  await complete()
  await read()
  t.equal(await count(), 6, 'the unread and the new events')
})

t.test('reading continues after removed events, and ignores deleted accounts', async (t) => {
  const { db, complete, read, count } = await openWorld(t)
  await read()
  await complete(2)
  await read()
  await db.run('delete from events', [])
  await complete()
  await read()
  t.equal(await count(), 3, 'after the removal of read events')
  await db.run(`update users set deleted_at = now() where username = 'reader'`, [])
  await complete()
  await read()
  t.equal(await count(), 3)
})
