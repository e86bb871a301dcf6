import { done, missing, type Outcome } from '../domain/outcome.ts'
import { readOutcome } from './engine/outcome.ts'
import type { Row } from './engine/parameters.ts'

/** Members of projects and teams, as their statements return them. */

/** A member as JSON text, with the version of their role. */
export interface MemberRow {
  readonly json: string
  readonly version: number
}

/** A member after a change, and whether they had no role before. */
export interface ChangedMember extends MemberRow {
  readonly isNew: boolean
}

export const changedMemberColumns = {
  outcome: 'text',
  json: 'text?',
  version: 'int?',
  is_new: 'bool',
} as const

/** Reads the row of a statement that gives a member a role. */
export const readChangedMember = (
  row: Row<typeof changedMemberColumns> | undefined,
): Outcome<ChangedMember> => {
  const result = readOutcome(row)
  if (result.outcome !== 'done') return result
  const { json, version, is_new: isNew } = result.value
  return json === null || version === null ? missing : done({ json, version, isNew })
}
