import type { Database } from './engine/client.ts'
import { sql } from './schema/drizzle.ts'
import { statement } from './engine/statement.ts'

/** A change after which cached credentials are out of date. */
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

/** Notifies all processes that listen on this database, this one included. */
export const notifyCredentialChange = async (db: Database, change: CredentialChange): Promise<void> => {
  await notify(db, { payload: JSON.stringify(change) })
}

interface CredentialListener {
  readonly onChange: (change: CredentialChange) => void
  /** Called when listening begins, and again after every reconnect: changes in between have been missed. */
  readonly onListening: () => void
}

/** Listens for the changes of all processes until `db` is closed. The embedded database has no other processes. */
export const listenForCredentialChanges = (
  db: Database,
  { onChange, onListening }: CredentialListener,
): void =>
  db.listen(channel, {
    onNotification: (payload) => onChange(JSON.parse(payload) as CredentialChange),
    onListening,
  })
