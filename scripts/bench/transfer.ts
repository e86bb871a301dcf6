import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request as open } from 'node:http'

/** A server that takes files, and who asks it. */
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

/** Sent again and again: a client that makes up its bytes would have less time to send them. */
const chunk = randomBytes(65_536)

const agent = new Agent({ keepAlive: true })

/** Uploads a file of `size` bytes in a form, and resolves with where it is. */
export const upload = async (target: Target, path: string, size: number): Promise<string> => {
  const request = send(target, 'POST', path, {
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': String(formHead.length + size + formTail.length),
  })
  const answered = expectStatus(request, 201)
  request.write(formHead)
  for (let left = size; left > 0; left -= chunk.length)
    if (!request.write(chunk.subarray(0, left))) await once(request, 'drain')
  request.end(formTail)
  const response = await answered
  await countBytes(response)
  return response.headers.location ?? ''
}

/** Downloads a file, keeps nothing of it and resolves with its size. */
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

/** Does the same several times at once. */
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
  throw new Error(`${request.method} ${request.path} was answered ${response.statusCode}, not ${expected}`)
}

const countBytes = async (response: IncomingMessage): Promise<number> => {
  let bytes = 0
  response.on('data', (data: Buffer) => (bytes += data.length))
  await once(response, 'end')
  return bytes
}
