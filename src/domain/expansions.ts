import type { components } from '../../generated/openapi.ts'
import type { Scope } from './scopes.ts'

/** A related resource that `expand` embeds in a task. */
export type TaskExpansion = components['schemas']['TaskExpansion']

/** A related resource that `expand` embeds in a member of a project. */
export type MemberExpansion = components['schemas']['MemberExpansion']

/** The scope that an API token needs for each expansion: the same as for reading the resource itself. */
const scopes: Readonly<Record<TaskExpansion | MemberExpansion, Scope>> = {
  owner: 'users:read',
  assignee: 'users:read',
  project: 'projects:read',
  attachments: 'attachments:read',
  user: 'users:read',
}

export const scopesOfExpansions = (expand: readonly (TaskExpansion | MemberExpansion)[]): readonly Scope[] =>
  expand.map((expansion) => scopes[expansion])
