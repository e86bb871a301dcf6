import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

const { WEBHOOK_SECRET = '', PORT = '8080' } = process.env
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64')
if (key.length === 0) throw new Error('Set WEBHOOK_SECRET to the secret of the webhook.')

/** Seconds: maximum difference between the clocks, and the age after which a replayed message is rejected. */
const tolerance = 300
const maxBodyBytes = 8 * 1024 * 1024
const maxIds = 10_000

const isSigned = (headers: IncomingHttpHeaders, body: Buffer): boolean => {
  const header = (name: string): string => String(headers[`webhook-${name}`] ?? '')
  const timestamp = header('timestamp')
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) return false
  const digest = createHmac('sha256', key)
    .update(`${header('id')}.${timestamp}.`)
    .update(body)
    .digest('base64')
  const expected = Buffer.from(`v1,${digest}`)
  return header('signature')
    .split(' ')
    .some((signature) => {
      const given = Buffer.from(signature)
      return given.length === expected.length && timingSafeEqual(given, expected)
    })
}

/** A set keeps insertion order: the first is the oldest. */
const seen = new Set<string>()

const isNew = (id: string): boolean => {
  if (seen.has(id)) return false
  seen.add(id)
  const [oldest] = seen
  if (seen.size > maxIds && oldest !== undefined) seen.delete(oldest)
  return true
}

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > maxBodyBytes) return void request.destroy()
      chunks.push(chunk)
    }
  } catch {
    return // The sender closed the connection.
  }
  const body = Buffer.concat(chunks)
  const isAccepted = isSigned(request.headers, body)
  response.writeHead(isAccepted ? 204 : 401).end()
  if (!isAccepted || !isNew(String(request.headers['webhook-id']))) return
  const { type } = JSON.parse(body.toString()) as { type: string }
  console.log(type, request.headers['webhook-sequence'])
})

// Behind a proxy that terminates TLS.
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`listening at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
