import {
  context,
  type Context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { nameOfStatement } from '../db/statements/statement.ts'
import { outerRequestOf } from '../http/dispatch.ts'
import { routeOf } from '../http/request-log.ts'
import { shownPathOf } from '../http/url.ts'
import type { Instrument } from './instrument.ts'

/**
 * OpenTelemetry tracing with manual spans for requests, statements and storage operations. This module is loaded only if
 * tracing is enabled. The exporter reads its standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, …) itself.
 */
export interface Tracing {
  /** Adds a span per request. It continues the trace of the traceparent header, or that of the outer request. */
  readonly traceRequests: (app: FastifyInstance) => void
  readonly forStatements: Instrument
  readonly forStorage: Instrument
  /** Exports pending spans. */
  readonly close: () => Promise<void>
}

export const startTracing = (): Tracing => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'taskwright' }))
      .merge(detectResources({ detectors: [envDetector, serviceNameEnvDetector] })),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  })
  const tracer = provider.getTracer('taskwright')

  const child =
    (
      describe: (name: string) => { readonly name: string; readonly attributes: Record<string, string> },
    ): Instrument =>
    async (name, work) => {
      // Outside a request, such as in a job, each operation would become a trace of its own.
      if (trace.getSpan(context.active()) === undefined) return work()
      const { name: spanName, attributes } = describe(name)
      const span = tracer.startSpan(spanName, { kind: SpanKind.CLIENT, attributes })
      try {
        return await work()
      } catch (error) {
        recordError(span, error)
        throw error
      } finally {
        span.end()
      }
    }

  return {
    traceRequests(app) {
      const spans = new WeakMap<FastifyRequest, Span>()
      app.addHook('onRequest', (request, _reply, done) => {
        const parent =
          outerRequestOf(request) === undefined
            ? propagation.extract(ROOT_CONTEXT, request.headers)
            : context.active()
        const span = tracer.startSpan(`${request.method} ${routeOf(request)}`, attributesOf(request), parent)
        spans.set(request, span)
        // Later hooks and the handler run in this context.
        context.with(trace.setSpan(parent, span), done)
      })
      // The context is lost while the body is parsed, so it is restored.
      app.addHook('preValidation', (request, _reply, done) =>
        context.with(contextOf(spans.get(request)), done),
      )
      app.addHook('onResponse', async (request, reply) => {
        const span = spans.get(request)
        span?.setAttribute('http.response.status_code', reply.statusCode)
        const code = request.problem?.code
        if (code !== undefined) span?.setAttribute('error.type', code)
        if (reply.statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR })
        span?.end()
      })
    },
    forStatements: child((text) => ({
      name: nameOfStatement(text),
      attributes: { 'db.system.name': 'postgresql', 'db.query.text': text.trim().replaceAll(/\s+/g, ' ') },
    })),
    forStorage: child((operation) => ({
      name: `storage ${operation}`,
      attributes: { 'taskwright.storage.operation': operation },
    })),
    close: () => provider.shutdown(),
  }
}

const contextOf = (span: Span | undefined): Context =>
  span === undefined ? context.active() : trace.setSpan(context.active(), span)

const attributesOf = (request: FastifyRequest) => ({
  kind: SpanKind.SERVER,
  attributes: {
    'http.request.method': request.method,
    'http.route': routeOf(request),
    'url.path': shownPathOf(request.url),
    'url.scheme': request.protocol,
    'taskwright.request_id': request.id,
  },
})

/** Records the name of an error. Its message may quote user input. */
const recordError = (span: Span, error: unknown): void => {
  span.setAttribute('error.type', error instanceof Error ? error.name : 'unknown')
  span.setStatus({ code: SpanStatusCode.ERROR })
}
