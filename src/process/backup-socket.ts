import { chmod, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { canBeSocket } from '../postgres/cluster.ts'
import type { OwnPostgres } from '../postgres/own-postgres.ts'

/** The greeting of the service. */
export interface RunningService {
  readonly pid: number
  /** Whether another command is connected. */
  readonly isBusy: boolean
}

export const backupSocketPath = (dataDir: string): string => join(dataDir, 'backup.sock')

/**
 * Listens for `npm run backup`, which copies DATA_DIR while the service runs. It gets a greeting, sends `pause`, copies what has changed
 * since its first pass when it reads `paused`, and sends `resume`. The answer is `resumed`, or `late` if the database has gone on by itself.
 * A pause ends with its connection. Resolves to what closes the socket.
 */
export const listenForBackups = async (
  dataDir: string,
  pause: NonNullable<OwnPostgres['pause']>,
): Promise<() => Promise<void>> => {
  const path = backupSocketPath(dataDir)
  // Backups then need a stop.
  if (!canBeSocket(path)) return async () => undefined
  await rm(path, { force: true })
  const connections = new Set<Socket>()
  const server = createServer((socket) => {
    connections.add(socket)
    // The error of a connection also closes it.
    socket.on('error', () => undefined)
    socket.on('close', () => connections.delete(socket))
    const greeting: RunningService = { pid: process.pid, isBusy: connections.size > 1 }
    socket.write(`${JSON.stringify(greeting)}\n`)
    attend(socket, pause).catch(() => socket.destroy())
  })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o600)
  return async () => {
    for (const socket of connections) socket.destroy()
    server.close()
    await once(server, 'close')
  }
}

const attend = async (socket: Socket, pause: NonNullable<OwnPostgres['pause']>): Promise<void> => {
  let resume: (() => boolean) | null = null
  try {
    for await (const line of createInterface({ input: socket })) {
      if (line === 'pause' && resume === null) {
        resume = await pause()
        socket.write('paused\n')
      } else if (line === 'resume' && resume !== null) {
        socket.write(resume() ? 'resumed\n' : 'late\n')
        resume = null
      }
    }
  } finally {
    resume?.()
  }
}
