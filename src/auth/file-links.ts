import type { KeyRing } from '../domain/shared/key-ring.ts'
import type { BearerCredential, BearerPrincipal, LinkCredential } from '../domain/shared/permissions.ts'
import { open, seal } from './seal.ts'

/** The content of a link's token. The service does not store links. */
export interface Link {
  /** What has the file. */
  readonly resourceId: string
  readonly disposition: LinkCredential['disposition']
  /** Milliseconds since the epoch, a whole number of seconds. */
  readonly expiresAt: number
  /** The user who created the link. */
  readonly userId: string
  /** The session or API token that the link was created with. */
  readonly createdWith: { readonly kind: BearerCredential['kind']; readonly id: string }
}

/** Bytes of a token's content: flags, expiry in seconds, user, and session or API token. */
const flagsAt = 0
const expiresAt = 1
const userAt = 5
const credentialAt = 21
const length = 37

const isInline = 1
const isOfApiToken = 2

/** A request for a link. */
export interface NewLink extends Pick<Link, 'resourceId' | 'disposition'> {
  /** Seconds. */
  readonly expiresIn: number
}

/** A created link: the token in its URL, and its expiry (RFC 3339). */
export interface CreatedLink {
  readonly token: string
  readonly expiresAt: string
}

/** Creates links that are valid as long as the session or API token of the principal, for files of one kind, which has its own keys. */
export type CreateLink = (principal: BearerPrincipal, link: NewLink) => CreatedLink

/** `now`: the current time, in milliseconds since the epoch. */
export const createLinks =
  (keys: KeyRing, now: () => number): CreateLink =>
  (principal, { resourceId, disposition, expiresIn }) => {
    const expiresAt = (Math.floor(now() / 1_000) + expiresIn) * 1_000
    const createdWith = linkCredential(principal)
    const link = { resourceId, disposition, expiresAt, userId: principal.userId, createdWith }
    return { token: issueLinkToken(keys, link), expiresAt: new Date(expiresAt).toISOString() }
  }

/** The session or API token of a principal, in the form that a link stores. */
const linkCredential = ({ credential }: BearerPrincipal): Link['createdWith'] =>
  credential.kind === 'session'
    ? { kind: 'session', id: credential.sessionId }
    : { kind: 'api_token', id: credential.tokenId }

/**
 * The token of a link: 88 characters of base64url. It is sealed rather than signed, so that it reveals nothing about the
 * session of its creator.
 */
export const issueLinkToken = (keys: KeyRing, link: Link): string => {
  const content = Buffer.alloc(length)
  const flags =
    (link.disposition === 'inline' ? isInline : 0) |
    (link.createdWith.kind === 'api_token' ? isOfApiToken : 0)
  content.writeUInt8(flags, flagsAt)
  content.writeUInt32BE(link.expiresAt / 1_000, expiresAt)
  bytesOf(link.userId).copy(content, userAt)
  bytesOf(link.createdWith.id).copy(content, credentialAt)
  return seal(keys, content, link.resourceId).toString('base64url')
}

/** Opens the token of a link to this file; null if it was not issued by this service. Does not check the expiry. */
export const readLinkToken = (keys: KeyRing, resourceId: string, token: string): Link | null => {
  const content = open(keys, Buffer.from(token, 'base64url'), resourceId)?.plaintext
  if (content === undefined) return null
  const flags = content.readUInt8(flagsAt)
  return {
    resourceId,
    disposition: (flags & isInline) === 0 ? 'attachment' : 'inline',
    expiresAt: content.readUInt32BE(expiresAt) * 1_000,
    userId: uuidOf(content.subarray(userAt, credentialAt)),
    createdWith: {
      kind: (flags & isOfApiToken) === 0 ? 'session' : 'api_token',
      id: uuidOf(content.subarray(credentialAt)),
    },
  }
}

const bytesOf = (uuid: string): Buffer => Buffer.from(uuid.replaceAll('-', ''), 'hex')

const uuidOf = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
