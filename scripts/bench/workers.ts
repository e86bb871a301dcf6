import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { withPostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { type Load, generateLoad } from './load.ts'
import { type Server, service, startServer } from './processes.ts'

/**
 * `npm run bench:workers`: the throughput of two workers compared with one, for requests that do not use the database. The load
 * generator runs on the same processors.
 */

/** Milliseconds. */
const deadline = 300_000

/** Minimum ratio of the throughput of two workers to that of one. */
const target = 1.6

const connections = 64
const seconds = 5
const rounds = 3

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  // A worker may write its compile cache a little after its supervisor has exited.
  t.teardown(() => rm(folder, { recursive: true, maxRetries: 10, retryDelay: 200 }))
  await withPostgres(async (databaseUrl) => {
    const start = (workers: number): Promise<Server> =>
      startServer(t, {
        program: service,
        environment: {
          DATABASE_URL: databaseUrl,
          DATA_DIR: join(folder, 'data'),
          RATE_LIMIT: 'off',
          LOG_LEVEL: 'warn',
          WORKERS: String(workers),
        },
        core: null,
        folder,
      })
    const one = await start(1)
    const two = await start(2)
    const contract = await fetch(`${one.url}/openapi.json`)
    await contract.text()
    const get = (path: string, headers: Load['headers'] = {}): Load => ({
      method: 'GET',
      paths: [path],
      headers,
      bodies: [],
    })
    const loads: readonly (readonly [name: string, load: Load])[] = [
      ['GET /health/live: 200', get('/health/live')],
      ['GET /auth/me without a token: 401', get('/auth/me')],
      [
        'GET /openapi.json with If-None-Match: 304',
        get('/openapi.json', { 'if-none-match': contract.headers.get('etag') ?? '' }),
      ],
    ]
    console.log(`load average before: ${loadText()}`)
    for (const [name, load] of loads) {
      const [rateOfOne, rateOfTwo] = [await bestOf(one, load), await bestOf(two, load)]
      const ratio = rateOfTwo / rateOfOne
      const verdict = ratio >= target ? 'met' : 'not met'
      console.log(
        `${name}: ${Math.round(rateOfOne)}/s with one, ${Math.round(rateOfTwo)}/s with two workers: ratio ${ratio.toFixed(2)}, target ${target}, ${verdict}`,
      )
    }
    console.log(`load average after: ${loadText()}`)
  })
}

/** Requests per second in the best round, because other load on the machine only slows rounds down. */
const bestOf = async ({ url }: Server, load: Load): Promise<number> => {
  await generateLoad(url, load, { connections, seconds: 1 })
  const rates: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const { perSecond, socketErrors } = await generateLoad(url, load, { connections, seconds })
    if (socketErrors > 0) throw new Error(`There were ${socketErrors} socket errors`)
    rates.push(perSecond)
  }
  return Math.max(...rates)
}

const loadText = (): string =>
  loadavg()
    .map((load) => load.toFixed(1))
    .join(' ')

await runToEnd('bench:workers', deadline, main)
