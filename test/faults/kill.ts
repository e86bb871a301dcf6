import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { readPidFile } from '../../src/postgres/cluster.ts'
import { copyTemplate } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** Kills the service, its PostgreSQL, or both, while they write. No acknowledged write is lost. */

const rounds = Number(process.env.FAULT_ROUNDS ?? 25)

/** `own` is the DATA_DIR of a service that has started PostgreSQL itself. */
const killRepeatedly = async (
  t: Test,
  environment: Readonly<Record<string, string>>,
  own?: string,
): Promise<void> => {
  const acknowledged: string[] = []
  let token = ''

  const write = async ({ call }: ReturnType<typeof createClient>): Promise<void> => {
    for (;;) {
      const { status, body } = await call('createTask', { token, body: { title: 'Before the kill' } })
      if (status === 201) acknowledged.push((body as { id: string }).id)
    }
  }

  for (let round = 1; round <= rounds; round += 1) {
    await t.test(`kill ${round}`, async (t) => {
      const service = await startProcess(t, environment)
      const client = createClient(service.url)
      if (token === '') ({ token } = await client.register('ada'))
      // The writers stop when their connections are lost.
      const writers = Array.from({ length: 8 }, () => write(client).catch(() => undefined))
      const before = acknowledged.length
      await eventually('a write is acknowledged', async () => acknowledged.length > before, 120_000)
      await pause(Math.random() * 500)
      // First PostgreSQL alone, for a while, then both at once, then the service alone.
      if (own !== undefined && round % 3 > 0) process.kill((await readPidFile(own))?.pid ?? 0, 'SIGKILL')
      if (round % 3 === 1) await pause(Math.random() * 800)
      t.equal(await service.end('SIGKILL'), null)
      await Promise.all(writers)
    })
  }

  await t.test('all acknowledged tasks exist', async (t) => {
    const service = await startProcess(t, environment)
    const { expect } = createClient(service.url)
    // The token expires during many rounds.
    const { body } = await expect('login', 200, {
      body: { email: 'ada@example.com', password: 'password of ada' },
    })
    token = body.access_token
    for (const task_id of acknowledged) await expect('getTask', 200, { token, params: { task_id } })
    t.comment(`${acknowledged.length} tasks after ${rounds} kills`)
    t.equal(await service.end('SIGTERM'), 0)
  })
}

// Beside each other, because both mostly wait.
t.jobs = 2

t.test('with PostgreSQL of the service', { buffered: true }, async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await killRepeatedly(t, { DATA_DIR }, DATA_DIR)
})

t.test('on a server', { buffered: true }, async (t) =>
  killRepeatedly(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }),
)
