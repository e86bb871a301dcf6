import type { components } from '../../../generated/openapi.ts'

/** The kind of a relation, as seen from the task that it is listed on. */
export type RelationKind = components['schemas']['RelationKind']

/** A stored relation: one row, no matter from which of the two tasks it was created. */
export interface StoredRelation {
  readonly taskId: string
  readonly kind: 'blocks' | 'duplicates' | 'relates_to'
  readonly otherTaskId: string
}

/** The row of a relation between two tasks, whose ids are in lower case, as the database compares them. */
export const storedRelation = (task: string, kind: RelationKind, related: string): StoredRelation => {
  switch (kind) {
    case 'blocks':
    case 'duplicates':
      return { taskId: task, kind, otherTaskId: related }
    case 'blocked_by':
      return { taskId: related, kind: 'blocks', otherTaskId: task }
    case 'duplicated_by':
      return { taskId: related, kind: 'duplicates', otherTaskId: task }
    case 'relates_to':
      return task < related
        ? { taskId: task, kind, otherTaskId: related }
        : { taskId: related, kind, otherTaskId: task }
  }
}

const inverses: Readonly<Record<StoredRelation['kind'], RelationKind>> = {
  blocks: 'blocked_by',
  duplicates: 'duplicated_by',
  relates_to: 'relates_to',
}

/** The kind of a stored relation, as seen from the other task. */
export const inverseKind = ({ kind }: StoredRelation): RelationKind => inverses[kind]
