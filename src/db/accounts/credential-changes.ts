import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '../engine/client.ts'
import { sql } from '../schema/drizzle.ts'
import { statement } from '../statements/statement.ts'

/** A change that invalidates cached credentials. */
export type CredentialChange =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'api_token'; readonly tokenId: string }
  | { readonly kind: 'user'; readonly userId: string }

const channel = 'taskwright_credential_changes'

const notify = statement(
  'credential_changes.notify',
  { payload: 'text' },
  {},
  ({ payload }) => sql`select pg_notify(${sql.raw(`'${channel}'`)}, ${payload})`,
)

/** Payloads that begin so are this module's own. */
const echoPrefix = 'echo '

/** Milliseconds that a process waits for what it has sent itself. */
const echoDeadline = 5_000

/** Notifies all processes that listen on this database, this one included. */
export const notifyCredentialChange = async (db: Database, change: CredentialChange): Promise<void> => {
  await notify(db, { payload: JSON.stringify(change) })
}

/** Null if the payload is not one of these changes. */
const parseChange = (payload: string): CredentialChange | null => {
  const change = parseJson(payload)
  if (typeof change !== 'object' || change === null || !('kind' in change)) return null
  const { kind } = change
  if (kind === 'session' && 'sessionId' in change && typeof change.sessionId === 'string')
    return { kind, sessionId: change.sessionId }
  if (kind === 'api_token' && 'tokenId' in change && typeof change.tokenId === 'string')
    return { kind, tokenId: change.tokenId }
  if (kind === 'user' && 'userId' in change && typeof change.userId === 'string')
    return { kind, userId: change.userId }
  return null
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Calls `onSilence` if a notification does not arrive that is sent now. */
const expectEcho = async (db: Database, echoes: EventEmitter, onSilence: () => void): Promise<void> => {
  const payload = `${echoPrefix}${randomUUID()}`
  let hasArrived = false
  echoes.once(payload, () => (hasArrived = true))
  try {
    await notify(db, { payload })
    await pause(echoDeadline, undefined, { ref: false })
    if (!hasArrived) onSilence()
  } catch {
    // It could not be sent, so nothing is known.
  } finally {
    echoes.removeAllListeners(payload)
  }
}

interface CredentialListener {
  /** With null when a process of another version sends a change that this one does not know, which can be of any credential. */
  readonly onChange: (change: CredentialChange | null) => void
  /** Called when listening begins, and again after every reconnect: changes in between have been missed. */
  readonly onListening: () => void
  /** Called when no notification arrives although it listens: a pooler by transaction drops them. */
  readonly onSilence: () => void
}

/** Listens for the changes of all processes until `db` is closed. */
export const listenForCredentialChanges = (
  db: Database,
  { onChange, onListening, onSilence }: CredentialListener,
): void => {
  const echoes = new EventEmitter()
  db.listen(channel, {
    onNotification(payload) {
      if (payload.startsWith(echoPrefix)) echoes.emit(payload)
      else onChange(parseChange(payload))
    },
    onListening() {
      onListening()
      void expectEcho(db, echoes, onSilence)
    },
  })
}
