import { localClient } from '../../../src/domain/activity/audit.ts'
import { shellPrincipal } from '../../../src/domain/shared/permissions.ts'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { runAs } from '../../../src/concurrency/work.ts'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { createClient } from '../../../src/db/engine/connection.ts'
import { createContext, transaction } from '../../../src/services/shared/context.ts'
import {
  ConstraintViolation,
  DatabaseUnavailable,
  OutcomeUnknown,
  SerializationFailure,
} from '../../../src/db/engine/errors.ts'
import { idleTransactions, last, type Runner } from '../../../src/db/engine/transaction.ts'
import { openTestDatabase } from '../../fixture/database.ts'
import { eventually } from '../../fixture/eventually.ts'

const { db, options } = await openTestDatabase(t)
await db.run('create table ledger (id int primary key, note text not null)', [])
const insert = (runner: Runner, id: number, note = 'new') =>
  runner.run('insert into ledger values ($1::int, $2::text)', [id, note])
const notes = async (...ids: readonly number[]): Promise<unknown[]> => {
  const rows = await db.run('select note from ledger where id = any ($1::int[]) order by id', [
    `{${ids.join()}}`,
  ])
  return rows.map(({ note }) => note)
}

/** A connection of its own, which ends the sessions of the service. */
const openAdmin = (t: Test) => {
  const admin = createClient(options, { connection: { application_name: 'admin' } })
  t.teardown(() => admin.end())
  const terminate = () =>
    admin`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'taskwright' and datname = current_database() and xact_start is not null`
  return { admin, terminate }
}

t.test('a transaction is committed when its work resolves, and rolled back when it rejects', async (t) => {
  t.equal(await db.transaction(async (tx) => insert(tx, 1).then(() => 'the result'), null), 'the result')
  const failing = db.transaction(async (tx) => {
    await insert(tx, 2)
    throw new Error('changed its mind')
  }, null)
  await t.rejects(failing, /changed its mind/)
  t.strictSame(await notes(1, 2), ['new'])
})

t.test('the last statement is sent with the commit', async (t) => {
  const view = await db.transaction(async (tx) => {
    await insert(tx, 3)
    return last(tx.run('select note from ledger where id = 3', []))
  }, null)
  t.strictSame([...view], [{ note: 'new' }])
  const failing = db.transaction(async (tx) => {
    await insert(tx, 4)
    return last(tx.run('select 1 / 0', []))
  }, null)
  await t.rejects(failing, /division by zero/)
  t.strictSame(await notes(4), [])
})

t.test('the first statement that fails decides, even if the work goes on', async (t) => {
  const swallowing = db.transaction(async (tx) => {
    await insert(tx, 5)
    await Promise.allSettled([insert(tx, 5), insert(tx, 6)])
    return 'done'
  }, null)
  await t.rejects(swallowing, ConstraintViolation)
  const continuing = db.transaction(async (tx) => {
    await insert(tx, 5)
    const second = insert(tx, 5)
    second.catch(() => undefined)
    await insert(tx, 6)
  }, null)
  await t.rejects(continuing, ConstraintViolation, 'not that the transaction is aborted')
  t.strictSame(await notes(5, 6), [])
})

t.test('nothing else runs within a transaction, and nothing of it after its end', async (t) => {
  await t.rejects(
    db.transaction(() => db.run('select 1', []), null),
    /A transaction is open/,
  )
  await t.rejects(
    db.transaction(() => db.transaction(async () => null, null), null),
    /A transaction is open/,
  )
  const escaped = await db.transaction(async (tx) => tx, null)
  await t.rejects(insert(escaped, 7), /has ended/)
  t.strictSame(await notes(7), [])
})

t.test('a transaction that awaits something other than the database is reported', async (t) => {
  const reports: unknown[] = []
  const report = (message: unknown): void => void reports.push(message)
  subscribe(idleTransactions.name, report)
  t.teardown(() => unsubscribe(idleTransactions.name, report))
  await db.transaction(async (tx) => {
    await insert(tx, 8)
    await Promise.all([tx.run('select 1', []), tx.run('select 2', [])])
    return last(tx.run('select 3', []))
  }, null)
  t.strictSame(reports, [])
  await db.transaction(async (tx) => {
    await insert(tx, 9)
    await pause(20)
    await tx.run('select 1', [])
  }, null)
  t.equal(reports.length, 1)
})

t.test('a transaction that meets others is repeated, and refused in the end', async (t) => {
  t.intercept(Math, 'random', { value: () => 0 })
  let attempts = 0
  const meeting = (others: number) =>
    db.transaction(async (tx) => {
      attempts += 1
      await insert(tx, 20 + others)
      if (attempts <= others) throw new SerializationFailure()
    }, null)
  await meeting(5)
  t.equal(attempts, 6)
  t.strictSame(await notes(25), ['new'], 'it was done once')
  await t.rejects(meeting(1_000), /kept changing the same rows/)
  t.strictSame(await notes(1_020), [])
})

t.test('tasks after the commit run once, and not after a rollback', async (t) => {
  const ctx = createContext(db, shellPrincipal, localClient('test'))
  const ran: string[] = []
  await transaction(ctx, async (tx) => {
    tx.afterCommit(() => ran.push('committed'))
    await insert(tx.db, 10)
    t.strictSame(ran, [])
  })
  const failing = transaction(ctx, async (tx) => {
    tx.afterCommit(() => ran.push('rolled back'))
    await insert(tx.db, 10)
  })
  await t.rejects(failing, ConstraintViolation)
  t.strictSame(ran, ['committed'])
})

