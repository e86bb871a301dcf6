import t from 'tap'
import { cacheCredentials } from '../../src/auth/credentials.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { startService } from '../fixture/service.ts'

/** How instances on one database server learn of each other's revocations. */

const skip = process.env.DATABASE_URL === undefined && 'the embedded database serves one process'

/** Milliseconds for which an instance would believe what it has cached. */
const cacheTtl = 5_000

t.test('instances on one server', { skip }, async (t) => {
  const { db, options } = await openTestDatabase(t)
  const service = await startService(t, { db })
  const elsewhereDb = openDatabase(options)
  const elsewhere = cacheCredentials(elsewhereDb)
  const sql = createClient(options)
  t.teardown(() => Promise.all([elsewhereDb.close(), sql.end()]))

  const areListening = async (): Promise<boolean> => {
    const rows = await sql`select from pg_stat_activity
      where datname = current_database() and application_name = 'taskwright-listen' and query ilike 'listen%' and state = 'idle'`
    return rows.length === 2
  }

  const signIn = async (name: string) => {
    const { id: userId, token } = await service.register(name)
    const { sid } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as {
      sid: string
    }
    const roleElsewhere = async () => (await elsewhere.ofSession(sid, userId))?.role ?? null
    return { userId, token, roleElsewhere }
  }

  await eventually('both listen', areListening)

  await t.test('a revocation is known elsewhere long before a cached credential expires', async (t) => {
    const { token, roleElsewhere } = await signIn('ada')
    const cached = performance.now()
    t.ok(await roleElsewhere())
    await service.expect('logout', 204, { token })
    await eventually('it has ended', async () => (await roleElsewhere()) === null)
    t.ok(performance.now() - cached < cacheTtl - 1_000)
  })

  await t.test('a lost connection empties the cache, since a change may have been missed', async (t) => {
    const { userId, roleElsewhere } = await signIn('bob')
    const cached = performance.now()
    t.equal(await roleElsewhere(), 'member')
    await sql`update users set role = 'admin' where id = ${userId}`
    t.equal(await roleElsewhere(), 'member', 'nobody was notified')
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'taskwright-listen'`
    await eventually('it is looked up again', async () => (await roleElsewhere()) === 'admin')
    t.ok(performance.now() - cached < cacheTtl - 1_000)
    await eventually('both listen again', areListening)
  })
})
