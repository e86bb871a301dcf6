import t from 'tap'
import type { Database } from '../src/db/engine/client.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import type { Runner } from '../src/db/engine/transaction.ts'
import { openTestDatabase } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { type Operation, operations, prepareOperations } from './fixture/operations.ts'
import { startService } from './fixture/service.ts'

/** The database ends the session of a write after each of its statements: nothing of the write is left, and the client is told so. */

const { db } = await openTestDatabase(t)

const endSession = async (transaction: Runner): Promise<void> => {
  await transaction.run('select pg_terminate_backend(pg_backend_pid())', []).catch(() => undefined)
}

/** The statements of the current transaction, and the one after which its session ends. */
const statements = { count: 0, last: Number.POSITIVE_INFINITY }

const endingSessions = (database: Database): Database => ({
  ...database,
  transaction: (body, actor) =>
    database.transaction(async (transaction) => {
      statements.count = 0
      // What is sent with the commit does not delay it.
      let isCommitting = false
      const result = await body({
        ...transaction,
        async run(...parameters) {
          const rows = await transaction.run(...parameters)
          if (isCommitting) return rows
          statements.count += 1
          if (statements.count === statements.last) await endSession(transaction)
          return rows
        },
      })
      isCommitting = true
      return result
    }, actor),
})

const service = await startService(t, {
  db,
  aroundDatabase: endingSessions,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 3_600_000 },
})
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))

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

const countsAttempts: ReadonlySet<string> = new Set([
  'login',
  'completeLogin',
  'reauthenticate',
  'changePassword',
  'enrollSecondFactor',
  'confirmSecondFactor',
  'disableSecondFactor',
])

// A reader of events makes a notification, a delivery is sent, or an export is made, which would change what is stored meanwhile.
const changesBehind: ReadonlySet<string> = new Set([
  'updateNotification',
  'testWebhook',
  'redeliverWebhook',
  'createExport',
])

// Keeps the bytes that it has stored, or has used its code up, whatever happens to the transactions after.
const takesSteps: ReadonlySet<string> = new Set(['appendUpload', 'exchangeOidcCode', 'linkIdentity'])

const isTried = (one: Operation): boolean =>
  !isRead(one) && !changesBehind.has(one.id) && !takesSteps.has(one.id)

/** Jobs remove deleted files and read those of imports, which would change what is stored meanwhile. */
const jobsToEnd = () =>
  eventually('jobs have ended', async () => {
    const left = `select from file_deletions union all select from imports where status in ('reading', 'running', 'undoing') limit 1`
    return (await db.run(left, [])).length === 0
  })

for (const operation of operations.filter(isTried))
  t.test(operation.id, async (t) => {
    const first = await requestTo(operation, { world: await newWorld() })
    statements.count = 0
    const { status } = await service.call(operation.id, first)
    t.ok(status < 300)
    const { count } = statements
    for (let last = 1; last <= count; last += 1) {
      const request = await requestTo(operation, { world: await newWorld() })
      await jobsToEnd()
      const before = await stored()
      statements.last = last
      const reply = await service.call(operation.id, request)
      statements.last = Number.POSITIVE_INFINITY
      // An attempt at a password or code was counted before, so that the service cannot say that it has written nothing.
      t.match(
        reply,
        countsAttempts.has(operation.id)
          ? { status: 504, body: { code: 'outcome_unknown' } }
          : { status: 503, body: { code: 'service_unavailable' } },
        `after statement ${last} of ${count}`,
      )
      await db.run('delete from attempts', [])
      t.equal(await stored(), before, `nothing is left after statement ${last} of ${count}`)
    }
  })
