import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '../../test/fixture/service.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { type Load, generateLoad } from './load.ts'
import { onPostgres } from './on-postgres.ts'
import { resetPeakMemory, peakMemory } from './processes.ts'

/**
 * `npm run bench:overload`: the service with ten times as many connections as it needs, and with more requests than it accepts, for
 * which only memory has a target. Rates are compared within one run, so that the speed of the machine does not matter.
 */

/** Milliseconds. */
const deadline = 300_000

/** Minimum rate, as a ratio to the best rate. */
const minRate = 0.8

/** Maximum response time of health checks in milliseconds. The load generator runs on the same processors. */
const healthLimit = 200

/** Maximum memory of the process in bytes. */
const memoryLimit = 512 * 1024 * 1024

const seconds = 5
const probes = 50

/** The slowest of some probes of a URL. Each uses a new connection, like those of a monitor. */
const slowestProbe = async (url: string): Promise<number> => {
  let slowest = 0
  for (let probe = 0; probe < probes; probe += 1) {
    const startedAt = performance.now()
    const response = await fetch(url, { headers: { connection: 'close' } })
    await response.text()
    if (response.status !== 200) throw new Error(`${url} returned ${response.status}`)
    slowest = Math.max(slowest, performance.now() - startedAt)
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
      await resetPeakMemory(server.pid)
      const [result, live, ready] = await Promise.all([
        generateLoad(server.url, load, { connections, seconds }),
        slowestProbe(`${server.url}/health/live`),
        slowestProbe(`${server.url}/health/ready`),
      ])
      const { requests, perSecond, errorResponses, socketErrors } = result
      const succeeded = (perSecond * (requests - errorResponses)) / requests
      return { succeeded, errorResponses, socketErrors, live, ready, memory: await peakMemory(server.pid) }
    }

    await generateLoad(server.url, load, { connections: 64, seconds: 2 })
    const best = await measure(64)
    console.log(`64 connections: ${Math.round(best.succeeded)}/s`)
    let isMet = true
    for (const { connections, isAccepted } of [
      { connections: 640, isAccepted: true },
      { connections: 2_560, isAccepted: false },
    ]) {
      const { succeeded, errorResponses, socketErrors, live, ready, memory } = await measure(connections)
      const ratio = succeeded / best.succeeded
      isMet &&= memory <= memoryLimit
      if (isAccepted) isMet &&= ratio >= minRate && socketErrors === 0 && Math.max(live, ready) <= healthLimit
      console.log(
        `${connections} connections: ${ratio.toFixed(2)} of that rate, ${errorResponses} error responses, ${socketErrors} socket errors; live within ${Math.round(live)} ms, ready within ${Math.round(ready)} ms; at most ${Math.round(memory / 2 ** 20)} MiB`,
      )
    }
    console.log(
      isMet
        ? 'met'
        : `not met: at least ${minRate} of the rate, health within ${healthLimit} ms, ${memoryLimit / 2 ** 20} MiB`,
    )
    if (!isMet) process.exitCode = 1
  })
}

await runToEnd('bench:overload', deadline, main)
