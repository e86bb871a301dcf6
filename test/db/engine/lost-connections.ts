import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { createClient } from '../../../src/db/engine/connection.ts'
import { DatabaseUnavailable } from '../../../src/db/engine/errors.ts'
import { openTestDatabase } from '../../fixture/database.ts'

const skip = process.env.DATABASE_URL === undefined && 'nothing ends the connection of the embedded database'

t.test('after all connections were ended under load nothing fails or waits', { skip }, async (t) => {
  const { db, options } = await openTestDatabase(t)
  const admin = createClient(options, { connection: { application_name: 'admin' } })
  t.teardown(() => admin.end())
  const endConnections = (): Promise<unknown> =>
    admin`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'taskwright' and datname = current_database()`
  const ask = (): Promise<unknown> => db.run('select $1::int', [1])

  const state = { isOver: false }
  const failures: unknown[] = []
  const askOn = async (): Promise<void> => {
    while (!state.isOver) await ask().catch((error: unknown) => failures.push(error))
  }
  const asking = Array.from({ length: 30 }, askOn)
  for (let time = 0; time < 5; time += 1) {
    await pause(20)
    await endConnections()
  }
  const ended = performance.now()
  await pause(200)
  state.isOver = true
  await Promise.all(asking)
  t.ok(failures.length > 0, 'some were lost')
  t.ok(failures.every((failure) => failure instanceof DatabaseUnavailable))

  await Promise.all(Array.from({ length: 30 }, ask))
  const time = Math.round(performance.now() - ended)
  // Less than a connection that does not come about is waited for.
  t.ok(time < 4_500, `all of it is over in ${time} ms`)
})
