import type postgres from 'postgres'
import { createClient, type ServerConnection } from './connection.ts'

/** Receives notifications from a LISTEN channel. */
export interface NotificationListener {
  readonly onNotification: (payload: string) => void
  /** Called when listening starts and after every reconnect. Notifications sent while disconnected are lost. */
  readonly onListening: () => void
}

/** Seconds between reconnect attempts. */
const reconnectDelay = 1

/**
 * Listens on a channel over a dedicated connection until the returned client is ended. The driver (postgres 3.4.9)
 * reconnects and listens again by itself, even if the first attempt fails.
 */
export const listenForNotifications = (
  connection: ServerConnection,
  channel: string,
  { onNotification, onListening }: NotificationListener,
): postgres.Sql => {
  const client = createClient(connection, {
    backoff: () => reconnectDelay,
    connection: { application_name: 'taskwright-listen' },
  })
  client.listen(channel, onNotification, onListening).catch(() => undefined)
  return client
}
