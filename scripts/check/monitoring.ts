import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { dump, load } from 'js-yaml'
import { metricsUrl } from '../../test/fixture/observe.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { createClient, fileForm } from '../../test/fixture/service.ts'
import { fencedBlocks } from '../../test/fixture/transcript.ts'
import { createRun, hasCommands } from '../run/commands.ts'
import { answers, startProgram } from '../run/processes.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Runs the queries of docs/operations (monitoring.md, alerts) on a Prometheus server that scrapes the service, and the
 * tests of the alerts. A query that fails or returns no result is an error.
 */

/** Milliseconds. */
const deadline = 180_000

const operations = fileURLToPath(new URL('../../docs/operations/', import.meta.url))
const scrapeToken = 'the-token-of-the-scraper'

interface Query {
  readonly source: string
  readonly expr: string
}

/** The part of queries that return no result on a healthy service: no response is a server error. */
const mayBeEmpty = 'status=~"5.."'

interface Alerts {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[]
}

const readText = (name: string): Promise<string> => readFile(join(operations, name), 'utf8')

const queriesOfPage = async (): Promise<readonly Query[]> =>
  fencedBlocks(await readText('monitoring.md'), 'text')
    .flatMap((block) => block.trim().split('\n'))
    .map((expr) => ({ source: 'monitoring.md', expr }))

/** An alert that does not fire has no result, so each of its metrics is queried as well. */
const queriesOfAlerts = async (): Promise<readonly Query[]> => {
  const { groups } = load(await readText('alerts.yml')) as Alerts
  return groups.flatMap(({ rules }) =>
    rules.flatMap(({ alert, expr }) => [
      { source: `alert ${alert}`, expr: `count(${expr}) or vector(0)` },
      ...[...new Set(expr.match(/\b(?:(?:taskwright|nodejs|process)_\w+|up\b)/g))].map((metric) => ({
        source: `metric of the alert ${alert}`,
        expr: metric,
      })),
    ]),
  )
}

/** Starts a service. `sendRequests` sends requests that update every metric. */
const startBusyService = async (t: Teardown) => {
  const service = await startProcess(t, {
    DATA_DIR: await temporaryFolder(t),
    METRICS_PORT: '0',
    METRICS_HOST: '127.0.0.1',
    METRICS_TOKEN: scrapeToken,
    LOG_LEVEL: 'info',
  })
  // These responses do not count towards the contract coverage of the tests.
  const { call, expect, register } = createClient(service.url, () => undefined)
  const { token, email } = await register('ada')
  const sendRequests = async (): Promise<void> => {
    const { body: task } = await expect('createTask', 201, { token, body: { title: 'Measured' } })
    const params = { task_id: task.id }
    await expect('addTaskAttachment', 201, { token, params, body: fileForm('measured') })
    await expect('listTasks', 200, { token })
    await call('getTask', { token, params: { task_id: token } })
    await call('login', { body: { email, password: 'wrong' } })
  }
  return { service, sendRequests }
}

const startPrometheus = async (t: Teardown, target: URL) => {
  const folder = await temporaryFolder(t)
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(operations, 'alerts.yml')],
    scrape_configs: [
      {
        job_name: 'taskwright',
        authorization: { credentials: scrapeToken },
        static_configs: [{ targets: [target.host] }],
      },
    ],
  }
  await writeFile(join(folder, 'prometheus.yml'), dump(config))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const files = [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
  ]
  await startProgram(t, ['prometheus', ...files, `--web.listen-address=127.0.0.1:${port}`], {
    log: join(folder, 'log'),
    isReady: () => answers(`${url}/-/ready`),
  })
  return url
}

interface QueryResponse {
  readonly status: string
  readonly error?: string
  readonly data?: { readonly result: readonly { readonly value: readonly [number, string] }[] }
}

/** The current values of a query. */
const runQuery = async (prometheus: string, expr: string): Promise<readonly string[]> => {
  const response = await fetch(`${prometheus}/api/v1/query?query=${encodeURIComponent(expr)}`)
  const { status, error, data } = (await response.json()) as QueryResponse
  if (status !== 'success') throw new Error(`${error} in ${expr}`)
  return (data?.result ?? []).map(({ value: [, value] }) => value)
}

const isEmpty = (values: readonly string[]): boolean => values.every((value) => value === 'NaN')

const isAllowedEmpty = ({ expr }: Query): boolean => expr.includes(mayBeEmpty)

/** The queries without a result that must have one. */
const findEmpty = async (prometheus: string, queries: readonly Query[]): Promise<readonly Query[]> => {
  const results = await Promise.all(queries.map(({ expr }) => runQuery(prometheus, expr)))
  return queries.filter((query, index) => isEmpty(results[index] ?? []) && !isAllowedEmpty(query))
}

/** Milliseconds until every query has a result: a rate needs two scrapes, and a duration requests between them. */
const resultTimeout = 60_000

const checkQueries = async (t: Teardown): Promise<void> => {
  const queries = [...(await queriesOfPage()), ...(await queriesOfAlerts())]
  const { service, sendRequests } = await startBusyService(t)
  const prometheus = await startPrometheus(t, new URL(metricsUrl(service)))
  let empty: readonly Query[] = queries
  const end = Date.now() + resultTimeout
  while (empty.length > 0 && Date.now() < end) {
    await sendRequests()
    empty = await findEmpty(prometheus, queries)
    await pause(500)
  }
  if (empty.length > 0)
    throw new Error(
      `Queries without a result:\n${empty.map(({ source, expr }) => `${source}: ${expr}`).join('\n')}`,
    )
  console.log(
    `${queries.length} queries succeeded; ${queries.filter(isAllowedEmpty).length} of them may be empty`,
  )
}

const checkRules = async (t: Teardown): Promise<void> => {
  const run = createRun(t, operations)
  console.log(await run('promtool', 'check', 'rules', 'alerts.yml'))
  console.log(await run('promtool', 'test', 'rules', 'alerts.test.yml'))
}

await runToEnd('monitoring', deadline, async (t) => {
  if (!hasCommands(['prometheus', 'promtool'])) return
  await checkRules(t)
  await checkQueries(t)
})
