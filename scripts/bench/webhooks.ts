import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Account, createClient } from '../../test/fixture/service.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { onPostgres } from './on-postgres.ts'
import { cpuTime, type Server, startServer } from './processes.ts'

/**
 * `npm run bench:webhooks`: the lag of webhook deliveries setup load, and the effect of webhooks on the response time of requests.
 * Batches update 1,000 tasks per second: without webhooks; with 20 webhooks, where each event matches one; and with 20 webhooks, where
 * each event matches all. The receiver and this client run on the same processors.
 */

/** Milliseconds. */
const deadline = 300_000

const webhooks = 20

/** Tasks per batch. */
const batch = 50
const batchesPerSecond = 20

/** Seconds of load in each part, and the maximum wait for outstanding deliveries. */
const seconds = 12
const maxDrain = 8

/** Maximum p99 of the lag in milliseconds. */
const lagLimit = 2_000

/** Maximum ratio of the response time of a read to that without webhooks. */
const slowdownLimit = 1.5

const quantile = (values: readonly number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * q)] ?? Number.NaN

/** A user who updates tasks. */
interface Writer {
  readonly token: string
  readonly tasks: readonly string[]
}

interface Part {
  readonly name: string
  readonly events: number
  readonly read: number
  readonly write: number
  readonly lags: readonly number[]
  readonly perSecond: number
  /** Processors that the service uses on average. */
  readonly processor: number
}

type Client = ReturnType<typeof createClient>

/** Updates tasks at a steady rate, if the service keeps up, and reads a task in the meantime. */
const generateLoad = async (
  { expect }: Client,
  writers: readonly Writer[],
): Promise<Pick<Part, 'read' | 'write' | 'events'>> => {
  const startedAt = performance.now()
  const end = startedAt + seconds * 1_000
  const writes: number[] = []
  const reads: number[] = []
  let next = 0
  const write = async (): Promise<void> => {
    for (;;) {
      const count = (next += 1)
      const at = startedAt + (count * 1_000) / batchesPerSecond
      if (Math.max(at, performance.now()) >= end) return
      await pause(Math.max(0, at - performance.now()))
      const { token, tasks } = writers[count % writers.length] ?? { token: '', tasks: [] }
      const update = tasks.map((id) => ({ task_id: id, patch: { title: `Title ${count}` } }))
      const sent = performance.now()
      await expect('batchTasks', 200, { token, body: { update } })
      writes.push(performance.now() - sent)
    }
  }
  const read = async (): Promise<void> => {
    const { token, tasks } = writers[0] ?? { token: '', tasks: [] }
    while (performance.now() < end) {
      const sent = performance.now()
      await expect('getTask', 200, { token, params: { task_id: tasks[0] ?? '' } })
      reads.push(performance.now() - sent)
      await pause(10)
    }
  }
  await Promise.all([write(), write(), write(), write(), read()])
  return { read: quantile(reads, 0.5), write: quantile(writes, 0.5), events: writes.length * batch }
}

const measure = async (
  name: string,
  perEvent: number,
  {
    client,
    server,
    receiver,
  }: { readonly client: Client; readonly server: Server; readonly receiver: Server },
  writers: readonly Writer[],
): Promise<Part> => {
  const receivedLags = async (): Promise<readonly number[]> =>
    (await (await fetch(receiver.url)).json()) as readonly number[]
  await receivedLags()
  const [startedAt, used] = [performance.now(), await cpuTime(server.pid)]
  const load = await generateLoad(client, writers)
  const processor = ((await cpuTime(server.pid)) - used) / (performance.now() - startedAt)
  const during = await receivedLags()
  const perSecond = (during.length * 1_000) / (performance.now() - startedAt)
  const lags = [...during]
  const drainEnd = performance.now() + maxDrain * 1_000
  while (lags.length < load.events * perEvent && performance.now() < drainEnd) {
    await pause(100)
    lags.push(...(await receivedLags()))
  }
  return { name, ...load, lags, perSecond, processor }
}

const report = ({ name, events, read, write, lags, perSecond, processor }: Part, expected: number): void => {
  console.log(
    `${name}: ${Math.round(events / seconds)} events/s; p50 of a read ${read.toFixed(1)} ms, of a batch ${write.toFixed(1)} ms; ${processor.toFixed(2)} processors`,
  )
  if (expected > 0)
    console.log(
      `  ${Math.round(perSecond)} deliveries/s; lag p50 ${Math.round(quantile(lags, 0.5))} ms, p99 ${Math.round(quantile(lags, 0.99))} ms; ${lags.length} of ${expected} delivered at most ${maxDrain} s after the load`,
    )
}

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-receiver-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const receiver = await startServer(t, {
    program: 'webhook-receiver.ts',
    environment: {},
    core: null,
    folder,
  })
  await onPostgres(
    t,
    async (server) => {
      const client = createClient(server.url, () => undefined)
      const { expect } = client
      console.log(`load average before: ${loadavg()[0]?.toFixed(1)}`)
      const owners: Account[] = []
      for (let index = 0; index < webhooks; index += 1) owners.push(await client.register(`user${index}`))
      const [first] = owners
      if (first === undefined) throw new Error('There are no users')
      const { body: project } = await expect('createProject', 201, {
        token: first.token,
        body: { name: 'Shared' },
      })
      for (const { id } of owners.slice(1)) {
        const params = { project_id: project.id, user_id: id }
        await expect('setProjectMember', 201, { token: first.token, params, body: { role: 'viewer' } })
      }
      const writerOf = async (
        { token }: Account,
        fields: { readonly project_id?: string },
      ): Promise<Writer> => {
        const create = Array.from({ length: batch }, (_, index) => ({ title: `Task ${index}`, ...fields }))
        const { body } = await expect('batchTasks', 200, { token, body: { create } })
        return { token, tasks: body.create.flatMap(({ task_id: id }) => id ?? []) }
      }
      const own: Writer[] = []
      for (const owner of owners) own.push(await writerOf(owner, {}))
      const shared = [await writerOf(first, { project_id: project.id })]
      const setup = { client, server, receiver }

      const without = await measure('without webhooks', 0, setup, own)
      report(without, 0)
      for (const { token } of owners)
        await expect('createWebhook', 201, {
          token,
          body: { url: receiver.url, event_types: ['task.updated'] },
        })
      const each = await measure('each event for one of 20 webhooks', 1, setup, own)
      report(each, each.events)
      const all = await measure('each event for 20 webhooks', webhooks, setup, shared)
      report(all, all.events * webhooks)
      const isMet =
        each.lags.length === each.events &&
        quantile(each.lags, 0.99) <= lagLimit &&
        each.read <= slowdownLimit * without.read
      console.log(
        isMet
          ? 'met'
          : `not met with one webhook per event: p99 of the lag at most ${lagLimit} ms, a read at most ${slowdownLimit} times as long`,
      )
      if (!isMet) process.exitCode = 1
    },
    { WEBHOOK_ALLOW: '127.0.0.1' },
  )
}

await runToEnd('bench:webhooks', deadline, main)
