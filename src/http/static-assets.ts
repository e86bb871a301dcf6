import { negotiate } from '@fastify/accept-negotiator'
import type { FastifyInstance } from 'fastify'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { Worker } from 'node:worker_threads'
import { createGunzip } from 'node:zlib'
import { matchesWeakly, parseETagList } from './conditional.ts'
import type { AssetSource, CompressionInput, Encoding } from './compression-thread.ts'
import { addVary } from './cors.ts'

/** A file that pages load. Its path changes with its content, so that browsers can cache it forever. */
export interface Asset {
  /** Below the path of PUBLIC_URL. */
  readonly path: string
  readonly type: string
  readonly version: string
  readonly source: AssetSource
}

const types = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
}

type AssetName = `${string}.${keyof typeof types}`

const defineAsset = (name: AssetName, version: string, source: AssetSource): Asset => {
  const extension = name.slice(name.lastIndexOf('.') + 1) as keyof typeof types
  return { path: `/assets/${version}/${name}`, type: types[extension], version, source }
}

/** An asset from memory, versioned by its hash. */
export const contentAsset = (name: AssetName, content: Buffer): Asset =>
  defineAsset(name, createHash('sha256').update(content).digest('hex').slice(0, 16), { content })

/** A file of the folder `assets`. */
export const ownAsset = async (name: AssetName): Promise<Asset> =>
  contentAsset(name, await readFile(new URL(`assets/${name}`, import.meta.url)))

/** A file at the top level of an npm package, versioned by that of the package: published versions never change. */
export const packageAsset = (packageName: string, name: AssetName): Asset => {
  const { folder, version } = findPackage(packageName)
  return defineAsset(name, version, { file: join(folder, name) })
}

/** The bundle of Scalar, the API reference. */
export const scalarAsset = (): Asset =>
  defineAsset('scalar.js', findPackage('@scalar/fastify-api-reference').version, 'scalar')

const findPackage = (name: string): { readonly folder: string; readonly version: string } => {
  const file = findPackageJSON(name, import.meta.url)
  if (file === undefined) throw new Error(`${name} is not installed`)
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }
  return { folder: dirname(file), version }
}

/** In the order of preference. Browsers accept Brotli over TLS and on localhost only. */
const encodings: Encoding[] = ['br', 'gzip']

/**
 * Serves assets compressed. Each is compressed when it is first requested, once per process and encoding, and only the
 * compressed content stays in memory.
 */
export const serveAssets = (app: FastifyInstance, assets: readonly Asset[]): void => {
  for (const { path, type, version, source } of assets) {
    const compressed = compressOnce(source)
    app.get(path, async (request, reply) => {
      const accepted = negotiate(request.headers['accept-encoding'] ?? '', encodings)
      const encoding = encodings.find((one) => one === accepted)
      const etag = `"${version}-${encoding ?? 'identity'}"`
      addVary(reply, 'Accept-Encoding').headers({
        'cache-control': 'public, max-age=31536000, immutable',
        etag,
      })
      const known = parseETagList(request.headers['if-none-match'] ?? '')
      if (known !== null && matchesWeakly(known, etag)) return reply.code(304).send()
      reply.type(type)
      if (encoding !== undefined)
        return reply.header('content-encoding', encoding).send(await compressed(encoding))
      return reply.send(Readable.from([await compressed('gzip')]).pipe(createGunzip()))
    })
  }
}

const compressOnce = (source: AssetSource): ((encoding: Encoding) => Promise<Buffer>) => {
  const results = new Map<Encoding, Promise<Buffer>>()
  return (encoding) => {
    const known = results.get(encoding)
    if (known) return known
    const result = compress({ source, encoding })
    results.set(encoding, result)
    // A failure is not kept: the next request tries again.
    result.catch(() => results.delete(encoding))
    return result
  }
}

/** Compresses in a thread, so that the event loop is not blocked and the memory is released afterwards. */
const compress = async (input: CompressionInput): Promise<Buffer> => {
  const thread = new Worker(new URL('compression-thread.ts', import.meta.url), { workerData: input })
  const [content] = (await once(thread, 'message')) as [Uint8Array]
  return Buffer.from(content.buffer, content.byteOffset, content.byteLength)
}
