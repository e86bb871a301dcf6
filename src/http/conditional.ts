import type { ContractOperation } from '../contract/contract.ts'
import { anyTag } from '../domain/shared/entity-tags.ts'

/** An entity tag (RFC 9110 §8.8.3). `opaque` includes the double quotes. */
export type RequestedETag = { weak: boolean; opaque: string }

/** The value of If-Match or If-None-Match. `*` stands for any current representation. */
export type ETagList = '*' | RequestedETag[]

/** As in the contract. */
const maxListLength = 2048

/**
 * Parses If-Match or If-None-Match (RFC 9110 §13.1.1, §13.1.2). Empty list elements are skipped (§5.6.1.2), so an empty
 * header is an empty list. Null when the header is malformed or longer than the contract allows.
 */
export function parseETagList(header: string): ETagList | null {
  if (header.length > maxListLength) return null
  if (/^[\t ]*\*[\t ]*$/.test(header)) return '*'

  const tags: RequestedETag[] = []
  let position = skipSeparators(header, 0)
  while (position < header.length) {
    const element = entityTagAt(header, position)
    if (!element) return null
    tags.push(element.tag)
    position = skipSeparators(header, element.end)
  }
  return tags
}

/** The opaque tags of If-Match, without quotes. They compare strongly, so weak tags never match (RFC 9110 §13.1.1). */
export const strongTags = (list: ETagList): readonly string[] =>
  list === '*' ? [anyTag] : opaqueTags(list.filter(({ weak }) => !weak))

/** The opaque tags of If-None-Match, without quotes. They compare weakly (RFC 9110 §13.1.2). */
export const weakTags = (list: ETagList): readonly string[] => (list === '*' ? [anyTag] : opaqueTags(list))

/** The tag `"*"` is left out: it is not `*`, and no resource has it. */
const opaqueTags = (list: readonly RequestedETag[]): readonly string[] =>
  list.map(({ opaque }) => opaque.slice(1, -1)).filter((tag) => tag !== anyTag)

interface Sent {
  readonly body: unknown
  readonly ifMatch: readonly string[] | null
}

/**
 * The body of a PUT or PATCH without its `version`, and If-Match with it: the version of what was read, and is sent back, is a
 * condition like its ETag. Both conditions must hold: without a common tag the list is empty, which nothing matches (412).
 *
 * @param ifMatch the tags of If-Match; null without the header
 */
export const takeVersion = (
  { method }: Pick<ContractOperation, 'method'>,
  sent: unknown,
  ifMatch: readonly string[] | null,
): Sent => {
  const isUpdate = method === 'PUT' || method === 'PATCH'
  if (!isUpdate || typeof sent !== 'object' || sent === null || !('version' in sent))
    return { body: sent, ifMatch }
  const { version, ...body } = sent
  const tag = String(version)
  const allowsVersion = ifMatch === null || ifMatch.includes(anyTag) || ifMatch.includes(tag)
  return { body, ifMatch: allowsVersion ? [tag] : [] }
}

/**
 * Weak comparison, for If-None-Match: weakness is ignored (RFC 9110 §8.8.3.2).
 *
 * @param etag the current strong entity tag, with its double quotes
 */
export function matchesWeakly(list: ETagList, etag: string): boolean {
  return list === '*' || list.some(({ opaque }) => opaque === etag)
}

/**
 * Parses an HTTP date in any of the three formats of RFC 9110 §5.6.7, to milliseconds; null if it is malformed. asctime
 * dates have no zone and mean UTC.
 */
export function parseHttpDate(text: string): number | null {
  if (!httpDates.some((format) => format.test(text))) return null
  const time = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
  return Number.isNaN(time) ? null : time
}

/** IMF-fixdate, and the obsolete formats of RFC 850 and asctime. */
const httpDates = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]

/** Linear time: the pattern is sticky, and no part matches the start of the next. */
function entityTagAt(header: string, start: number): { tag: RequestedETag; end: number } | null {
  const entityTag = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")[\t ]*(?:,|$)/y
  entityTag.lastIndex = start
  const match = entityTag.exec(header)
  const opaque = match?.[2]
  if (opaque === undefined) return null
  return { tag: { weak: match?.[1] !== undefined, opaque }, end: entityTag.lastIndex }
}

function skipSeparators(header: string, start: number): number {
  let position = start
  while (position < header.length && '\t ,'.includes(header.charAt(position))) position += 1
  return position
}
