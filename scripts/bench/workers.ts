import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { withPostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { type Load, putUnderLoad } from './load.ts'
import { type Server, service, startServer } from './processes.ts'

/**
 * `npm run bench:workers`: the throughput of two workers in relation to one, for requests without a database. The load
 * generator runs on the same processors.
 */

/** Milliseconds for the whole run. */
const deadline = 300_000

/** The least throughput of two workers in relation to one. */
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
        'GET /openapi.json as it is known: 304',
        get('/openapi.json', { 'if-none-match': contract.headers.get('etag') ?? '' }),
      ],
    ]
    console.log(`load of the machine before: ${loadText()}`)
    for (const [name, load] of loads) {
      const [alone, together] = [await bestOf(one, load), await bestOf(two, load)]
      const ratio = together / alone
      const verdict = ratio >= target ? 'met' : 'not met'
      console.log(
        `${name}: ${Math.round(alone)}/s by one, ${Math.round(together)}/s by two workers: ${ratio.toFixed(2)} of ${target}, ${verdict}`,
      )
    }
    console.log(`and after: ${loadText()}`)
  })
}

/** Requests per second in the best of some rounds: other load on the machine can only slow a round down. */
const bestOf = async ({ url }: Server, load: Load): Promise<number> => {
  await putUnderLoad(url, load, { connections, seconds: 1 })
  const measured: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const { perSecond, broken } = await putUnderLoad(url, load, { connections, seconds })
    if (broken > 0) throw new Error(`${broken} connections were broken`)
    measured.push(perSecond)
  }
  return Math.max(...measured)
}

const loadText = (): string =>
  loadavg()
    .map((load) => load.toFixed(1))
    .join(' ')

await runToEnd('bench:workers', deadline, main)
