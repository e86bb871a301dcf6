import type postgres from 'postgres'
import { createClient, type ServerConnection } from './connection.ts'

/** Receives the notifications of a channel (LISTEN). */
export interface NotificationListener {
  readonly onNotification: (payload: string) => void
  /** Called when listening begins, and again after every reconnect: notifications sent in between are lost. */
  readonly onListening: () => void
}

/** Seconds between two attempts to reconnect. */
const reconnectDelay = 1

/**
 * Listens on a channel over a connection of its own until the returned client is ended. The driver reconnects and listens
 * again by itself (postgres 3.4.9), also when the first attempt fails.
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
