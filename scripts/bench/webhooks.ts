import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Account, createClient } from '../../test/fixture/service.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { onPostgres } from './on-postgres.ts'
import { cpuTime, type Server, startServer } from './processes.ts'

/**
 * `npm run bench:webhooks`: how long an event takes to reach the receiver of a webhook while others write, and what webhooks cost the
 * requests. Batches change 1,000 tasks a second: without webhooks, with 20 webhooks of which each event concerns one, and with
 * 20 that every event concerns. The receiver and this client run on the same processors.
 */

/** Milliseconds for all of it. */
const deadline = 300_000

const webhooks = 20

/** Tasks that a batch changes, and batches per second. */
const batch = 50
const batchesPerSecond = 20

/** Seconds of each part, and at most to wait for what is still to arrive. */
const seconds = 12
const maxDrain = 8

/** Milliseconds in which 99 of 100 deliveries arrive. */
const lagLimit = 2_000

/** How many times as long as without webhooks a request may take. */
const slowdownLimit = 1.5

const quantile = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN

/** A user, and their tasks. */
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
  /** Of a processor. */
  readonly processor: number
}

type Client = ReturnType<typeof createClient>

/** Changes tasks at a steady rate, as far as the service keeps up, and reads a task meanwhile. */
const putUnderLoad = async (
  { expect }: Client,
  writers: readonly Writer[],
): Promise<Pick<Part, 'read' | 'write' | 'events'>> => {
  const begun = performance.now()
  const end = begun + seconds * 1_000
  const writes: number[] = []
  const reads: number[] = []
  let next = 0
  const write = async (): Promise<void> => {
    for (;;) {
      const count = (next += 1)
      const at = begun + (count * 1_000) / batchesPerSecond
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
  const arrived = async (): Promise<readonly number[]> =>
    (await (await fetch(receiver.url)).json()) as readonly number[]
  await arrived()
  const [begun, used] = [performance.now(), await cpuTime(server.pid)]
  const load = await putUnderLoad(client, writers)
  const processor = ((await cpuTime(server.pid)) - used) / (performance.now() - begun)
  const during = await arrived()
  const perSecond = (during.length * 1_000) / (performance.now() - begun)
  const lags = [...during]
  const drained = performance.now() + maxDrain * 1_000
  while (lags.length < load.events * perEvent && performance.now() < drained) {
    await pause(100)
    lags.push(...(await arrived()))
  }
  return { name, ...load, lags, perSecond, processor }
}

const report = ({ name, events, read, write, lags, perSecond, processor }: Part, expected: number): void => {
  console.log(
    `${name}: ${Math.round(events / seconds)} events/s; a read p50 ${read.toFixed(1)} ms, a batch ${write.toFixed(1)} ms; ${processor.toFixed(2)} of a processor`,
  )
  if (expected > 0)
    console.log(
      `  ${Math.round(perSecond)} deliveries/s; lag p50 ${Math.round(quantile(lags, 0.5))} ms, p99 ${Math.round(quantile(lags, 0.99))} ms; ${lags.length} of ${expected} within ${maxDrain} s of the end`,
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
      console.log(`load of the machine before: ${loadavg()[0]?.toFixed(1)}`)
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
      const under = { client, server, receiver }

      const without = await measure('without webhooks', 0, under, own)
      report(without, 0)
      for (const { token } of owners)
        await expect('createWebhook', 201, {
          token,
          body: { url: receiver.url, event_types: ['task.updated'] },
        })
      const each = await measure('each event for one of 20 webhooks', 1, under, own)
      report(each, each.events)
      const all = await measure('each event for 20 webhooks', webhooks, under, shared)
      report(all, all.events * webhooks)
      const isMet =
        each.lags.length === each.events &&
        quantile(each.lags, 0.99) <= lagLimit &&
        each.read <= slowdownLimit * without.read
      console.log(
        isMet
          ? 'met'
          : `not met, with one webhook for each event: p99 ${lagLimit} ms, a read in ${slowdownLimit} of the time`,
      )
      if (!isMet) process.exitCode = 1
    },
    { WEBHOOK_ALLOW: '127.0.0.1' },
  )
}

await runToEnd('bench:webhooks', deadline, main)
