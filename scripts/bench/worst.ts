import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient } from '../../test/fixture/service.ts'
import { withPostgres } from '../run/postgres.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'
import { memoryOfTree, startServer } from '../run/processes.ts'
import { startProbes } from './worst-probe.ts'
import { type Attack, attacks } from './worst-requests.ts'

/**
 * `node scripts/bench/worst.ts`: the effect of the most expensive requests on other users. One member or an anonymous client attacks a service
 * with its default limits, on a PostgreSQL server and on the embedded database, while another member sends requests. The table shows
 * the response time of that member. `--only <part of a name>` runs some of the attacks.
 */

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    database: { type: 'string', default: 'server,embedded' },
  },
})

/** Milliseconds for the whole run and for one attack. */
const deadline = 2_400_000
const attackDeadline = 60_000

/** Maximum response time of another member in milliseconds. */
const waitLimit = 1_000

/** Maximum memory of all processes of the service in bytes. It includes the embedded database, but not a database server. */
const memoryLimits = { server: 512 * 2 ** 20, embedded: 1_024 * 2 ** 20 }

type Kind = keyof typeof memoryLimits

/** The effects of an attack. */
interface Cost {
  /** Milliseconds for all requests of the attack. */
  readonly attack: number
  /** Milliseconds of the slowest request of the other member and of the slowest liveness probe. */
  readonly otherMember: number
  readonly live: number
  /** Requests of the other member that failed. */
  readonly failed: number
  /** Bytes. */
  readonly memory: number
  readonly outcome: string
}

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const kinds = options.database.split(',').filter((kind): kind is Kind => Object.hasOwn(memoryLimits, kind))
  for (const kind of kinds) {
    const run = (environment: Readonly<Record<string, string>>) => measureAll(t, kind, folder, environment)
    await (kind === 'server' ? withPostgres((url) => run({ DATABASE_URL: url })) : run({}))
  }
}

const measureAll = async (
  t: Teardown,
  kind: Kind,
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<void> => {
  const rows: Record<string, Record<string, string | number>> = {}
  for (const [index, attack] of attacks.entries()) {
    if (!attack.name.includes(options.only)) continue
    // A new service for each attack, so that none starts with the memory or the data of another.
    const place = await mkdtemp(join(folder, `${kind}-`))
    const server = await startServer(t, {
      environment: {
        ...environment,
        DATA_DIR: join(place, 'data'),
        LOG_LEVEL: 'error',
        // Both members have the same address.
        RATE_LIMIT_SIGN_IN: '1000',
      },
      folder: place,
    })
    const cost = await measure(server, attack, `${index}`)
    await server.stop()
    await rm(place, { recursive: true, force: true })
    const isMet = cost.failed === 0 && cost.otherMember <= waitLimit && cost.memory <= memoryLimits[kind]
    if (!isMet) process.exitCode = 1
    rows[attack.name] = {
      'attack (ms)': Math.round(cost.attack),
      responses: cost.outcome,
      'other member (ms)': Math.round(cost.otherMember),
      failed: cost.failed,
      'live (ms)': Math.round(cost.live),
      'memory (MiB)': Math.round(cost.memory / 2 ** 20),
      met: isMet ? 'yes' : 'no',
    }
    console.log(`${kind}: ${attack.name}: ${JSON.stringify(rows[attack.name])}`)
  }
  console.log(
    `\n${kind}: requests of the other member take at most ${waitLimit} ms and do not fail; at most ${memoryLimits[kind] / 2 ** 20} MiB of memory`,
  )
  console.table(rows)
}

const measure = async (
  { url, pid }: { readonly url: string; readonly pid: number },
  { prepare, run }: Attack,
  suffix: string,
): Promise<Cost> => {
  const client = createClient(url, () => undefined)
  // The first user becomes the administrator, whose requests are more expensive.
  await client.register(`operator${suffix}`)
  const { token } = await client.register(`bystander${suffix}`)
  const attacker = await client.register(`attacker${suffix}`)
  const { body: task } = await client.expect('createTask', 201, { token, body: { title: 'Go on working' } })
  const target = { url, token: attacker.token, client }
  const prepared = await prepare?.(target)

  const authorization = `Bearer ${token}`
  const stopProbes = await startProbes([
    { url: `${url}/tasks/${task.id}`, headers: { authorization }, every: 240 },
    { url: `${url}/tasks?limit=20`, headers: { authorization }, every: 240 },
    { url: `${url}/health/live`, headers: { connection: 'close' }, every: 50 },
  ])
  let memory = 0
  const memoryTimer = setInterval(() => {
    void memoryOfTree(pid).then((size) => (memory = Math.max(memory, size)))
  }, 50)

  const startedAt = performance.now()
  const outcome = await Promise.race([
    run(target, prepared),
    pause(attackDeadline, 'timed out', { ref: false }),
  ])
  const attack = performance.now() - startedAt
  // Includes the memory of work that the attack left running.
  await pause(1_000)
  clearInterval(memoryTimer)
  const [single, list, live] = await stopProbes()
  return {
    attack,
    otherMember: Math.max(single?.slowest ?? 0, list?.slowest ?? 0),
    live: live?.slowest ?? 0,
    failed: (single?.failed ?? 0) + (list?.failed ?? 0),
    memory,
    outcome,
  }
}

await runToEnd('bench:worst', deadline, main)
