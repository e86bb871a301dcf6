import type { components } from '../../../generated/openapi.ts'
import type { Scope } from './scopes.ts'

/** A related resource that `expand` embeds in a task. */
export type TaskExpansion = components['schemas']['TaskExpansion']

/** A related resource that `expand` embeds in a member of a project. */
export type MemberExpansion = components['schemas']['MemberExpansion']

/** A related resource that `expand` embeds in a relation. It needs no scope beyond that of the operation. */
export type RelationExpansion = components['schemas']['RelationExpansion']

/** A related resource that `expand` embeds in a comment. */
export type CommentExpansion = components['schemas']['CommentExpansion']

/** A related resource that `expand` embeds in a notification. */
export type NotificationExpansion = components['schemas']['NotificationExpansion']

export type Expansion = TaskExpansion | MemberExpansion | CommentExpansion | NotificationExpansion

/** The scope that an API token needs for each expansion: the same as for reading the resource itself. */
const scopes: Readonly<Record<Expansion, Scope>> = {
  owner: 'users:read',
  assignee: 'users:read',
  project: 'projects:read',
  attachments: 'attachments:read',
  parent: 'tasks:read',
  subtasks: 'tasks:read',
  user: 'users:read',
  author: 'users:read',
  task: 'tasks:read',
}

export const scopesOfExpansions = (expand: readonly Expansion[]): readonly Scope[] =>
  expand.map((expansion) => scopes[expansion])
