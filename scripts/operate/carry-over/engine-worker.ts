import { inspect } from 'node:util'
import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'

/** The worker's `workerData`. */
export interface EngineInput {
  /** PostgreSQL's data folder. It is changed, without syncing it to the disk. */
  readonly folder: string
  readonly address: { readonly path: string } | { readonly host: string; readonly port: number }
}

const { folder, address } = workerData as EngineInput

/** When PostgreSQL cannot write, mostly because the disk is full, PGlite goes on without responding. */
const endWithPostgres = (files: NodeFS): NodeFS => {
  const init = files.init.bind(files)
  files.init = async (...parameters) => {
    const { emscriptenOpts } = await init(...parameters)
    return { emscriptenOpts: { ...emscriptenOpts, onAbort: () => process.exit(1) } }
  }
  return files
}

const database = await PGlite.create({
  fs: endWithPostgres(new NodeFS(folder)),
  startParams: [...PGlite.defaultStartParams, '-c', 'timezone=UTC', '-c', 'shared_buffers=32MB'],
}).catch((cause: unknown) => {
  // PGlite throws objects that are not Errors.
  throw new Error(`The database of the earlier version does not start: ${inspect(cause)}`, { cause })
})
// A connection may still be closing when the next one is opened.
const server = new PGLiteSocketServer({ db: database, maxConnections: 10, ...address })
await server.start()
parentPort?.postMessage(server.getServerConn())
