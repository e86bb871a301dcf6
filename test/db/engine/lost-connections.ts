import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { createClient } from '../../../src/db/engine/connection.ts'
import { DatabaseUnavailable } from '../../../src/db/engine/errors.ts'
import { openTestDatabase } from '../../fixture/database.ts'

t.test('statements succeed again after all connections were terminated under load', async (t) => {
  const { db, options } = await openTestDatabase(t)
  const admin = createClient(options, { connection: { application_name: 'admin' } })
  t.teardown(() => admin.end())
  const terminateConnections = (): Promise<unknown> =>
    admin`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'taskwright' and datname = current_database()`
  const query = (): Promise<unknown> => db.run('select $1::int', [1])

  const state = { isOver: false }
  const failures: unknown[] = []
  const queryRepeatedly = async (): Promise<void> => {
    while (!state.isOver) await query().catch((error: unknown) => failures.push(error))
  }
  const querying = Array.from({ length: 30 }, queryRepeatedly)
  for (let time = 0; time < 5; time += 1) {
    await pause(20)
    await terminateConnections()
  }
  const ended = performance.now()
  await pause(200)
  state.isOver = true
  await Promise.all(querying)
  t.ok(failures.length > 0, 'some statements failed')
  t.ok(failures.every((failure) => failure instanceof DatabaseUnavailable))

  await Promise.all(Array.from({ length: 30 }, query))
  const time = Math.round(performance.now() - ended)
  // Less than the connection timeout.
  t.ok(time < 4_500, `${time} ms`)
})
