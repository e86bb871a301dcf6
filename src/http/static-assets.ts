import { negotiate } from '@fastify/accept-negotiator'
import type { FastifyInstance } from 'fastify'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGunzip, gzip } from 'node:zlib'
import { matchesWeakly, parseETagList } from './conditional.ts'
import { addVary } from './cors.ts'

/** A file that pages load. Its path changes with its content, so that browsers can cache it forever. */
export interface Asset {
  /** Below the path of PUBLIC_URL. */
  readonly path: string
  readonly type: string
  readonly version: string
  /** The content, compressed with gzip. */
  readonly compressed: () => Promise<Buffer>
}

const types = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
}

type AssetName = `${string}.${keyof typeof types}`

/**
 * An asset is compressed when it is first requested, and only the compressed content of a package stays in memory. A failure is not kept:
 * the next request tries again.
 */
const defineAsset = (name: AssetName, version: string, compressed: () => Promise<Buffer>): Asset => {
  const extension = name.slice(name.lastIndexOf('.') + 1) as keyof typeof types
  let result: Promise<Buffer> | undefined
  return {
    path: `/assets/${version}/${name}`,
    type: types[extension],
    version,
    compressed() {
      result ??= compressed().catch((error: unknown) => {
        result = undefined
        throw error
      })
      return result
    },
  }
}

const compress = promisify(gzip)

/** An asset from memory, versioned by its hash. */
export const contentAsset = (name: AssetName, content: Buffer): Asset =>
  defineAsset(name, createHash('sha256').update(content).digest('hex').slice(0, 16), () => compress(content))

/** A file of the folder `assets`. */
export const ownAsset = async (name: AssetName): Promise<Asset> =>
  contentAsset(name, await readFile(new URL(`assets/${name}`, import.meta.url)))

/** A file at the top level of an npm package, versioned by that of the package: published versions never change. */
export const packageAsset = (packageName: string, name: AssetName): Asset => {
  const { folder, version } = findPackage(packageName)
  return defineAsset(name, version, async () => compress(await readFile(join(folder, name))))
}

const findPackage = (name: string): { readonly folder: string; readonly version: string } => {
  const file = findPackageJSON(name, import.meta.url)
  if (file === undefined) throw new Error(`${name} is not installed`)
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }
  return { folder: dirname(file), version }
}

/** Serves assets, compressed unless the client does not accept gzip. */
export const serveAssets = (app: FastifyInstance, assets: readonly Asset[]): void => {
  for (const { path, type, version, compressed } of assets) {
    app.get(path, async (request, reply) => {
      const encoding = negotiate(request.headers['accept-encoding'] ?? '', ['gzip'])
      const etag = `"${version}-${encoding ?? 'identity'}"`
      addVary(reply, 'Accept-Encoding').headers({
        'cache-control': 'public, max-age=31536000, immutable',
        etag,
      })
      const known = parseETagList(request.headers['if-none-match'] ?? '')
      if (known !== null && matchesWeakly(known, etag)) return reply.code(304).send()
      reply.type(type)
      const content = await compressed()
      if (encoding !== null) return reply.header('content-encoding', encoding).send(content)
      return reply.send(Readable.from([content]).pipe(createGunzip()))
    })
  }
}
