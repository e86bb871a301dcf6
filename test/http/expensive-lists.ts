import t, { type Test } from 'tap'
import { createClient } from '../../src/db/engine/connection.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Lists that PostgreSQL cancels, because they reach `statement_timeout`. */

/** A database, and the same one, whose reads are cancelled after `timeout` ms instead of two seconds. */
const openDatabases = async (t: Test, timeout: number) => {
  const { db, options } = await openTestDatabase(t)
  const url = new URL(options.url)
  url.searchParams.set('statement_timeout', String(timeout))
  const timed = openDatabase({ ...options, url: url.href })
  t.teardown(() => timed.close())
  return { db, timed, options }
}

/** Lists of the service itself do not ask the database. */
const isDatabaseList = ({ id }: Operation): boolean =>
  /^list|^getFeedCalendar$/.test(id) && !['listTaskOccurrences', 'listOidcProviders'].includes(id)

t.test('422 for every list, search and feed', async (t) => {
  const { db, timed: hasty } = await openDatabases(t, 50)
  const service = await startService(t, { db })
  const admin = await service.register('admin')
  const { requestTo } = await prepareOperations(service, admin)
  const isList = /^\/\* (?:[^*]+\.list|task_changes\.select_\w+) \*\//
  const slow = await startService(t, {
    db: {
      ...db,
      run: (text, ...parameters) =>
        isList.test(text) ? hasty.run('select pg_sleep(600)', []) : db.run(text, ...parameters),
    },
    backgroundDb: db,
    storage: service.deps.storage,
  })
  for (const operation of operations.filter(isDatabaseList))
    await t.test(operation.id, async (t) => {
      const request = await requestTo(operation)
      t.equal((await service.call(operation.id, request)).status, 200)
      const { status, body } = await slow.call(operation.id, request)
      t.equal(status, 422)
      t.match(body, { code: 'list_too_expensive', detail: /Ask for less: a project/ })
    })
})

t.test('a list that waits for a lock is cancelled, and another read is 503', async (t) => {
  const { db, timed: hasty, options } = await openDatabases(t, 50)
  const service = await startService(t, {
    db: {
      ...db,
      run: (text, ...parameters) => (/from "?tasks/.test(text) ? hasty : db).run(text, ...parameters),
    },
    backgroundDb: db,
  })
  const ada = await service.register('ada')
  const { token } = ada
  const { id } = await taskActions(service).createTask(ada)

  const holder = createClient(options, { connection: {} })
  t.teardown(() => holder.end())
  await holder.begin(async (sql) => {
    await sql`lock table tasks in access exclusive mode`
    const { body } = await service.expect('listTasks', 422, { token, query: { filter: 'title:"nowhere"' } })
    t.match(body, { code: 'list_too_expensive' })
    const { body: other } = await service.expect('getTask', 503, { token, params: { task_id: id } })
    t.match(other, { code: 'service_unavailable', detail: /took too long. Nothing was changed/ })
    await service.expect('getReadiness', 200)
  })
})

t.test('503 for a list that an operator has cancelled', async (t) => {
  const { timed: patient, options } = await openDatabases(t, 60_000)
  const service = await startService(t, { db: patient })
  const { token } = await service.register('ada')
  const operator = createClient(options, { connection: {} })
  t.teardown(() => operator.end())
  await operator.begin(async (sql) => {
    await sql`lock table tasks in access exclusive mode`
    const list = service.expect('listTasks', 503, { token, query: { filter: 'title:"nowhere"' } })
    await eventually('the list waits and is cancelled', async () => {
      const [row] = await sql`
        select bool_or(pg_cancel_backend(pid)) as is_cancelled from pg_locks
        where relation = 'tasks'::regclass and not granted
          and database = (select oid from pg_database where datname = current_database())`
      return row?.['is_cancelled'] === true
    })
    const { body } = await list
    t.match(body, { code: 'service_unavailable', detail: /Nothing was changed/ })
  })
})
