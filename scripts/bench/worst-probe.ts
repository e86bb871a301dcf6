import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, Worker, workerData } from 'node:worker_threads'

/** Requests that are repeated until the end, in a thread of its own: the attacker's requests do not delay them. */

export interface Probe {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds between an answer and the next request. */
  readonly every: number
}

export interface Probed {
  /** Milliseconds. */
  readonly slowest: number
  /** Requests that were not answered with 200. */
  readonly failed: number
}

/** Milliseconds. */
const deadline = 60_000

/** Starts the probes; calling what it answers with ends them and resolves with their results, in their order. */
export const startProbes = async (probes: readonly Probe[]): Promise<() => Promise<readonly Probed[]>> => {
  const worker = new Worker(new URL(import.meta.url), { workerData: probes })
  await once(worker, 'online')
  return async () => {
    worker.postMessage('end')
    const [results] = (await once(worker, 'message')) as [readonly Probed[]]
    return results
  }
}

const runProbe = async ({ url, headers, every }: Probe, end: AbortSignal): Promise<Probed> => {
  let slowest = 0
  let failed = 0
  while (!end.aborted) {
    const begun = performance.now()
    const status = await fetch(url, { headers, signal: AbortSignal.timeout(deadline) }).then(
      async (response) => {
        await response.arrayBuffer()
        return response.status
      },
      () => 0,
    )
    slowest = Math.max(slowest, performance.now() - begun)
    if (status !== 200) failed += 1
    await pause(every, undefined, { signal: end }).catch(() => undefined)
  }
  return { slowest, failed }
}

if (parentPort !== null) {
  const ending = new AbortController()
  parentPort.once('message', () => ending.abort())
  const probes = workerData as readonly Probe[]
  parentPort.postMessage(await Promise.all(probes.map((probe) => runProbe(probe, ending.signal))))
}
