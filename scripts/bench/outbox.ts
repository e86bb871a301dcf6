import { type Account, createClient } from '../../test/fixture/service.ts'
import { createClient as openDatabase } from '../../src/db/engine/connection.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { onPostgres } from './on-postgres.ts'
import { cpuTime, cpuTimeOfTree } from './processes.ts'

/**
 * `npm run bench:outbox`: the processor time of the service and of PostgreSQL per write, with and without recording events. It includes
 * the readers of events. Rounds with and without events alternate, and the results are medians.
 */

/** Milliseconds. */
const deadline = 300_000

const rounds = 9
const requestsPerRound = 150

/** Tasks of a batch. */
const batch = 50

/** Maximum increase of the processor time of a write by recording events, as a ratio. */
const limit = 0.15

const eventTriggers = ['tasks_added_recorded', 'tasks_changed_recorded']

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

type Client = ReturnType<typeof createClient>

interface Write {
  readonly name: string
  /** Requests per round. */
  readonly requests: number
  readonly send: (round: number) => Promise<unknown>
}

const writesOf = async ({ expect }: Client, { token }: Account): Promise<readonly Write[]> => {
  const create = Array.from({ length: batch }, (_, index) => ({ title: `Task ${index}` }))
  const { body } = await expect('batchTasks', 200, { token, body: { create } })
  const ids = body.create.flatMap(({ task_id: id }) => id ?? [])
  const [first = ''] = ids
  let count = 0
  const title = (): string => `Title ${(count += 1)}`
  return [
    {
      name: 'creation',
      requests: requestsPerRound,
      send: () => expect('createTask', 201, { token, body: { title: title() } }),
    },
    {
      name: 'update',
      requests: requestsPerRound,
      send: () => expect('updateTask', 200, { token, params: { task_id: first }, body: { title: title() } }),
    },
    {
      name: `batch of ${batch} creations`,
      requests: requestsPerRound / 10,
      send: () => expect('batchTasks', 200, { token, body: { create } }),
    },
    {
      name: `batch of ${batch} updates`,
      requests: requestsPerRound / 10,
      send: () => {
        const patch = { title: title() }
        return expect('batchTasks', 200, {
          token,
          body: { update: ids.map((id) => ({ task_id: id, patch })) },
        })
      },
    },
  ]
}

const main = async (t: Teardown): Promise<void> => {
  await onPostgres(t, async (server, databaseUrl) => {
    const client = createClient(server.url, () => undefined)
    const sql = openDatabase({ kind: 'server', url: databaseUrl })
    t.teardown(() => sql.end())
    const [{ postmaster }] = await sql<[{ postmaster: string }]>`
      select split_part(pg_read_file('postmaster.pid'), e'\n', 1) as postmaster`
    const processorTime = async (): Promise<number> =>
      (await cpuTime(server.pid)) + (await cpuTimeOfTree(Number(postmaster)))
    const recordEvents = async (isOn: boolean): Promise<void> => {
      for (const trigger of eventTriggers)
        await sql.unsafe(`alter table tasks ${isOn ? 'enable' : 'disable'} trigger ${trigger}`)
    }
    const measure = async ({ requests, send }: Write): Promise<number> => {
      // Changing triggers invalidates plans, so statements are planned again.
      for (let count = 0; count < 12; count += 1) await send(count)
      const before = await processorTime()
      for (let request = 0; request < requests; request += 1) await send(request)
      return ((await processorTime()) - before) / requests
    }
    const writes = await writesOf(client, await client.register('writer'))
    let isMet = true
    for (const write of writes) {
      const [without, recorded]: [number[], number[]] = [[], []]
      for (let round = 0; round < rounds; round += 1)
        for (const isOn of [false, true]) {
          await recordEvents(isOn)
          ;(isOn ? recorded : without).push(await measure(write))
        }
      const [plain, whole] = [median(without), median(recorded)]
      isMet &&= whole / plain <= 1 + limit
      console.log(
        `${write.name}: ${plain.toFixed(2)} ms without events, ${whole.toFixed(2)} ms with them (${((whole / plain - 1) * 100).toFixed(0)} % more)`,
      )
    }
    console.log(isMet ? 'met' : `not met: at most ${limit * 100} % more`)
    if (!isMet) process.exitCode = 1
  })
}

await runToEnd('bench:outbox', deadline, main)
