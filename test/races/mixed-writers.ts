import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { purgeDeleted } from '../../src/db/tasks/purge.ts'
import { removeOldTrash } from '../../src/db/tasks/trash.ts'
import { createTestDatabase } from '../fixture/database.ts'
import { checkDerived } from '../fixture/derived.ts'
import { writeImport } from '../fixture/mixed-imports.ts'
import { mixedWrites } from '../fixture/mixed-writes.ts'
import { type Account, type Service, startService } from '../fixture/service.ts'

/**
 * Every kind of write at once, by many callers, to the same few projects, at two instances of the service. None deadlocks, not even one
 * that the service would repeat. `MIXED_WRITERS_SECONDS` is how long it takes, and `MIXED_WRITERS_SEED` repeats the choices of a run.
 */

const seconds = Number(process.env.MIXED_WRITERS_SECONDS ?? 5)
const seed = Number(process.env.MIXED_WRITERS_SEED ?? Math.floor(Math.random() * 1e9))

/** Milliseconds that all kinds of writes may take to have succeeded once, however slow the machine is. */
const patience = 120_000

const { options } = await createTestDatabase(t)

/** Two instances of the service. Each has its own connections. */
const startTwo = async (t: Test) => {
  const databases = [openDatabase(options), openDatabase(options)] as const
  const services = [
    await startService(t, { db: databases[0] }),
    await startService(t, { db: databases[1] }),
  ] as const
  const close = async (): Promise<void> => {
    for (const { app } of services) await app.close()
    for (const db of databases) await db.close()
  }
  return { services, databases, close }
}

t.test(`every kind of write at once for ${seconds} s, seed ${seed}`, async (t) => {
  const { services, databases, close } = await startTwo(t)
  const world = await mixedWrites(services[0], seed)
  const start = performance.now()
  const succeeded = new Set<string>()
  const failures: string[] = []

  const passed = (): number => performance.now() - start
  const missing = (): readonly string[] => world.kinds.filter((kind) => !succeeded.has(kind))
  const isOver = (): boolean => passed() > seconds * 1_000 && (missing().length === 0 || passed() > patience)
  const writeOnce = async (caller: Account, service: Service): Promise<void> => {
    const [kind, { operation, done, by = caller, ...call }] = world.next(
      passed() > seconds * 1_000 ? missing() : [],
    )
    const { status, body } = await service.call(operation, { ...call, token: by.token })
    if (status >= 500) failures.push(`${kind}: ${status} ${JSON.stringify(body)}`)
    if (status === 404) world.miss(by, call.params)
    if (status >= 300) return
    succeeded.add(kind)
    done?.(body)
  }
  const writeUntilOver = async (caller: Account, index: number): Promise<void> => {
    while (!isOver()) await writeOnce(caller, services[index % 2 === 0 ? 0 : 1])
  }
  const purgeUntilOver = async (): Promise<void> => {
    const stop = new AbortController().signal
    const [one, other] = databases
    while (!isOver()) {
      await pause(1_500)
      await world.tidy()
      await Promise.all([removeOldTrash(one, 0, stop), purgeDeleted(other, stop)])
    }
  }
  const importUntilOver = async (db: Database, service: Service): Promise<void> => {
    while (!isOver())
      await writeImport(db, service, world.nextImport()).catch((error: unknown) => {
        failures.push(`import: ${String(error)}`)
      })
  }
  await Promise.all([
    ...world.callers.map(writeUntilOver),
    purgeUntilOver(),
    importUntilOver(databases[0], services[0]),
    importUntilOver(databases[1], services[1]),
  ])
  // Sessions report their deadlocks when they end.
  await close()

  const db = openDatabase(options)
  t.teardown(() => db.close())
  const [row] = await db.run(
    'select deadlocks::int from pg_stat_database where datname = current_database()',
    [],
  )
  t.strictSame(failures, [], 'nothing fails')
  t.equal(row?.deadlocks, 0, 'nothing deadlocks')
  t.strictSame(missing(), [], 'every kind of write succeeds')
  await checkDerived(t, db)
})
