import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { migrate } from '../../src/db/engine/migrate.ts'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { startStopped } from '../operate/configured-database.ts'
import { isInstalled } from '../run/commands.ts'
import { startPostgres } from '../run/postgres.ts'
import {
  cpuTime,
  pinToProcessor,
  residentMemory,
  type Server,
  startServer,
  unreachedLimits,
} from '../run/processes.ts'
import { runToEnd, type Teardown, withTeardowns } from '../run/run-to-end.ts'
import { generateLoad, type Intensity, type Load, type LoadResult } from './wrk.ts'
import { type Scenario, scenarios } from './scenarios.ts'
import { type Seed, seedDatabase } from './seed.ts'

/**
 * `npm run bench`: compares the service with minimal servers (`floors.ts`). They are measured in turn on one processor; the load
 * generator and PostgreSQL use the other. The results are medians over rounds: rates vary from minute to minute, their ratios less,
 * and the CPU time of a request least. Prints tables, and writes .cache/bench.json.
 */

const { values: options } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })

/** Milliseconds. */
const deadline = 1_800_000

const plan = options.quick
  ? { rounds: 1, seconds: 1, warmUp: 0, tasks: 10_000 }
  : { rounds: 3, seconds: 5, warmUp: 2, tasks: 100_000 }

const quickWarning =
  'Quick run: one second for each of some scenarios, without warm-up. It shows that the benchmark works, not how fast the service is.'

const results = fileURLToPath(new URL('../../.cache/bench.json', import.meta.url))

/** Maximum resident memory in bytes, and maximum time from start to ready in milliseconds. */
const memoryTarget = 250 * 1_048_576
const startTarget = 1_500

/** A measurement of one server under one load. */
interface Sample extends LoadResult {
  /** Microseconds of CPU time of the server per request. */
  readonly cpu: number
}

/** The medians of a scenario. A ratio is the service's rate divided by that of a floor. */
interface Row {
  readonly scenario: string
  readonly ours: Sample
  readonly raw: Sample | null
  readonly bare: Sample
  readonly toRaw: number | null
  readonly toBare: number
  readonly target: string
  readonly met: boolean
}

const main = async (t: Teardown): Promise<void> => {
  if (!isInstalled('wrk')) throw new Error('The load generator wrk is missing: install the package wrk')
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const placement = { core: await pinToProcessor(), folder }
  const server = await measureOnServer(t, placement, await startPostgres(t))
  const own = await measureDefault(t, placement)
  print(server, own)
  await mkdir(join(results, '..'), { recursive: true })
  await writeFile(results, JSON.stringify({ plan, server, own }, null, 2))
  console.log(`\nThe results are in ${results}`)
}

/** The processor and the data folder of servers. */
interface Placement {
  readonly core: number | null
  readonly folder: string
}

/** Production settings. */
const production = { LOG_LEVEL: 'info', ...unreachedLimits }

interface ServerResults {
  readonly rows: readonly Row[]
  /** Bytes. */
  readonly memory: number
  /** Milliseconds. */
  readonly startTime: number
}

const measureOnServer = async (t: Teardown, placement: Placement, url: string): Promise<ServerResults> => {
  const seed = await prepare({ url })
  const environment = { DATABASE_URL: url, DATA_DIR: join(placement.folder, 'server'), ...production }
  // The second start is measured, because the first creates a secret and fills the caches of the operating system.
  await (await startServer(t, { ...placement, environment })).stop()
  const ours = await startServer(t, { ...placement, environment })
  const floors = await startServer(t, {
    ...placement,
    program: fileURLToPath(new URL('floors.ts', import.meta.url)),
    environment: {
      DATABASE_URL: url,
      USER_ID: seed.member.id,
      PASSWORD: seed.password,
      PASSWORD_HASH: seed.passwordHash,
    },
  })
  const rows: Row[] = []
  for (const scenario of await scenariosFor(ours, seed)) rows.push(await compare(ours, floors, scenario))
  await untilIdle(ours)
  const memory = await residentMemory(ours.pid)
  await Promise.all([ours.stop(), floors.stop()])
  return { rows, memory, startTime: ours.startTime }
}

