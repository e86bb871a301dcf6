import { readFile } from 'node:fs/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

export type Encoding = 'br' | 'gzip'

/** The source of an asset's content; `scalar` is the bundle of the reference page. */
export type AssetSource = 'scalar' | { readonly file: string } | { readonly content: Uint8Array }

/** The thread's `workerData`. It answers with the compressed content. */
export interface CompressionInput {
  readonly source: AssetSource
  readonly encoding: Encoding
}

const read = async (source: AssetSource): Promise<Uint8Array> => {
  if (source === 'scalar') return readScalar()
  return 'file' in source ? readFile(source.file) : source.content
}

/** The package exports only a Fastify plugin that serves the bundle, so the bundle is read with a request to it. */
const readScalar = async (): Promise<Buffer> => {
  const { default: fastify } = await import('fastify')
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = fastify()
  await app.register(scalar, { configuration: { url: '/openapi.json' } })
  const { statusCode, rawPayload } = await app.inject('/reference/js/scalar.js')
  if (statusCode !== 200) throw new Error('@scalar/fastify-api-reference does not serve its bundle')
  return rawPayload
}

/** The best ratio that takes less than half a second for 5 MB; quality 9 saves another 3 % in ten times the time. */
const brotliOptions = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 6, [constants.BROTLI_PARAM_LGWIN]: 24 },
}

const compress = (content: Uint8Array, encoding: Encoding): Buffer =>
  encoding === 'br' ? brotliCompressSync(content, brotliOptions) : gzipSync(content)

const isSource = (value: unknown): value is AssetSource => {
  if (value === 'scalar') return true
  if (typeof value !== 'object' || value === null) return false
  return 'file' in value
    ? typeof value.file === 'string'
    : 'content' in value && value.content instanceof Uint8Array
}

const isInput = (value: unknown): value is CompressionInput =>
  typeof value === 'object' &&
  value !== null &&
  'source' in value &&
  isSource(value.source) &&
  'encoding' in value &&
  (value.encoding === 'br' || value.encoding === 'gzip')

const input: unknown = workerData
if (!isInput(input)) throw new TypeError('The thread was started without an asset and an encoding')
parentPort?.postMessage(compress(await read(input.source), input.encoding))
