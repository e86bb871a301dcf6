import t from 'tap'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { createClient } from '../../../src/db/engine/connection.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { eventually } from '../../fixture/eventually.ts'
import { startService } from '../../fixture/service.ts'

t.test('reads succeed and writes are 503 while the database is read-only', async (t) => {
  const { options } = await createTestDatabase(t)
  const open = () => {
    const db = openDatabase(options)
    t.teardown(() => db.close())
    return db
  }
  const before = await startService(t, { db: open() })
  const { token } = await before.register('ada')
  const { body: made } = await before.expect('createApiToken', 201, {
    token,
    body: { name: 'reader', scopes: ['tasks:read'] },
  })

  const sql = createClient(options)
  t.teardown(() => sql.end())
  const [row] = await sql<{ name: string }[]>`select current_database() as name`
  await sql.unsafe(`alter database ${row?.name} set default_transaction_read_only = on`)

  // With empty caches and its own connections.
  const service = await startService(t, { db: open(), secrets: before.deps.secrets })
  await service.expect('listTasks', 200, { token })
  await service.expect('listTasks', 200, { token: made.token })
  await service.expect('createTask', 503, { token, body: { title: 'Refused' } })
  await service.expect('getReadiness', 200)

  // Existing sessions stay read-only, like those to a primary that has become a standby.
  await sql.unsafe(`alter database ${row?.name} reset default_transaction_read_only`)
  const write = () => service.call('createTask', { token, body: { title: 'Accepted' } })
  await eventually('writes go to new connections', async () => (await write()).status === 201)
})
