import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Upload } from 'tus-js-client'
import { type ServiceProcess, startProcess, temporaryFolder } from '../test/fixture/process.ts'
import { createClient } from '../test/fixture/service.ts'
import { runToEnd, type Teardown } from './run-to-end.ts'

/**
 * A large file through the tus client that browsers use, on a bad day: the connection is cut after a third of it, and the
 * service killed after two thirds and started again. In the bucket of TEST_STORAGE_URL if there is one, else on the disk.
 */

const size = 200 * 1024 * 1024

/** Milliseconds for all of it. */
const deadline = 240_000

const describeBytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

/** Writes a file that is like no other; resolves to its SHA-256. */
const writeRandomFile = async (path: string): Promise<string> => {
  const block = 4 * 1024 * 1024
  const hash = createHash('sha256')
  const file = await open(path, 'wx')
  for (let written = 0; written < size; written += block) {
    const bytes = randomBytes(block)
    hash.update(bytes)
    await file.writeFile(bytes)
  }
  await file.close()
  return hash.digest('hex')
}

/** The way to a service, on which something goes wrong once when so many bytes have been sent. */
interface Line {
  readonly url: string
  target: string
  /** What happens next, and after how many bytes; the connection is lost then. */
  accident: { readonly after: number; readonly happen: () => Promise<void> } | null
}

const startLine = async (t: Teardown, target: string): Promise<Line> => {
  const connections = new Set<Socket>()
  let sent = 0
  const server = createServer((client) => {
    const { hostname, port } = new URL(line.target)
    const service = connect(Number(port), hostname)
    const lose = (): void => {
      client.destroy()
      service.destroy()
    }
    for (const socket of [client, service]) {
      connections.add(socket)
      socket.on('error', lose)
      socket.on('close', () => {
        connections.delete(socket)
        lose()
      })
    }
    service.pipe(client)
    client.on('data', (bytes) => {
      sent += bytes.length
      if (!service.write(bytes)) {
        client.pause()
        service.once('drain', () => client.resume())
      }
      const { accident } = line
      if (accident === null || sent < accident.after) return
      line.accident = null
      client.pause()
      accident.happen().then(lose, lose)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.close()
    for (const socket of connections) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  const line: Line = { url: `http://127.0.0.1:${port}`, target, accident: null }
  return line
}

/** Sends a file as a browser would; resolves to where the attachment is. Each request that asks where to go on is told to `onOffset`. */
const send = (
  path: string,
  endpoint: string,
  token: string,
  sha256: string,
  onOffset: (offset: number) => void,
): Promise<string> =>
  new Promise((resolve, reject) => {
    new Upload(createReadStream(path), {
      endpoint,
      uploadSize: size,
      headers: { authorization: `Bearer ${token}` },
      metadata: { filename: 'large.bin', filetype: 'application/octet-stream', sha256 },
      // From the death of the service on: a busy machine takes its time to start it again.
      retryDelays: [0, ...Array.from({ length: 120 }, () => 1_000)],
      onAfterResponse(request, response) {
        const offset = response.getHeader('Upload-Offset')
        if (request.getMethod() === 'HEAD' && offset !== undefined) onOffset(Number(offset))
      },
      onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('Content-Location') ?? ''),
      onError: reject,
    }).start()
  })

const digestOf = async (content: ReadableStream<Uint8Array> | null): Promise<string> => {
  const hash = createHash('sha256')
  for await (const chunk of content ?? []) hash.update(chunk)
  return hash.digest('hex')
}

const environmentOf = async (t: Teardown): Promise<Record<string, string>> => {
  const { TEST_STORAGE_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = process.env
  return {
    DATA_DIR: await temporaryFolder(t),
    ATTACHMENT_MAX_BYTES: String(size),
    ...(TEST_STORAGE_URL !== undefined && {
      STORAGE_URL: TEST_STORAGE_URL,
      AWS_ACCESS_KEY_ID: AWS_ACCESS_KEY_ID ?? '',
      AWS_SECRET_ACCESS_KEY: AWS_SECRET_ACCESS_KEY ?? '',
    }),
  }
}

const run = async (t: Teardown): Promise<void> => {
  const environment = await environmentOf(t)
  const path = join(await temporaryFolder(t), 'large.bin')
  const sha256 = await writeRandomFile(path)
  let service: ServiceProcess = await startProcess(t, environment)
  const { register, expect } = createClient(service.url, () => undefined)
  const { token } = await register('ada')
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With a large file' } })
  console.log(`tus: sending ${describeBytes(size)} to ${environment.STORAGE_URL ? 'a bucket' : 'the disk'}`)

  const line = await startLine(t, service.url)
  const kill = async (): Promise<void> => {
    await service.end('SIGKILL')
    console.log('tus: the service was killed after two thirds; starting it again')
    service = await startProcess(t, environment)
    line.target = service.url
  }
  const cut = async (): Promise<void> => {
    console.log('tus: the connection was cut after a third')
    line.accident = { after: (2 / 3) * size, happen: kill }
  }
  line.accident = { after: size / 3, happen: cut }

  const offsets: number[] = []
  const begun = performance.now()
  const location = await send(path, `${line.url}/tasks/${task.id}/uploads`, token, sha256, (offset) => {
    offsets.push(offset)
    console.log(`tus: the client asks where to go on: ${describeBytes(offset)}`)
  })
  const seconds = ((performance.now() - begun) / 1_000).toFixed(1)
  console.log(`tus: done after ${seconds} s: ${location}`)

  if (offsets.length < 2 || offsets.some((offset) => offset === 0))
    throw new Error(`It was not continued twice: ${offsets.join(', ')}`)
  const download = await fetch(`${service.url}${location}`, { headers: { authorization: `Bearer ${token}` } })
  const received = await digestOf(download.body)
  if (received !== sha256) throw new Error(`What was sent is ${sha256}, and what is there ${received}`)
  console.log(`tus: it has the same SHA-256: ${sha256}`)
  const code = await service.end('SIGTERM')
  if (code !== 0) throw new Error(`The service ended with ${code}, not 0:\n${service.output()}`)
}

await runToEnd('tus', deadline, run)
