import t from 'tap'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Lists that PostgreSQL cancels, because they reach `statement_timeout`. */

/** The same database, whose reads are cancelled after 50 ms instead of two seconds. */
const impatient = ({ url, ...options }: ServerConnection): ServerConnection => {
  const hasty = new URL(url)
  hasty.searchParams.set('statement_timeout', '50')
  return { ...options, url: hasty.href }
}

/** Lists of the service itself do not ask the database. */
const isDatabaseList = ({ id }: Operation): boolean =>
  /^list|^getFeedCalendar$/.test(id) && !['listOccurrences', 'listOidcProviders'].includes(id)

t.test('422 for every list, search and feed', async (t) => {
  const { db, options } = await openTestDatabase(t)
  const hasty = openDatabase(impatient(options))
  t.teardown(() => hasty.close())
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

t.test('a list that waits for a lock is cancelled, and any other read or write is 503', async (t) => {
  const { db, options } = await openTestDatabase(t)
  const hasty = openDatabase(impatient(options))
  t.teardown(() => hasty.close())
  const service = await startService(t, { db })
  const ada = await service.register('ada')
  const { token } = ada
  const { id } = await taskActions(service).createTask(ada)
  const slow = await startService(t, { db: hasty, backgroundDb: db })
  // The session of the caller is cached.
  await slow.expect('getCurrentUser', 200, { token })

  const holder = createClient(options)
  t.teardown(() => holder.end())
  await holder.begin(async (sql) => {
    await sql`lock table tasks in access exclusive mode`
    const { body } = await slow.expect('listTasks', 422, { token, query: { filter: 'title:"nowhere"' } })
    t.match(body, { code: 'list_too_expensive' })
    const { body: other } = await slow.expect('getTask', 503, { token, params: { task_id: id } })
    t.match(other, { code: 'service_unavailable', detail: /took too long. Nothing was changed/ })
    t.equal((await slow.call('getReadiness', {})).status, 200)
  })
})
