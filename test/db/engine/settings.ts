import t from 'tap'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { createTestDatabase } from '../../fixture/database.ts'

t.test('JIT compilation is off', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const rows = await db.run(`select current_setting('jit')::bool and pg_jit_available() as compiles`, [])
  t.strictSame([...rows], [{ compiles: false }])
})
