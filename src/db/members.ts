/** Members of projects and teams, as their statements return them. */

/** A member as JSON text, with the version of their role. */
export interface MemberRow {
  readonly json: string
  readonly version: number
}

/** A member after a change, and whether they were no member before. */
export interface ChangedMember extends MemberRow {
  readonly is_new: boolean
}

export const changedMemberColumns = {
  outcome: 'text',
  json: 'text?',
  version: 'int?',
  is_new: 'bool',
} as const
