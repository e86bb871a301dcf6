import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, Worker, workerData } from 'node:worker_threads'

/** Repeated requests in a separate thread, so that the attacker's requests in this process do not delay them. */

export interface Probe {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds between a response and the next request. */
  readonly every: number
}

export interface ProbeResult {
  /** Milliseconds. */
  readonly slowest: number
  /** Requests without a 200 response. */
  readonly failed: number
}

/** Milliseconds. */
const deadline = 60_000

/** Starts probes. The returned function stops them and resolves to their results, in the same order. */
export const startProbes = async (
  probes: readonly Probe[],
): Promise<() => Promise<readonly ProbeResult[]>> => {
  const worker = new Worker(new URL(import.meta.url), { workerData: probes })
  await once(worker, 'online')
  return async () => {
    worker.postMessage('end')
    const [results] = (await once(worker, 'message')) as [readonly ProbeResult[]]
    return results
  }
}

const runProbe = async ({ url, headers, every }: Probe, end: AbortSignal): Promise<ProbeResult> => {
  let slowest = 0
  let failed = 0
  while (!end.aborted) {
    const startedAt = performance.now()
    const status = await fetch(url, { headers, signal: AbortSignal.timeout(deadline) }).then(
      async (response) => {
        await response.arrayBuffer()
        return response.status
      },
      () => 0,
    )
    slowest = Math.max(slowest, performance.now() - startedAt)
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