/** Resolves when a server has finished the work of a load, such as password hashes of closed connections. */
const untilIdle = async ({ pid }: Server): Promise<void> => {
  let before: number
  do {
    before = await cpuTime(pid)
    await pause(1_000)
  } while ((await cpuTime(pid)) - before > maxIdleTime)
}

/** Milliseconds of CPU time per second of an idle server. */
const maxIdleTime = 20

/** Measures the same scenarios without DATABASE_URL: PostgreSQL uses the same processor as the service. */
const measureDefault = async (t: Teardown, placement: Placement): Promise<readonly DefaultRow[]> => {
  const dataDir = join(placement.folder, 'default')
  const seed = await seedFolder(dataDir)
  const environment = { DATA_DIR: dataDir, ...production }
  const server = await startServer(t, { ...placement, environment })
  const rows: DefaultRow[] = []
  for (const { name, ours, status, connections } of await scenariosFor(server, seed)) {
    await expectStatus(server, ours, status)
    if (plan.warmUp > 0) await sample(server, ours, { connections, seconds: plan.warmUp })
    rows.push({ scenario: name, ...(await sample(server, ours, { connections, seconds: plan.seconds })) })
  }
  await server.stop()
  return rows
}

interface DefaultRow extends Sample {
  readonly scenario: string
}

const seedFolder = (dataDir: string): Promise<Seed> =>
  withTeardowns(async (t) => {
    await mkdir(dataDir)
    return prepare(await startStopped(t, { dataDir, postgresBin: null }))
  })

/** Migrates and seeds an empty database. */
const prepare = async (connection: ServerConnection): Promise<Seed> => {
  console.log(`Seeding ${plan.tasks} tasks`)
  await migrate(connection)
  // Without the statement timeout of the service.
  const sql = createClient(connection, { connection: {} })
  try {
    return await seedDatabase(sql, plan.tasks)
  } finally {
    await sql.end()
  }
}

