import scalar from '@scalar/fastify-api-reference'
import fastify from 'fastify'
import { parentPort } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'

/**
 * A thread that answers with the bundle of Scalar, compressed with gzip. The package exports only a Fastify plugin that serves the
 * bundle; its import blocks for 0.3 s and takes 89 MB, which a thread gives back.
 */
const app = fastify()
await app.register(scalar, { configuration: { url: '/openapi.json' } })
const { statusCode, rawPayload } = await app.inject('/reference/js/scalar.js')
if (statusCode !== 200) throw new Error('@scalar/fastify-api-reference does not serve its bundle')
parentPort?.postMessage(gzipSync(rawPayload))
