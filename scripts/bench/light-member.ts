import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, Worker, workerData } from 'node:worker_threads'

/** The requests of a member who works as people do, in a thread of their own: those of an attack must not delay their clock. */

/** Requests to repeat. */
export interface LightRequest {
  readonly url: string
  readonly method: string
  readonly token: string
  readonly body?: string
}

export interface LightResult {
  /** Milliseconds of each response. */
  readonly times: readonly number[]
  /** Responses without success. */
  readonly failed: number
}

/** Milliseconds between a response and the next request of the same kind. */
const interval = 100

/** Repeats the requests. The returned function stops them, and resolves to their results, in the same order. */
export const startLightMember = async (
  requests: readonly LightRequest[],
): Promise<() => Promise<readonly LightResult[]>> => {
  const worker = new Worker(new URL(import.meta.url), { workerData: requests })
  await once(worker, 'online')
  return async () => {
    worker.postMessage('end')
    const [results] = (await once(worker, 'message')) as [readonly LightResult[]]
    return results
  }
}

const repeat = async ({ url, method, token, body }: LightRequest, end: AbortSignal): Promise<LightResult> => {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const times: number[] = []
  let failed = 0
  while (!end.aborted) {
    const startedAt = performance.now()
    const isOk = await fetch(url, { method, headers, body: body ?? null }).then(
      async (response) => {
        await response.arrayBuffer()
        return response.ok
      },
      () => false,
    )
    times.push(performance.now() - startedAt)
    if (!isOk) failed += 1
    await pause(interval)
  }
  return { times, failed }
}

if (parentPort !== null) {
  const ending = new AbortController()
  parentPort.once('message', () => ending.abort())
  const requests = workerData as readonly LightRequest[]
  parentPort.postMessage(await Promise.all(requests.map((request) => repeat(request, ending.signal))))
}
