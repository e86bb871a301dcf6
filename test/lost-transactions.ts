import t from 'tap'
import type { Database } from '../src/db/engine/client.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import { openTestDatabase } from './fixture/database.ts'
import { type Operation, operations, prepareOperations } from './fixture/operations.ts'
import { startService } from './fixture/service.ts'

/** The database ends the session of a write after each of its statements: nothing of the write is left, and the client is told so. */

const { db, options } = await openTestDatabase(t)
const skip = options.kind === 'embedded' && 'the embedded database has one session'

/** The statements of the current transaction, and the one after which its session ends. */
const statements = { count: 0, last: Number.POSITIVE_INFINITY }

const endingSessions = (database: Database): Database => ({
  ...database,
  transaction: (body, actor) =>
    database.transaction((transaction) => {
      statements.count = 0
      return body({
        ...transaction,
        async run(...parameters) {
          const rows = await transaction.run(...parameters)
          statements.count += 1
          if (statements.count === statements.last)
            await transaction.run('select pg_terminate_backend(pg_backend_pid())', []).catch(() => undefined)
          return rows
        },
      })
    }, actor),
})

const service = await startService(t, {
  db,
  aroundDatabase: endingSessions,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 3_600_000 },
})
const { requestTo } = await prepareOperations(service, await service.register('admin'))

/** What the service has stored, but for the use of credentials. */
const stored = async (): Promise<string> => {
  const tables = await db.run(
    `select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'
      and table_name not in ('attempts', 'leases', 'retention') order by table_name`,
    [],
  )
  const row = `(to_jsonb(stored) - 'last_used_at')::text`
  const digests = tables.map(
    ({ name }) =>
      `select '${String(name)}', md5(coalesce(string_agg(${row}, ' ' order by ${row}), '')) from ${String(name)} stored`,
  )
  return JSON.stringify(await db.run(digests.join(' union all '), []))
}

const readMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

const isRead = ({ method }: Operation): boolean => readMethods.has(method)

// A notification is made by a reader of events, which would change what is stored meanwhile.
for (const operation of operations.filter((one) => !isRead(one) && one.id !== 'updateNotification'))
  t.test(operation.id, { skip }, async (t) => {
    statements.count = 0
    const { status } = await service.call(operation.id, await requestTo(operation))
    t.ok(status < 300)
    const { count } = statements
    for (let last = 1; last <= count; last += 1) {
      const request = await requestTo(operation)
      const before = await stored()
      statements.last = last
      const reply = await service.call(operation.id, request)
      statements.last = Number.POSITIVE_INFINITY
      t.match(
        reply,
        { status: 503, body: { code: 'service_unavailable' } },
        `after statement ${last} of ${count}`,
      )
      t.equal(await stored(), before, `nothing is left after statement ${last} of ${count}`)
    }
  })
