import { Busboy } from '@fastify/busboy'
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { open, rename, rm, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * The floor for uploads and downloads: a Node server that does only the necessary work. It parses the form; hashes, writes, syncs and
 * renames the file; syncs the folder; and streams the file. It has no framework, authentication, permissions, database or limits.
 */

const { DATA_DIR = '.', PORT = '0' } = process.env

const store = async (content: Readable): Promise<string> => {
  const name = randomUUID()
  const [incoming, path] = [join(DATA_DIR, `${name}.incoming`), join(DATA_DIR, name)]
  const hash = createHash('sha256')
  content.on('data', (chunk: Buffer) => hash.update(chunk))
  await pipeline(content, createWriteStream(incoming, { flags: 'wx', flush: true }))
  hash.digest('hex')
  await rename(incoming, path)
  const folder = await open(DATA_DIR, 'r')
  await folder.sync()
  await folder.close()
  return name
}

const receive = (request: IncomingMessage): Promise<string> =>
  new Promise((resolve, reject) => {
    const form = new Busboy({
      headers: { ...request.headers, 'content-type': request.headers['content-type'] ?? '' },
    })
    form.on('file', (_field, content) => store(content).then(resolve, reject))
    form.on('error', reject)
    request.pipe(form)
  })

const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { method, url = '' } = request
  const path = join(DATA_DIR, url.slice(1))
  if (method === 'POST') {
    response.writeHead(201, { location: `/${await receive(request)}` }).end()
  } else if (method === 'DELETE') {
    await rm(path)
    response.writeHead(204).end()
  } else {
    response.writeHead(200, { 'content-length': (await stat(path)).size })
    await pipeline(createReadStream(path), response)
  }
}

const server = createServer((request, response) => {
  handle(request, response).catch((error: unknown) => {
    console.error(error)
    response.destroy()
  })
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`listening at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => process.exit(0))
