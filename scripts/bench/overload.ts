import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '../../test/fixture/service.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { type Load, putUnderLoad } from './load.ts'
import { onPostgres } from './on-postgres.ts'
import { forgetPeakMemory, peakMemory } from './processes.ts'

/**
 * `npm run bench:overload`: what becomes of the service when ten times as many connections as it needs ask at once, and,
 * judged by its memory alone, more than it takes requests. It compares rates of one run, so that a slow machine makes no
 * difference.
 */

/** Milliseconds for all of it. */
const deadline = 300_000

/** The least part of the best rate that is left. */
const leastRate = 0.8

/** Milliseconds that health may take, beside the load generator on the same processors. */
const healthLimit = 200

/** Bytes that the process may take under any of these loads. */
const memoryLimit = 512 * 1024 * 1024

const seconds = 5
const probes = 50

/** The slowest of some probes of an address, on a connection of its own each as those of a monitor are. */
const slowestProbe = async (url: string): Promise<number> => {
  let slowest = 0
  for (let probe = 0; probe < probes; probe += 1) {
    const begun = performance.now()
    const response = await fetch(url, { headers: { connection: 'close' } })
    await response.text()
    if (response.status !== 200) throw new Error(`${url} answered ${response.status}`)
    slowest = Math.max(slowest, performance.now() - begun)
    await pause(40)
  }
  return slowest
}

const main = async (t: Teardown): Promise<void> => {
  await onPostgres(t, async (server) => {
    const { expect, register } = createClient(server.url, () => undefined)
    const { token } = await register('bench')
    const { body: task } = await expect('createTask', 201, { token, body: { title: 'Asked for' } })
    const load: Load = {
      method: 'GET',
      paths: [`/tasks/${task.id}`],
      headers: { authorization: `Bearer ${token}` },
      bodies: [],
    }
    const measure = async (connections: number) => {
      await forgetPeakMemory(server.pid)
      const [measured, live, ready] = await Promise.all([
        putUnderLoad(server.url, load, { connections, seconds }),
        slowestProbe(`${server.url}/health/live`),
        slowestProbe(`${server.url}/health/ready`),
      ])
      const { requests, perSecond, refused, broken } = measured
      const answered = (perSecond * (requests - refused)) / requests
      return { answered, refused, broken, live, ready, memory: await peakMemory(server.pid) }
    }

    await putUnderLoad(server.url, load, { connections: 64, seconds: 2 })
    const best = await measure(64)
    console.log(`64 connections: ${Math.round(best.answered)}/s`)
    let isMet = true
    for (const { connections, isTaken } of [
      { connections: 640, isTaken: true },
      { connections: 2_560, isTaken: false },
    ]) {
      const { answered, refused, broken, live, ready, memory } = await measure(connections)
      const ratio = answered / best.answered
      isMet &&= memory <= memoryLimit
      if (isTaken) isMet &&= ratio >= leastRate && broken === 0 && Math.max(live, ready) <= healthLimit
      console.log(
        `${connections} connections: ${ratio.toFixed(2)} of it, ${refused} refused, ${broken} broken; live within ${Math.round(live)} ms, ready within ${Math.round(ready)} ms; ${Math.round(memory / 2 ** 20)} MiB at most`,
      )
    }
    console.log(
      isMet
        ? 'met'
        : `not met: at least ${leastRate} of the rate, health within ${healthLimit} ms, ${memoryLimit / 2 ** 20} MiB`,
    )
    if (!isMet) process.exitCode = 1
  })
}

await runToEnd('bench:overload', deadline, main)
