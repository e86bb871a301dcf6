import { open, seal } from '../../auth/seal.ts'
import type { KeyRing } from '../../domain/shared/key-ring.ts'
import { type AuthorizationRequest, challengeOf, type Purpose } from '../../oidc/authorization-request.ts'
import type { ProvenIdentity } from '../../oidc/claims.ts'

/** What a client got from the browser, and what only it knows. */
export interface CodeInput {
  readonly code: string
  readonly codeVerifier: string
}

/** What a code stands for. */
export interface Proof extends Pick<AuthorizationRequest, 'purpose' | 'codeChallenge' | 'invitationToken'> {
  readonly identity: ProvenIdentity
}

/** What is stored of a code. */
interface StoredCode {
  readonly hash: Buffer
  readonly sealed: Buffer
}

/** Seals what a code stands for under the code. */
export const sealProof = (keys: KeyRing, proof: Proof, hash: Buffer): Buffer =>
  seal(keys, Buffer.from(JSON.stringify(proof)), contextOf(hash))

/** What a stored code stands for. Null unless the caller has begun the request, for this purpose. */
export const openProof = (
  keys: KeyRing,
  { hash, sealed }: StoredCode,
  { codeVerifier }: CodeInput,
  purpose: Purpose,
): Proof | null => {
  const opened = open(keys, sealed, contextOf(hash))
  if (opened === null) return null
  const proof = JSON.parse(opened.plaintext.toString()) as Proof
  return proof.purpose === purpose && proof.codeChallenge === challengeOf(codeVerifier) ? proof : null
}

/** Binds what is sealed under a code to it. */
const contextOf = (hash: Buffer): string => `oidc code ${hash.toString('base64url')}`
