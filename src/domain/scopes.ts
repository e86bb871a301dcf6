import type { components } from '../../generated/openapi.ts'

/** What an API token may do, as far as its user may. */
export type Scope = components['schemas']['Scope']

/**
 * An operation's `x-scope`: the scope that an API token needs, `session` where no API token will do, `none` where nobody
 * signs in.
 */
export type RequiredScope = Scope | 'session' | 'none'

const requiredScopes: Readonly<Record<RequiredScope, true>> = {
  'tasks:read': true,
  'tasks:write': true,
  'tags:read': true,
  'tags:write': true,
  'attachments:read': true,
  'attachments:write': true,
  'users:read': true,
  'users:write': true,
  session: true,
  none: true,
}

/** The read scope that each write scope includes: the answer to a change shows what was changed. */
const readScopes: Partial<Record<Scope, Scope>> = {
  'tasks:write': 'tasks:read',
  'tags:write': 'tags:read',
  'attachments:write': 'attachments:read',
  'users:write': 'users:read',
}

/** Whether a scope that a token was granted is enough where another one is required. */
export const includesScope = (granted: Scope, required: Scope): boolean =>
  granted === required || readScopes[granted] === required

/** Whether a contract's `x-scope` is one that exists here. */
export const isRequiredScope = (name: unknown): name is RequiredScope =>
  typeof name === 'string' && Object.hasOwn(requiredScopes, name)

/** Reads scopes as they are stored, with spaces between them. */
export const parseScopes = (text: string): readonly Scope[] =>
  text.split(' ').map((name) => {
    if (isRequiredScope(name) && name !== 'session' && name !== 'none') return name
    throw new TypeError(`There is no scope ${name}`)
  })
