import { hash } from 'node:crypto'
import { jsonText } from '../contract/json-text.ts'
import { created, quoteETag } from '../contract/operation.ts'
import type { MemberRow } from '../db/members.ts'
import { variantTag } from '../domain/entity-tags.ts'
import type { ChangedMember } from '../services/project-members.ts'

/** Responses for the members of projects and teams. */

/** The ETag includes a digest, since the version does not cover all parts of the representation. */
const etagOf = ({ json, version }: MemberRow): string =>
  quoteETag(variantTag(version, hash('sha256', json, 'base64url')))

export const memberResponse = <T>(member: MemberRow) => ({
  status: 200 as const,
  headers: { etag: etagOf(member) },
  body: jsonText<T>(member.json),
})

/** The response to a PUT: 201 if it created the member, otherwise 200. */
export const upsertResponse = <T>(path: string, member: ChangedMember) =>
  member.isNew
    ? created<T>(path, etagOf(member), { json: member.json, replayed: false })
    : memberResponse<T>(member)
