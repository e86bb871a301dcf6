import t from 'tap'
import { runAs } from '../../../src/concurrency/work.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'
import type { Runner } from '../../../src/db/engine/transaction.ts'
import { createTestDatabase } from '../../fixture/database.ts'

const { options } = await createTestDatabase(t)
const db = openDatabase(options)
t.teardown(() => db.close())

t.test('JIT compilation is off', async (t) => {
  const rows = await db.run(`select current_setting('jit')::bool and pg_jit_available() as compiles`, [])
  t.strictSame([...rows], [{ compiles: false }])
})

t.test('reads are cancelled after two seconds, statements of transactions and jobs later', async (t) => {
  const read = ({ run }: Pick<Runner, 'run'>) =>
    run(`select current_setting('statement_timeout') as value`, [])
  const inRequest = <T>(task: () => T): T =>
    runAs({ caller: 'ada', isAbandoned: () => false, sent: [] }, task)
  t.match(await inRequest(() => read(db)), [{ value: '2s' }])
  t.match(await inRequest(() => db.transaction(read, null)), [{ value: '8s' }])
  t.match(await read(db), [{ value: '8s' }])
  t.match(await inRequest(() => read(db)), [{ value: '2s' }], 'it is that of the session again')
})
