import type { Credentials } from '../../auth/credentials.ts'
import type { CredentialChange } from '../../db/accounts/credential-changes.ts'
import type { Database } from '../../db/engine/client.ts'
import { credentialId, selectLiveCredentials } from '../../db/accounts/live-credentials.ts'
import type { EventStream, OpenStreams } from './event-stream.ts'

/** Ends the streams of credentials that have ended: at once after a notification, and otherwise at the next check. */
export interface StreamCredentials {
  /** Checks all streams, unless the last check was less than `checkInterval` ago. */
  readonly check: () => Promise<void>
  /** The next check is due in `checkInterval`. For the first stream: its request has just been authenticated. */
  readonly restart: () => void
}

/** Milliseconds between two checks of all credentials: how long a revoked credential works if its notification was missed. */
const checkInterval = 5_000

/** Credentials per statement. */
const maxChecked = 1_000

export const watchCredentials = (
  credentials: Credentials,
  streams: OpenStreams,
  db: Database,
): StreamCredentials => {
  let checkedAt = -Infinity

  credentials.onChange((change) => {
    // A changed session or API token has ended. A changed user may still exist.
    if (change === null) checkedAt = -Infinity
    else if (change.kind === 'user')
      endRevoked([...streams.userStreams(change.userId)], streams, db).catch(() => (checkedAt = -Infinity))
    else for (const stream of streams.all) if (hasEnded(stream, change)) streams.end(stream)
  })

  return {
    async check() {
      if (performance.now() < checkedAt + checkInterval) return
      await endRevoked([...streams.all], streams, db)
      checkedAt = performance.now()
    },
    restart() {
      checkedAt = performance.now()
    },
  }
}

/** Ends those of `some` streams whose credential has ended, or whose user may no longer receive all events. */
const endRevoked = async (
  some: readonly EventStream[],
  streams: OpenStreams,
  db: Database,
): Promise<void> => {
  for (let first = 0; first < some.length; first += maxChecked) {
    const checked = some.slice(first, first + maxChecked)
    const live = await selectLiveCredentials(
      db,
      checked.map(({ principal }) => principal.credential),
    )
    for (const stream of checked) {
      const role = live.get(credentialId(stream.principal.credential))
      if (role === undefined || (stream.all && role !== 'admin')) streams.end(stream)
    }
  }
}

/** Whether the stream was opened with the changed session or API token. */
const hasEnded = ({ principal: { credential } }: EventStream, change: CredentialChange): boolean =>
  (change.kind === 'session' && credential.kind === 'session' && credential.sessionId === change.sessionId) ||
  (change.kind === 'api_token' && credential.kind === 'api_token' && credential.tokenId === change.tokenId)
