import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A receiver of webhooks that accepts everything. `GET /` returns the lag of each delivery since the last `GET /`: the milliseconds
 * from the event to its arrival.
 */

let lags: number[] = []

const timestamp = /"timestamp":"([^"]+)"/

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(lags))
    lags = []
    return
  }
  const arrived = Date.now()
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    lags.push(arrived - Date.parse(timestamp.exec(Buffer.concat(chunks).toString())?.[1] ?? ''))
    response.writeHead(204).end()
  })
})

server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`listening on http://127.0.0.1:${port}`)
})
