import type { components } from '../../generated/openapi.ts'
import type { CodeInput } from '../services/accounts/oidc-proofs.ts'

/** A code of a provider's sign-in, and what proves that it is the client's. */
export const codeOf = ({
  code,
  code_verifier: codeVerifier,
}: components['schemas']['OidcCode']): CodeInput => ({ code, codeVerifier })
