/** The provider cannot be reached, or answers in a way that is not its protocol. Nothing was done. */
export class ProviderUnavailable extends Error {
  override readonly name = 'ProviderUnavailable'
  /** Whether it may respond later. Otherwise its settings are wrong, or those in OIDC_CONFIG. */
  readonly isOutage: boolean

  constructor(provider: string, cause: unknown, { isOutage }: { readonly isOutage: boolean }) {
    super(`The identity provider ${provider} cannot be used: ${reasonOf(cause)}`, { cause })
    this.isOutage = isOutage
  }
}

/** The provider has not authenticated anybody. The message is for the operator. */
export class NotAuthenticated extends Error {
  override readonly name = 'NotAuthenticated'
  /** The error code of the provider, if it has sent one (RFC 6749, section 4.1.2.1). */
  readonly code: string | null

  constructor(provider: string, cause: unknown) {
    super(`The identity provider ${provider} has authenticated nobody: ${reasonOf(cause)}`, { cause })
    this.code = textIn(cause, 'error')
  }
}

/**
 * The provider has authenticated somebody, but not as recently as a proof of identity needs. The message is for the operator, `remedy` for
 * the user.
 */
export class NotRecent extends Error {
  override readonly name = 'NotRecent'
  readonly remedy: string

  /** `isKnown`: whether the provider says when. */
  constructor(provider: string, { isKnown }: { readonly isKnown: boolean }) {
    super(
      isKnown
        ? `The identity provider ${provider} has authenticated the user more than 15 minutes ago, although it was asked for max_age`
        : `The identity provider ${provider} does not say when users have authenticated: add the claim auth_time to the ID token, if it can`,
    )
    this.remedy = isKnown
      ? 'The identity provider has not asked you to authenticate again. Sign out there and try again, or use your password or a code of your second factor.'
      : 'The identity provider does not say when you have authenticated, so it cannot confirm your identity. Use your password or a code of your second factor. If you have neither, ask an administrator to set a password.'
  }
}

const textIn = (value: unknown, name: string): string | null => {
  if (typeof value !== 'object' || value === null) return null
  const found: unknown = Reflect.get(value, name)
  return typeof found === 'string' ? found : null
}

/** Why the user info of a provider is not used. For the operator. */
export const userInfoFailure = (provider: string, cause: unknown): string =>
  `The request for the user info of the identity provider ${provider} failed, so only the claims of the ID token are used: ${messagesOf(cause, () => undefined)}`

/** What the operator can do, by the code of an error of openid-client, of jose or of the system. */
const advice: Readonly<Record<string, string>> = {
  OAUTH_JWT_TIMESTAMP_CHECK_FAILED:
    'a time in the token is not valid now; compare the clocks of this machine and of the provider',
  ERR_JWT_EXPIRED: 'the token has expired; compare the clocks of this machine and of the provider',
  OAUTH_JWT_CLAIM_COMPARISON_FAILED:
    'a claim of the token is not the expected one; check issuer and client_id in OIDC_CONFIG',
  ERR_JWT_CLAIM_VALIDATION_FAILED:
    'a claim of the token is not the expected one; check issuer and client_id in OIDC_CONFIG',
  OAUTH_KEY_SELECTION_FAILED:
    'it has no key for the signature of the token; after a change of its keys, this can take a minute',
  ERR_JWKS_NO_MATCHING_KEY:
    'it has no key for the signature of the token; after a change of its keys, this can take a minute',
  OAUTH_RESPONSE_BODY_ERROR:
    'it refuses the request; check client_id, the client secret and the redirect URI',
  OAUTH_RESPONSE_IS_NOT_CONFORM: 'its answer has an unexpected status; check issuer in OIDC_CONFIG',
  OAUTH_RESPONSE_IS_NOT_JSON: 'its answer is not JSON; check issuer in OIDC_CONFIG',
  OAUTH_TIMEOUT: 'it did not answer in time',
}

/** The same, by the attribute of a JSON document that is not the expected one. */
const adviceOfAttribute: Readonly<Record<string, string>> = {
  issuer:
    'its discovery document has another issuer; set issuer in OIDC_CONFIG to exactly that of the document',
  sub: 'its user info is of another user than the ID token',
}

const adviceFor = (error: Error): string | undefined => {
  const code = textIn(error, 'code')
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return adviceOfAttribute[attributeOf(error) ?? '']
  return code !== null && Object.hasOwn(advice, code) ? advice[code] : undefined
}

/** The attribute that an error, which openid-client may have wrapped, was caused by. */
const attributeOf = (error: Error): string | null =>
  textIn(error.cause, 'attribute') ?? (error.cause instanceof Error ? attributeOf(error.cause) : null)

/** Whether the user info is of another user than the ID token. */
export const isOfAnotherUser = (error: unknown): boolean =>
  error instanceof Error &&
  textIn(error, 'code') === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED' &&
  attributeOf(error) === 'sub'

/** The messages of an error and its causes, and what to do. */
const reasonOf = (error: unknown): string => messagesOf(error, adviceFor)

/** None has a secret: those of openid-client name claims and headers. */
const messagesOf = (error: unknown, adviseOn: (error: Error) => string | undefined): string => {
  const messages: string[] = []
  for (let one = error; one instanceof Error && messages.length < 5; one = one.cause) {
    const description = textIn(one, 'error_description') ?? textIn(one, 'error')
    messages.push([adviseOn(one), one.message, description].filter((text) => text).join(': '))
  }
  return messages.length === 0 ? 'it does not answer' : messages.join(': ').slice(0, 1_000)
}
