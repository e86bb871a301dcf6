import type { components } from '../../generated/openapi.ts'
import type { Scope } from './scopes.ts'

/** What a read of tasks can bring along, as `expand` names it. */
export type TaskExpansion = components['schemas']['TaskExpansion']

/** The scope that an API token needs for each, the one that it would need to read it alone. */
const scopes: Readonly<Record<TaskExpansion, Scope>> = {
  owner: 'users:read',
  assignee: 'users:read',
  attachments: 'attachments:read',
}

/** The scopes that an API token needs to have these. */
export const scopesOfExpansions = (expand: readonly TaskExpansion[]): readonly Scope[] =>
  expand.map((expansion) => scopes[expansion])
