import type { FastifyInstance } from 'fastify'
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Counter,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client'
import { ConstraintViolation, DatabaseUnavailable } from '../db/engine/errors.ts'
import { routeOf } from '../http/request-log.ts'
import { FileMissing, StorageFull, StorageUnavailable } from '../storage/storage.ts'
import type { Around } from './around.ts'
import type { MetricsSource } from './metrics-server.ts'

/** What Prometheus is told. Every label has few values: a route is its template, and no user, file or text is named. */
export interface Metrics {
  readonly registry: Registry
  /** Counts and times the requests of an app. */
  readonly ofRequests: (app: FastifyInstance) => void
  readonly aroundStatements: Around
  readonly aroundStorage: Around
  readonly aroundHashes: Around
}

/** Seconds; the last is the deadline of a statement. */
const shortBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
const longBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600]

/** `pendingStatements` is asked whenever the metrics are read. */
export const createMetrics = (pendingStatements: () => number): Metrics => {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  registry.registerMetric(
    new Gauge({
      name: 'taskwright_database_statements_pending',
      help: 'Statements that run or wait for a connection',
      registers: [],
      collect() {
        this.set(pendingStatements())
      },
    }),
  )

  const requestDuration = new Histogram({
    name: 'taskwright_http_request_duration_seconds',
    help: 'Requests, from the end of their heads to the end of the answers',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: longBuckets,
    registers,
  })
  const requestsRunning = new Gauge({
    name: 'taskwright_http_requests_running',
    help: 'Requests that have begun and are not answered yet',
    registers,
  })
  const problems = new Counter({
    name: 'taskwright_problems_total',
    help: 'Answers that are problems, by their code: rate limits are too_many_requests, failed sign-ins invalid_credentials',
    labelNames: ['code', 'route'] as const,
    registers,
  })
  const statementDuration = new Histogram({
    name: 'taskwright_database_statement_duration_seconds',
    help: 'Statements, from asking for a connection to the last row',
    labelNames: ['outcome'] as const,
    buckets: shortBuckets,
    registers,
  })
  const storageDuration = new Histogram({
    name: 'taskwright_storage_operation_duration_seconds',
    help: 'Operations on the files of attachments; each round of the sweeper does listUnfinished once',
    labelNames: ['operation', 'outcome'] as const,
    buckets: longBuckets,
    registers,
  })
  const hashesPending = new Gauge({
    name: 'taskwright_password_hashes_pending',
    help: 'Passwords that are being hashed or wait for it',
    registers,
  })

  return {
    registry,

    ofRequests(app) {
      app.addHook('onRequest', async (_request, reply) => {
        requestsRunning.inc()
        reply.raw.once('close', () => requestsRunning.dec())
      })
      app.addHook('onResponse', async (request, reply) => {
        const route = routeOf(request)
        requestDuration.observe(
          { method: request.method, route, status: reply.statusCode },
          reply.elapsedTime / 1_000,
        )
        const code = request.problem?.code
        if (code !== undefined) problems.inc({ code, route })
      })
    },

    aroundStatements: timed(outcomeOfStatement, (outcome, seconds) =>
      statementDuration.observe({ outcome }, seconds),
    ),
    aroundStorage: timed(outcomeOfStorage, (outcome, seconds, operation) =>
      storageDuration.observe({ operation, outcome }, seconds),
    ),

    async aroundHashes(_name, work) {
      hashesPending.inc()
      try {
        return await work()
      } finally {
        hashesPending.dec()
      }
    },
  }
}

/** The metrics of one process. */
export type ProcessMetrics = MetricObjectWithValues<MetricValue<string>>[]

/**
 * The metrics of several processes as those of one: counts are added, the lag of event loops is averaged. `read` resolves to those
 * of each process that runs, or to null of one that does not answer. What has been counted stays so when its process ends:
 * Prometheus would take less than before for a new beginning, and count all of it again.
 */
export const metricsOfWorkers = (
  read: () => Promise<ReadonlyMap<number, ProcessMetrics | null>>,
): MetricsSource => {
  const last = new Map<number, ProcessMetrics>()
  let ofEnded: readonly ProcessMetrics[] = []

  const note = (running: ReadonlyMap<number, ProcessMetrics | null>): void => {
    const ended = [...last].filter(([worker]) => !running.has(worker))
    for (const [worker] of ended) last.delete(worker)
    if (ended.length > 0) ofEnded = [...ofEnded, ...ended.map(([, metrics]) => metrics.filter(isCount))]
    for (const [worker, metrics] of running) if (metrics !== null) last.set(worker, metrics)
  }

  /** Keeps what has ended as one, however many processes there were. */
  const addUp = async (): Promise<void> => {
    const ended = ofEnded
    if (ended.length < 2) return
    const sum = await AggregatorRegistry.aggregate([...ended]).getMetricsAsJSON()
    if (ofEnded === ended) ofEnded = [sum]
  }

  return {
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
    async metrics() {
      note(await read())
      await addUp()
      return AggregatorRegistry.aggregate([...ofEnded, ...last.values()]).metrics()
    },
  }
}

/** A gauge is what is now; the others have been counted since the start. */
const isCount = ({ type }: ProcessMetrics[number]): boolean => String(type) !== 'gauge'

/** `refused` is what somebody asked for that could not be; the others that are not `done` are ours to look into. */
type Outcome = 'done' | 'refused' | 'unavailable' | 'failed'

const timed =
  (
    outcomeOf: (error: unknown) => Outcome,
    observe: (outcome: Outcome, seconds: number, name: string) => void,
  ): Around =>
  async (name, work) => {
    const begun = performance.now()
    const end = (outcome: Outcome): void => observe(outcome, (performance.now() - begun) / 1_000, name)
    try {
      const result = await work()
      end('done')
      return result
    } catch (error) {
      end(outcomeOf(error))
      throw error
    }
  }

const outcomeOfStatement = (error: unknown): Outcome => {
  if (error instanceof ConstraintViolation) return 'refused'
  return error instanceof DatabaseUnavailable ? 'unavailable' : 'failed'
}

/** What is no failure of the storage is one of the content: too large, not what its digest says, or cut short. */
const outcomeOfStorage = (error: unknown): Outcome => {
  if (error instanceof FileMissing) return 'failed'
  return error instanceof StorageFull || error instanceof StorageUnavailable ? 'unavailable' : 'refused'
}
