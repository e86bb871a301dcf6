import t from 'tap'
import { runAs } from '../../../src/concurrency/work.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { DatabaseUnavailable, OutcomeUnknown } from '../../../src/db/engine/errors.ts'
import { timeLimits } from '../../../src/http/slow-clients.ts'
import { createTestDatabase } from '../../fixture/database.ts'
import { startService } from '../../fixture/service.ts'

t.test('503 means that nothing was done', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  // Long enough for all that comes before a commit, on a busy machine.
  const answer = 3_000
  const tooLong = `pg_sleep(${(answer * 2) / 1_000})`
  const service = await startService(t, { db })
  const hasty = await startService(t, { db, timeLimits: { ...timeLimits, answer } })
  const { token } = await service.register('ada')
  const create = (title: string) => hasty.call('createTask', { token, body: { title } })
  const titles = async () => {
    const { body } = await service.expect('listTasks', 200, { token })
    return body.items.map(({ title }) => title)
  }

  await t.test('503 for a write that was never sent, and it is not executed later', async (t) => {
    // So that both instances have cached the session.
    await hasty.call('getCurrentUser', { token })
    t.strictSame(await titles(), [])
    // Others have all transactions that there can be. Several callers: one who has used up their budget has only some.
    const held = Array.from({ length: 7 }, (_, index) =>
      runAs({ caller: `caller ${index}`, isAbandoned: () => false, sent: [] }, () =>
        db.transaction((tx) => tx.run(`select ${tooLong}`, []), null),
      ),
    )
    const { status, body } = await create('Never sent')
    t.equal(status, 503)
    t.match(body, { code: 'service_unavailable' })
    await Promise.all(held)
    t.notOk((await titles()).includes('Never sent'))
  })

  await t.test('504 for a write without a response in time', async (t) => {
    await db.run(
      `create function take_long() returns trigger language plpgsql as
         'begin perform ${tooLong}; return null; end'`,
      [],
    )
    // Within the commit: what was sent before it is not executed without it.
    await db.run(
      'create constraint trigger take_long after insert on tasks deferrable initially deferred for each row execute function take_long()',
      [],
    )
    const { status, body } = await create('Slow')
    t.equal(status, 504)
    t.match(body, { code: 'outcome_unknown' })
    await db.run('drop trigger take_long on tasks', [])
    t.ok((await titles()).includes('Slow'), 'the write was executed')
  })
})

t.test('503 for errors by which the server cancels a statement', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const service = await startService(t, { db })
  const { token } = await service.register('ada')
  const failWith = async (code: string): Promise<void> => {
    await db.run(
      `create or replace function fail() returns trigger language plpgsql as
         'begin raise exception using errcode = ''${code}''; end'`,
      [],
    )
    await db.run(
      'create or replace trigger fail after insert on tasks for each row execute function fail()',
      [],
    )
  }
  for (const code of ['57014', '55000', '55P03', '53200', '53100', '25006']) {
    await failWith(code)
    const { status, body } = await service.call('createTask', { token, body: { title: code } })
    t.equal(status, 503, code)
    t.match(body, { code: 'service_unavailable' })
  }
})

t.test('504 for a write whose connection is lost', async (t) => {
  const { options } = await createTestDatabase(t)
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const service = await startService(t, { db })
  const { token } = await service.register('ada')
  await db.run(
    `create function hang_up() returns trigger language plpgsql as
       'begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5); return null; end'`,
    [],
  )
  await db.run(
    'create constraint trigger hang_up after insert on tasks deferrable initially deferred for each row execute function hang_up()',
    [],
  )
  const { status, body } = await service.call('createTask', { token, body: { title: 'Lost' } })
  t.equal(status, 504)
  t.match(body, { code: 'outcome_unknown' })
  const error: unknown = await db
    .run('select pg_terminate_backend(pg_backend_pid())', [])
    .catch((error: unknown) => error)
  t.ok(
    error instanceof DatabaseUnavailable && !(error instanceof OutcomeUnknown),
    'a lost read has no unknown outcome',
  )
})