/** The scenarios with access tokens, which do not expire during a run. */
const scenariosFor = async (server: Server, seed: Seed): Promise<readonly Scenario[]> => {
  const signIn = async (email: string): Promise<string> => {
    const response = await fetch(`${server.url}/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email, password: seed.password }),
    })
    return ((await response.json()) as { access_token: string }).access_token
  }
  const tokens = { admin: await signIn(seed.admin.email), member: await signIn(seed.member.email) }
  const { headers } = await fetch(`${server.url}/tasks/${seed.taskIds[0] ?? ''}`, {
    headers: { authorization: `Bearer ${tokens.member}` },
  })
  return scenarios(seed, tokens, headers.get('etag') ?? '').filter(({ isQuick }) => isQuick || !options.quick)
}

/** Measures the service and the floors in turn, after a warm-up unless the run is quick. */
const compare = async (ours: Server, floors: Server, scenario: Scenario): Promise<Row> => {
  console.log(`Measuring ${scenario.name}`)
  await expectStatus(ours, scenario.ours, scenario.status)
  const samples: Samples = { ours: [], raw: [], bare: [] }
  const turns = [
    ['ours', ours, scenario.ours],
    ['raw', floors, scenario.raw],
    ['bare', floors, scenario.bare],
  ] as const
  const { connections } = scenario
  for (const [, server, load] of turns)
    if (load !== null && plan.warmUp > 0) await sample(server, load, { connections, seconds: plan.warmUp })
  for (let round = 0; round < plan.rounds; round += 1)
    for (const [name, server, load] of turns)
      if (load !== null)
        samples[name].push(await sample(server, load, { connections, seconds: plan.seconds }))
  return rowOf(scenario, samples)
}

/** Checks the status of a response, because error responses would be fast. */
const expectStatus = async (
  { url }: Server,
  { method, paths: [path = ''], headers, bodies: [body] }: Load,
  expected: number,
): Promise<void> => {
  const { status } = await fetch(`${url}${path}`, { method, headers, body: body ?? null })
  if (status !== expected) throw new Error(`${method} ${path} returned ${status} instead of ${expected}`)
}

const sample = async (server: Server, load: Load, intensity: Intensity): Promise<Sample> => {
  const before = await cpuTime(server.pid)
  const result = await generateLoad(server.url, load, intensity)
  const used = (await cpuTime(server.pid)) - before
  return { ...result, cpu: (used * 1_000) / result.requests }
}

type Samples = Readonly<Record<'ours' | 'raw' | 'bare', Sample[]>>

const rowOf = (scenario: Scenario, samples: Samples): Row => {
  const all = Object.values(samples).flat()
  if (all.some(({ socketErrors }) => socketErrors > 0))
    throw new Error(`${scenario.name}: some connections failed`)
  const hasErrors = samples.ours.some(({ errorResponses }) => errorResponses > 0)
  if (hasErrors && scenario.status < 400) throw new Error(`${scenario.name}: some responses were errors`)
  const ours = medianOf(samples.ours)
  const raw = samples.raw.length > 0 ? medianOf(samples.raw) : null
  const bare = medianOf(samples.bare)
  const toRaw = raw && ours.perSecond / raw.perSecond
  const toBare = ours.perSecond / bare.perSecond
  const { of, ratio } = scenario.target
  return {
    scenario: scenario.name,
    ours,
    raw,
    bare,
    toRaw,
    toBare,
    target: `${ratio} of ${of}`,
    met: ((of === 'raw' ? toRaw : toBare) ?? 0) >= ratio,
  }
}

/** The median of each figure separately. */
const medianOf = (samples: readonly Sample[]): Sample => {
  const median = (name: keyof Sample): number => {
    const sorted = samples.map((sample) => sample[name]).toSorted((a, b) => a - b)
    return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  }
  return {
    requests: median('requests'),
    perSecond: median('perSecond'),
    p50: median('p50'),
    p99: median('p99'),
    errorResponses: median('errorResponses'),
    socketErrors: median('socketErrors'),
    cpu: median('cpu'),
  }
}

const print = (server: ServerResults, own: readonly DefaultRow[]): void => {
  if (options.quick) console.log(`\n${quickWarning}`)
  console.log(
    '\nWith a PostgreSQL server (requests per second, p50 and p99 in ms, CPU time of the service per request in µs)',
  )
  console.table(
    Object.fromEntries(
      server.rows.map(({ scenario, ours, raw, bare, toRaw, toBare, target, met }) => [
        scenario,
        {
          ours: Math.round(ours.perSecond),
          raw: raw && Math.round(raw.perSecond),
          bare: Math.round(bare.perSecond),
          'to raw': toRaw && rounded(toRaw),
          'to bare': rounded(toBare),
          p50: rounded(ours.p50),
          p99: rounded(ours.p99),
          CPU: Math.round(ours.cpu),
          'raw CPU': raw && Math.round(raw.cpu),
          target,
          met: met ? 'yes' : 'no',
        },
      ]),
    ),
  )
  reportTarget(
    `start to ready: ${Math.round(server.startTime)} ms of ${startTarget}`,
    server.startTime < startTarget,
  )
  reportTarget(
    `resident memory afterwards: ${mebibytes(server.memory)} MiB of ${mebibytes(memoryTarget)}`,
    server.memory < memoryTarget,
  )
  console.log('\nWithout DATABASE_URL')
  console.table(
    Object.fromEntries(
      own.map(({ scenario, perSecond, p50, p99, cpu }) => [
        scenario,
        { ours: Math.round(perSecond), p50: rounded(p50), p99: rounded(p99), CPU: Math.round(cpu) },
      ]),
    ),
  )
}

const rounded = (figure: number): number => Math.round(figure * 100) / 100

const mebibytes = (bytes: number): number => Math.round(bytes / 1_048_576)

const reportTarget = (target: string, met: boolean): void =>
  console.log(`${target}: ${met ? 'met' : 'not met'}`)

await runToEnd('bench', deadline, main)