t.test('work whose client was told that nothing was done is rolled back', async (t) => {
  const state = { isAbandoned: false }
  const work = { caller: 'ada', sent: [] as string[], isAbandoned: () => state.isAbandoned }
  const abandoned = runAs(work, () =>
    db.transaction(async (tx) => {
      await insert(tx, 11)
      state.isAbandoned = true
    }, null),
  )
  await t.rejects(abandoned, DatabaseUnavailable)
  t.strictSame(work.sent, [], 'no commit was sent')
  t.strictSame(await notes(11), [])
})

t.test('a view that is abandoned with its transaction fails nothing else', async (t) => {
  const state = { isAbandoned: false }
  const work = { caller: 'ada', sent: [] as string[], isAbandoned: () => state.isAbandoned }
  const abandoned = runAs(work, () =>
    db.transaction(async (tx) => {
      await insert(tx, 12)
      state.isAbandoned = true
      // An unhandled rejection would end the process.
      return last(tx.run('select 1', []))
    }, null),
  )
  await t.rejects(abandoned, DatabaseUnavailable)
  t.strictSame(await notes(12), [])
})

t.test('a BEGIN that fails fails the transaction, although its statements would succeed', async (t) => {
  const unopened = db.transaction(async (tx) => {
    await insert(tx, 13)
    await insert(tx, 14)
  }, "no uuid'")
  await t.rejects(unopened, /syntax error|unterminated/)
  t.strictSame(await notes(14), [])
})

t.test('a session that ends between two statements leaves nothing of its transaction', async (t) => {
  const { terminate } = openAdmin(t)
  for (let statement = 1; statement <= 4; statement += 1) {
    const work = { caller: 'ada', sent: [] as string[], isAbandoned: () => false }
    const interrupted = runAs(work, () =>
      db.transaction(async (tx) => {
        for (let id = 31; id <= 34; id += 1) {
          await insert(tx, id)
          if (id === 30 + statement) await terminate()
        }
      }, null),
    )
    await t.rejects(interrupted, DatabaseUnavailable)
    // The commit is sent only to a session that still seems to be alive.
    if (statement < 4) t.strictSame(work.sent, [])
    t.strictSame(await notes(31, 32, 33, 34), [])
  }
})

t.test('the outcome is unknown if the session ends during the commit', async (t) => {
  const { admin, terminate } = openAdmin(t)
  await admin`create function wait_for_lock() returns trigger language plpgsql as
    'begin perform pg_advisory_xact_lock(1); return null; end'`
  await admin`create constraint trigger waits after insert on ledger deferrable initially deferred for each row
    when (new.note = 'slow') execute function wait_for_lock()`
  await admin`select pg_advisory_lock(1)`
  const slow = db.transaction((tx) => insert(tx, 40, 'slow'), null)
  slow.catch(() => undefined)
  t.plan(2)
  await eventually('the commit waits', async () => {
    const waiting = await admin`select from pg_stat_activity
        where query = 'commit' and wait_event = 'advisory' and datname = current_database()`
    return waiting.length === 1
  })
  await terminate()
  await slow.catch((error: unknown) => t.ok(error instanceof OutcomeUnknown))
  await admin`select pg_advisory_unlock(1)`
  t.strictSame(await notes(40), [])
})

t.test('the statements of a transaction together have one deadline', async (t) => {
  const impatient = openDatabase(options, 1_000)
  t.teardown(() => impatient.close())
  const slow = impatient.transaction(async (tx) => {
    await insert(tx, 45)
    for (let count = 0; count < 10; count += 1) await tx.run('select pg_sleep(0.2)', [])
  }, null)
  await t.rejects(slow, DatabaseUnavailable)
  t.strictSame(await notes(45), [])
})

t.test('transactions that deadlock are repeated', async (t) => {
  await insert(db, 50, '')
  await insert(db, 51, '')
  const append = (runner: Runner, id: number, letter: string) =>
    runner.run('update ledger set note = note || $2::text where id = $1::int', [id, letter])
  const firsts = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const update = (index: number, ids: readonly [number, number]) =>
    db.transaction(async (tx) => {
      await append(tx, ids[0], String(index))
      firsts[index]?.resolve()
      await Promise.all(firsts.map(({ promise }) => promise))
      await append(tx, ids[1], String(index))
    }, null)
  await Promise.all([update(0, [50, 51]), update(1, [51, 50])])
  for (const note of await notes(50, 51)) t.match(note, /^(01|10)$/)
})

t.test('transactions that wait for one row do not delay a read', async (t) => {
  const { admin } = openAdmin(t)
  await insert(db, 60)
  const { admin: holder } = openAdmin(t)
  await holder.unsafe('begin')
  await holder`select from ledger where id = 60 for update`
  const writers = Array.from({ length: 20 }, (_, index) =>
    runAs({ caller: `caller ${index}`, sent: [], isAbandoned: () => false }, () =>
      db.transaction((tx) => tx.run(`update ledger set note = 'written' where id = 60`, []), null),
    ),
  )
  await eventually('seven wait for the row', async () => {
    const waiting = await admin`select from pg_stat_activity
        where query like 'update ledger%' and wait_event_type = 'Lock' and datname = current_database()`
    return waiting.length === 7
  })
  t.strictSame(await notes(60), ['new'])
  await holder`commit`
  await Promise.all(writers)
  t.strictSame(await notes(60), ['written'])
})
