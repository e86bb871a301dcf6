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
import { routeOf } from '../http/request-log.ts'
import { shownPathOf } from '../http/url.ts'
import type { Around } from './around.ts'

/**
 * Traces by OpenTelemetry, with spans of our own at the three seams where time goes by: requests, statements and files.
 * This module is loaded only when traces are wanted. Where they go is told by the exporter's usual variables
 * (OTEL_EXPORTER_OTLP_ENDPOINT and its like), which it reads itself.
 */
export interface Tracing {
  /** Gives each request of an app a span, which continues the trace of its traceparent header. */
  readonly ofRequests: (app: FastifyInstance) => void
  readonly aroundStatements: Around
  readonly aroundStorage: Around
  /** Sends what has not been sent yet. */
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
    ): Around =>
    async (name, work) => {
      // Work that no request waits for, such as the sweeper's, would be traces of one span each.
      if (trace.getSpan(context.active()) === undefined) return work()
      const { name: spanName, attributes } = describe(name)
      const span = tracer.startSpan(spanName, { kind: SpanKind.CLIENT, attributes })
      try {
        return await work()
      } catch (error) {
        fail(span, error)
        throw error
      } finally {
        span.end()
      }
    }

  return {
    ofRequests(app) {
      const spans = new WeakMap<FastifyRequest, Span>()
      app.addHook('onRequest', (request, _reply, done) => {
        const parent = propagation.extract(ROOT_CONTEXT, request.headers)
        const span = tracer.startSpan(`${request.method} ${routeOf(request)}`, attributesOf(request), parent)
        spans.set(request, span)
        // What is called from here on, the other hooks and the handler too, runs in this context.
        context.with(trace.setSpan(parent, span), done)
      })
      // The parser of a body goes on where the socket was read, which belongs to no request.
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
    aroundStatements: child((text) => ({
      name: operationOf(text),
      attributes: { 'db.system.name': 'postgresql', 'db.query.text': text.trim().replaceAll(/\s+/g, ' ') },
    })),
    aroundStorage: child((operation) => ({
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

/** The kind of an error, and not its message, which may quote what somebody sent. */
const fail = (span: Span, error: unknown): void => {
  span.setAttribute('error.type', error instanceof Error ? error.name : 'unknown')
  span.setStatus({ code: SpanStatusCode.ERROR })
}

/** The first word of a statement, which is what may be told in a name. */
const operationOf = (text: string): string => /\w+/.exec(text)?.[0]?.toUpperCase() ?? 'SQL'
