import type { components } from '../../../generated/openapi.ts'

/** The scope of an API token. It never exceeds the permissions of the token's user. */
export type Scope = components['schemas']['Scope']

type ScopeName = Scope | 'any' | 'session' | 'link' | 'none'

/**
 * The `x-scope` of an operation: the scope that an API token needs, `any` if every token is accepted, `session` if API
 * tokens are not, `link` if the URL authenticates the request, or `none` if it is not authenticated. Of several scopes, the kind of the
 * resource decides which is needed: a token with none of them is refused at once, and the service checks for the right one.
 */
export type RequiredScope = ScopeName | readonly Scope[]

const scopeNames: Readonly<Record<ScopeName, true>> = {
  'tasks:read': true,
  'tasks:write': true,
  'tags:read': true,
  'tags:write': true,
  'projects:read': true,
  'projects:write': true,
  'attachments:read': true,
  'attachments:write': true,
  'users:read': true,
  'users:write': true,
  'notifications:read': true,
  'notifications:write': true,
  'webhooks:read': true,
  'webhooks:write': true,
  'exports:write': true,
  'imports:write': true,
  'feeds:read': true,
  'feeds:write': true,
  any: true,
  session: true,
  link: true,
  none: true,
}

/** The read scope that each write scope includes, because the response to a write contains the resource. */
const readScopes: Partial<Record<Scope, Scope>> = {
  'tasks:write': 'tasks:read',
  'tags:write': 'tags:read',
  'projects:write': 'projects:read',
  'attachments:write': 'attachments:read',
  'users:write': 'users:read',
  'notifications:write': 'notifications:read',
  'webhooks:write': 'webhooks:read',
  'feeds:write': 'feeds:read',
}

/** Whether a granted scope satisfies a required one. */
export const includesScope = (granted: Scope, required: Scope): boolean =>
  granted === required || readScopes[granted] === required

/** The scopes that creating a task needs besides its own: creating tags with it needs the scope for creating tags. */
export const scopesOfNewTask = ({
  tag_names = [],
}: {
  readonly tag_names?: readonly string[]
}): readonly Scope[] => (tag_names.length === 0 ? [] : ['tags:write'])

const isScopeName = (name: unknown): name is ScopeName =>
  typeof name === 'string' && Object.hasOwn(scopeNames, name)

const isScope = (name: unknown): name is Scope =>
  isScopeName(name) && name !== 'any' && name !== 'session' && name !== 'link' && name !== 'none'

export const isRequiredScope = (value: unknown): value is RequiredScope =>
  Array.isArray(value) ? value.every(isScope) : isScopeName(value)

/** Parses the stored form: scopes separated by spaces. */
export const parseScopes = (text: string): readonly Scope[] =>
  text.split(' ').map((name) => {
    if (isScope(name)) return name
    throw new TypeError(`Unknown scope ${name}`)
  })
