import { createHash, randomBytes } from 'node:crypto'
import { open, seal } from '../auth/seal.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'

/** What a client wants to be authenticated for. */
export type Purpose = 'sign_in' | 'link' | 'reauthenticate'

/** A request for authentication, which the provider's `state` carries: nothing is stored for who has not signed in. */
export interface AuthorizationRequest {
  readonly purpose: Purpose
  readonly provider: string
  readonly returnTo: string
  /** Of the client (RFC 7636, S256): only its verifier exchanges the code that the client gets. */
  readonly codeChallenge: string
  /** The client's own state, returned as it is. */
  readonly clientState: string
  readonly invitationToken: string | null
  /** Random; gives the nonce and the verifier of this service's request to the provider. */
  readonly seed: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/** Milliseconds for which the provider can answer. */
export const authorizationLifetime = 600_000

export const newSeed = (): string => randomBytes(32).toString('base64url')

const hash = (text: string): string => createHash('sha256').update(text).digest('base64url')

/** The nonce and the PKCE verifier of a request to the provider. Neither tells the other, nor the seed. */
export const secretsOf = ({
  seed,
}: AuthorizationRequest): { readonly nonce: string; readonly verifier: string } => ({
  nonce: hash(`nonce ${seed}`),
  verifier: hash(`verifier ${seed}`),
})

/** The S256 challenge of a verifier (RFC 7636, section 4.2). */
export const challengeOf = hash

const context = 'oidc authorization request'

export const sealRequest = (keys: KeyRing, request: AuthorizationRequest): string =>
  seal(keys, Buffer.from(JSON.stringify(request)), context).toString('base64url')

/** Null if this service has not sealed it. Does not check the expiry. */
export const openRequest = (keys: KeyRing, state: string): AuthorizationRequest | null => {
  const opened = open(keys, Buffer.from(state, 'base64url'), context)
  return opened === null ? null : (JSON.parse(opened.plaintext.toString()) as AuthorizationRequest)
}
