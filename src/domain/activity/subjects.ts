import type { components } from '../../../generated/openapi.ts'

type Schemas = components['schemas']

export type SubjectType = Schemas['SubjectType']

/** What the type of an event names before the dot. */
type KindOf<Type extends string> = Type extends `${infer Kind}.${string}` ? Kind : never

/**
 * The subject of an event: the resource that its type names before the dot. Members have no id of their own. A new type of a known kind has
 * the subject of its kind.
 */
export const eventSubjects = {
  task: 'task',
  comment: 'comment',
  attachment: 'attachment',
  project: 'project',
  member: 'project',
  export: 'export',
  import: 'import',
} as const satisfies Readonly<Record<KindOf<Schemas['EventType']>, SubjectType>>

/** The subject of a notification: what its user opens. Of a reminder the task, because the reminder may have been deleted since. */
export const notificationSubjects = {
  mention: 'comment',
  assignment: 'task',
  comment: 'comment',
  completion: 'task',
  reminder: 'task',
  reminder_limit: 'task',
  export: 'export',
  import: 'import',
} as const satisfies Readonly<Record<Schemas['NotificationReason'], SubjectType>>
