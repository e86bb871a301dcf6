import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '../../test/fixture/service.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { onPostgres } from './on-postgres.ts'
import { cpuTime, resetPeakMemory, peakMemory, residentMemory } from './processes.ts'

/**
 * `npm run bench:streams`: the memory of 5,000 open event streams, their processor time while idle, and the time until an event reaches
 * all of them.
 */

/** Milliseconds. */
const deadline = 900_000

const users = 250
const streamsPerUser = 20

/** Maximum memory of the streams in bytes. */
const memoryLimit = 150 * 1_048_576

/** Seconds without events other than heartbeats. */
const idleSeconds = 30

const events = 20

interface Stream {
  readonly socket: Socket
  /** Number of `task.updated` events. */
  received: number
}

const openStream = async (url: URL, token: string): Promise<Stream> => {
  const socket = connect(Number(url.port), url.hostname)
  const stream: Stream = { socket, received: 0 }
  await once(socket, 'connect')
  socket.write(`GET /events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  const ready = Promise.withResolvers<void>()
  let head = ''
  socket.on('data', (bytes: Buffer) => {
    const text = bytes.toString('latin1')
    stream.received += text.split('event: task.updated').length - 1
    if (head.includes('event: ready')) return
    head += text
    if (head.includes('event: ready')) ready.resolve()
  })
  socket.on('close', () => ready.reject(new Error(`A stream ended: ${head}`)))
  await ready.promise
  return stream
}

const mebibytes = (bytes: number): number => Math.round(bytes / 1_048_576)

/** Runs `action` for every item, ten at a time. */
const forEach = async <T>(items: readonly T[], action: (item: T) => Promise<void>): Promise<void> => {
  const queue = [...items]
  const work = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await action(item)
  }
  await Promise.all(Array.from({ length: 10 }, work))
}

const main = async (t: Teardown): Promise<void> => {
  await onPostgres(t, async (server) => {
    const { expect, register } = createClient(server.url, () => undefined)
    const owner = await register('bench')
    const { token } = owner
    const { body: project } = await expect('createProject', 201, { token, body: { name: 'Shared' } })
    const accounts: { readonly id: string; readonly token: string }[] = []
    await forEach(
      Array.from({ length: users }, (_, index) => index),
      async (index) => {
        const account = await register(`user${index}`)
        accounts.push(account)
        const params = { project_id: project.id, user_id: account.id }
        await expect('setProjectMember', 201, { token, params, body: { role: 'viewer' } })
      },
    )
    const body = { title: 'Watched', project_id: project.id }
    const { body: task } = await expect('createTask', 201, { token, body })
    await pause(5_000)

    const idle = await residentMemory(server.pid)
    await resetPeakMemory(server.pid)
    const streams: Stream[] = []
    const all = accounts.flatMap((account) => Array.from({ length: streamsPerUser }, () => account))
    await forEach(all, async (account) => {
      streams.push(await openStream(new URL(server.url), account.token))
    })
    const usedBefore = await cpuTime(server.pid)
    await pause(idleSeconds * 1_000)
    const used = (await cpuTime(server.pid)) - usedBefore
    const growth = (await residentMemory(server.pid)) - idle
    const peak = (await peakMemory(server.pid)) - idle

    const times: number[] = []
    for (let count = 1; count <= events; count += 1) {
      const sent = performance.now()
      const patch = { title: `Title ${count}` }
      await expect('updateTask', 200, { token, params: { task_id: task.id }, body: patch })
      while (!streams.every(({ received }) => received >= count)) await pause(5)
      times.push(performance.now() - sent)
    }
    const after = (await residentMemory(server.pid)) - idle
    const [median = 0] = times.toSorted((a, b) => a - b).slice(events / 2)
    console.log(
      `${streams.length} streams of ${users} users: +${mebibytes(growth)} MiB (at most +${mebibytes(peak)})`,
    )
    console.log(`idle: ${(used / idleSeconds / 10).toFixed(1)} % of a processor`)
    console.log(
      `an event reaches all streams in ${Math.round(median)} ms (at most ${Math.round(Math.max(...times))} ms); +${mebibytes(after)} MiB after ${events} events`,
    )
    const isMet = Math.max(growth, after) <= memoryLimit
    console.log(isMet ? 'met' : `not met: ${mebibytes(memoryLimit)} MiB`)
    if (!isMet) process.exitCode = 1
    for (const { socket } of streams) socket.removeAllListeners('close').destroy()
  })
}

await runToEnd('bench:streams', deadline, main)
