import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { backupSocketPath, type RunningService } from '../../src/process/backup-socket.ts'

/** The service that runs on a DATA_DIR. */
export interface ServiceConnection extends RunningService {
  /** Sends a line, and resolves to the answer. */
  ask(line: string): Promise<string>
  close(): void
}

/** Connects to the service that uses the database in DATA_DIR; null if none does. */
export const connectToService = async (dataDir: string): Promise<ServiceConnection | null> => {
  const socket = connect(backupSocketPath(dataDir))
  try {
    await once(socket, 'connect')
  } catch {
    return null
  }
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  socket.on('error', () => undefined)
  const read = async (): Promise<string> => {
    const line = await lines.next()
    if (line.done === true) throw new Error('The service has stopped. Run the command again')
    return line.value
  }
  const greeting = JSON.parse(await read()) as RunningService
  return {
    ...greeting,
    ask(line) {
      socket.write(`${line}\n`)
      return read()
    },
    close: () => void socket.destroy(),
  }
}
