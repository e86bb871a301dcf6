import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { OperationId } from '../contract/contract.ts'
import {
  ConstraintViolation,
  DatabaseUnavailable,
  StatementCancelled,
  TooManyConflicts,
} from '../db/engine/errors.ts'
import { version } from '../domain/shared/version.ts'
import { routeOf } from '../http/request-log.ts'
import { onRequestEnd, onStreaming } from '../http/running.ts'
import { FileMissing, StorageFull, StorageUnavailable } from '../storage/storage.ts'
import type { Instrument } from './instrument.ts'
import type { MetricsSource } from './metrics-server.ts'

/** Prometheus metrics. Labels have low cardinality: routes are templates, and there are no labels for users, files or texts. */
export interface Metrics {
  readonly registry: Registry
  readonly countRequests: (app: FastifyInstance) => void
  readonly forStatements: Instrument
  readonly forStorage: Instrument
  readonly forHashes: Instrument
  /** `pending` is called at each scrape. */
  readonly observeMails: (pending: () => number) => void
}

/** The codes of the problems of failed sign-ins. */
const signInFailures = ['invalid_credentials', 'account_disabled', 'too_many_requests'] as const

const signInOperations: ReadonlySet<string | undefined> = new Set<OperationId>(['login', 'completeLogin'])

/** Seconds. The last bucket is the deadline of a statement. */
const shortBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
const longBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600]

/** `pendingStatements` is called at each scrape. */
export const createMetrics = (pendingStatements: () => number): Metrics => {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'taskwright_info',
    help: 'Versions of the service and of Node.js; always 1',
    labelNames: ['version', 'node'] as const,
    registers,
  }).set({ version, node: process.versions.node }, 1)
  registry.registerMetric(
    new Gauge({
      name: 'taskwright_database_statements_pending',
      help: 'Statements running or waiting for a connection',
      registers: [],
      collect() {
        this.set(pendingStatements())
      },
    }),
  )

  const requestDuration = new Histogram({
    name: 'taskwright_http_request_duration_seconds',
    help: 'Request duration, from the end of the header to the end of the response or the start of an event stream',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: longBuckets,
    registers,
  })
  const requestsRunning = new Gauge({
    name: 'taskwright_http_requests_running',
    help: 'Requests in progress',
    registers,
  })
  const streamsOpen = new Gauge({
    name: 'taskwright_event_streams_open',
    help: 'Open event streams',
    registers,
  })
  const problems = new Counter({
    name: 'taskwright_problems_total',
    help: 'Problem responses by code',
    labelNames: ['code', 'route'] as const,
    registers,
  })
  const statementDuration = new Histogram({
    name: 'taskwright_database_statement_duration_seconds',
    help: 'Statement duration, from queueing for a connection to the last row',
    labelNames: ['outcome'] as const,
    buckets: shortBuckets,
    registers,
  })
  const storageDuration = new Histogram({
    name: 'taskwright_storage_operation_duration_seconds',
    help: 'Duration of operations on the file storage',
    labelNames: ['operation', 'outcome'] as const,
    buckets: longBuckets,
    registers,
  })
  const hashesPending = new Gauge({
    name: 'taskwright_password_hashes_pending',
    help: 'Passwords being hashed or waiting to be hashed',
    registers,
  })

  const failedSignIns = new Counter({
    name: 'taskwright_sign_in_failures_total',
    help: 'Failed sign-ins by the code of the problem, with a password or a second factor',
    labelNames: ['reason'] as const,
    registers,
  })
  // Starts each series at 0, so that increase() counts the first failure.
  for (const reason of signInFailures) failedSignIns.inc({ reason }, 0)

  const observeProblem = (request: FastifyRequest): void => {
    const code = request.problem?.code
    if (code === undefined) return
    problems.inc({ code, route: routeOf(request) })
    const reason = signInFailures.find((one) => one === code)
    const operation = request.routeOptions.config.operation?.id
    if (reason !== undefined && signInOperations.has(operation)) failedSignIns.inc({ reason })
  }

  const observeDuration = (request: FastifyRequest, reply: FastifyReply): void => {
    const labels = { method: request.method, route: routeOf(request), status: reply.statusCode }
    requestDuration.observe(labels, reply.elapsedTime / 1_000)
  }

  return {
    registry,

    countRequests(app) {
      const streaming = new WeakSet<FastifyReply>()
      app.addHook('onRequest', async (request, reply) => {
        requestsRunning.inc()
        onRequestEnd(reply, () => requestsRunning.dec())
        const begin = (): void => {
          streamsOpen.inc()
          streaming.add(reply)
          observeDuration(request, reply)
        }
        onStreaming(reply, begin, () => streamsOpen.dec())
      })
      app.addHook('onResponse', async (request, reply) => {
        if (!streaming.has(reply)) observeDuration(request, reply)
        observeProblem(request)
      })
    },

    forStatements: timed(outcomeOfStatement, (outcome, seconds) =>
      statementDuration.observe({ outcome }, seconds),
    ),
    forStorage: timed(outcomeOfStorage, (outcome, seconds, operation) =>
      storageDuration.observe({ operation, outcome }, seconds),
    ),

    async forHashes(_name, work) {
      hashesPending.inc()
      try {
        return await work()
      } finally {
        hashesPending.dec()
      }
    },

    observeMails(pending) {
      registry.registerMetric(
        new Gauge({
          name: 'taskwright_mails_pending',
          help: 'Emails being sent or waiting for a connection to the mail server',
          registers: [],
          collect() {
            this.set(pending())
          },
        }),
      )
    },
  }
}

/**
 * Exposes the metrics of this worker to its supervisor. Each series has the worker's number as a label: a sum over all workers
 * would decrease when one exits, which Prometheus interprets as a counter reset.
 */
export const exposeToSupervisor = (registry: Registry, worker: number): void => {
  registry.setDefaultLabels({ worker: String(worker) })
  AggregatorRegistry.setRegistries(registry)
  // Its constructor installs the listener for the supervisor's requests.
  void new AggregatorRegistry()
}

/** The metrics of all workers. Call it in the supervisor. */
export const metricsOfWorkers = (): MetricsSource => {
  const workers = new AggregatorRegistry()
  return { contentType: workers.contentType, metrics: () => workers.clusterMetrics() }
}

/** `refused` is a client error, and `cancelled` usually one. `unavailable` and `failed` are for the operator to investigate. */
type Outcome = 'done' | 'refused' | 'cancelled' | 'unavailable' | 'failed'

const timed =
  (
    outcomeOf: (error: unknown) => Outcome,
    observe: (outcome: Outcome, seconds: number, name: string) => void,
  ): Instrument =>
  async (name, work) => {
    const startedAt = performance.now()
    const end = (outcome: Outcome): void => observe(outcome, (performance.now() - startedAt) / 1_000, name)
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
  if (error instanceof ConstraintViolation || error instanceof TooManyConflicts) return 'refused'
  if (error instanceof StatementCancelled) return 'cancelled'
  return error instanceof DatabaseUnavailable ? 'unavailable' : 'failed'
}

/** All other errors are client errors: content too large, digest mismatch, aborted upload. */
const outcomeOfStorage = (error: unknown): Outcome => {
  if (error instanceof FileMissing) return 'failed'
  return error instanceof StorageFull || error instanceof StorageUnavailable ? 'unavailable' : 'refused'
}
