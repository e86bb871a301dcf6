import { hash } from 'node:crypto'
import { created, ok, quoteETag, type Versioned } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import type { ChangedMember } from '../services/projects/members.ts'

/** Responses for the members of projects and teams. */

/** The ETag includes a digest, since the version does not cover all parts of the representation. */
const etagOf = ({ json, version }: Versioned): string =>
  quoteETag(variantTag(version, hash('sha256', json, 'base64url')))

export const memberResponse = <T>(member: Versioned) => ok<T>(member, etagOf(member))

/** The response to a PUT: 201 if it created the member, otherwise 200. */
export const upsertResponse = <T>(path: string, member: ChangedMember) =>
  member.isNew
    ? created<T>(path, { json: member.json, replayed: false }, () => etagOf(member))
    : memberResponse<T>(member)
