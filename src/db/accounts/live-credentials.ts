import type { BearerCredential, Role } from '../../domain/shared/permissions.ts'
import { fromLiveTokens } from './api-tokens.ts'
import type { Database } from '../engine/client.ts'
import { statement } from '../statements/statement.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, sql } from '../schema/drizzle.ts'
import { apiTokens, sessions, users } from '../schema/tables.ts'
import { fromLiveSessions } from './sessions.ts'

const session = aliasedTable(sessions, 'session')
const token = aliasedTable(apiTokens, 'token')
const person = aliasedTable(users, 'person')

const select = statement(
  'live_credentials.select',
  { sessions: 'uuid[]', tokens: 'uuid[]' },
  { id: 'text', role: 'text' },
  (p) => sql`
    select ${session.id}::text, ${person.role} ${fromLiveSessions} and ${session.id} = any(${p.sessions})
    union all
    select ${token.id}::text, ${person.role} ${fromLiveTokens} and not ${isSignInDue(person)} and ${token.id} = any(${p.tokens})`,
)

/** The id of a session or API token. */
export const credentialId = (credential: BearerCredential): string =>
  credential.kind === 'session' ? credential.sessionId : credential.tokenId

/** The current roles of the users of these credentials, by `credentialId`. Ended credentials are missing. */
export const selectLiveCredentials = async (
  db: Database,
  credentials: readonly BearerCredential[],
): Promise<ReadonlyMap<string, Role>> => {
  const idsOf = (kind: BearerCredential['kind']): readonly string[] => [
    ...new Set(credentials.filter((credential) => credential.kind === kind).map(credentialId)),
  ]
  const rows = await select(db, { sessions: idsOf('session'), tokens: idsOf('api_token') })
  return new Map(rows.map(({ id, role }) => [id, role === 'admin' ? 'admin' : 'member']))
}
