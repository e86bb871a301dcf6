/** The Idempotency-Key of a creation, and a fingerprint of its request: a different request must not use the same key. */
export interface Idempotency {
  readonly principalId: string
  readonly operation: string
  readonly key: string
  /** Base64url of an HMAC: it reveals nothing about a password in the body. */
  readonly fingerprint: string
  /** Whether a stored fingerprint matches this request. It may have been computed with an earlier secret. */
  readonly isFingerprint: (stored: string) => boolean
  /** The same key with other content. A form's content is known only after its handler has read it. */
  readonly withContent: (content: unknown) => Idempotency
}

/** A created resource: its id and JSON text. `replayed`: the response to an earlier request with the same key. */
export interface Created {
  readonly id: string
  readonly json: string
  readonly replayed: boolean
}
