import type { Created } from '../domain/shared/idempotency.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { open, seal } from './seal.ts'

/**
 * Secrets that appear only in the response to their creation. In the stored copy of the response, for replays, the last member
 * is `sealed_<name>` instead.
 */

/** Seals a secret for the stored response to the creation of the resource with this id. */
export const sealForReplay = (replayKeys: KeyRing, secret: string, id: string): string =>
  seal(replayKeys, Buffer.from(secret), id).toString('base64url')

/** The JSON of a response for a replay, with the sealed secret as its last member. */
export const jsonWithSealed = (json: string, name: string, sealed: string): string =>
  `${json.slice(0, -1)},"sealed_${name}":"${sealed}"}`

/**
 * The JSON of a response with the secret as its member `name`: `secret`, or, for a replay, the secret of the first response.
 *
 * @throws Error when no key opens the secret of a replay
 */
export const jsonWithSecret = (
  replayKeys: KeyRing,
  { id, json, replayed }: Pick<Created, 'id' | 'json' | 'replayed'>,
  { name, secret }: { readonly name: string; readonly secret: string },
): string => {
  if (!replayed) return `${json.slice(0, -1)},"${name}":"${secret}"}`
  const member = `"sealed_${name}":"`
  const start = json.lastIndexOf(member)
  const sealed = json.slice(start + member.length, -2)
  // Fingerprints use the same secrets: a key that recognized the replayed request can also open the secret.
  const opened = open(replayKeys, Buffer.from(sealed, 'base64url'), id)
  if (opened === null) throw new Error(`No key opens the ${name} of a replayed creation`)
  return `${json.slice(0, start)}"${name}":"${opened.plaintext.toString()}"}`
}
