import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request as open } from 'node:http'

/** A server for uploads and downloads, and the headers of requests to it. */
export interface Target {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

const boundary = 'the-limit-of-the-form'
const formHead = Buffer.from(
  `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="bytes"\r\n` +
    'Content-Type: application/octet-stream\r\n\r\n',
)
const formTail = Buffer.from(`\r\n--${boundary}--\r\n`)

/** Sent repeatedly, because generating random bytes would slow down the client. */
const chunk = randomBytes(65_536)

const agent = new Agent({ keepAlive: true })

/** Uploads a file of `size` bytes in a form. Resolves to its path. */
export const upload = async (target: Target, path: string, size: number): Promise<string> => {
  const request = send(target, 'POST', path, {
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': String(formHead.length + size + formTail.length),
  })
  const responding = expectStatus(request, 201)
  request.write(formHead)
  for (let left = size; left > 0; left -= chunk.length)
    if (!request.write(chunk.subarray(0, left))) await once(request, 'drain')
  request.end(formTail)
  const response = await responding
  await countBytes(response)
  return response.headers.location ?? ''
}

/** Downloads a file without storing it. Resolves to its size. */
export const download = async (target: Target, path: string): Promise<number> => {
  const request = send(target, 'GET', path)
  request.end()
  return countBytes(await expectStatus(request, 200))
}

export const remove = async (target: Target, path: string): Promise<void> => {
  const request = send(target, 'DELETE', path)
  request.end()
  await countBytes(await expectStatus(request, 204))
}

/** Runs `action` several times concurrently. */
export const inParallel = <T>(times: number, action: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, (_, index) => action(index)))

const send = (
  target: Target,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): ClientRequest =>
  open(`${target.url}${path}`, { method, agent, headers: { ...target.headers, ...headers } })

const expectStatus = async (request: ClientRequest, expected: number): Promise<IncomingMessage> => {
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  if (response.statusCode === expected) return response
  throw new Error(`${request.method} ${request.path} returned ${response.statusCode} instead of ${expected}`)
}

const countBytes = async (response: IncomingMessage): Promise<number> => {
  let bytes = 0
  response.on('data', (data: Buffer) => (bytes += data.length))
  await once(response, 'end')
  return bytes
}
