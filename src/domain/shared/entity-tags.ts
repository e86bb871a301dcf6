/**
 * The opaque part of an entity tag is the version of the resource, or `<version>.<variant>` if the representation also depends
 * on its revision, the caller or other resources.
 */
export const variantTag = (version: number, variant: string): string => `${version}.${variant}`

/** The version in a tag with a variant. Any other tag is returned unchanged. */
export const withoutVariant = (opaque: string): string => /^(\d+)\.[\w-]+$/.exec(opaque)?.[1] ?? opaque

/** In If-Match and If-None-Match, stands for any tag. No tag of ours is equal to it. */
export const anyTag = '*'

/** The conditions of a request on the current state of its resource, as opaque tags. Null for a header that was not sent. */
export interface Preconditions {
  readonly ifMatch: readonly string[] | null
  readonly ifNoneMatch: readonly string[] | null
}

/**
 * Whether a resource meets the conditions (RFC 9110 §13.1.1, §13.1.2). `current` has the tags that stand for its current state,
 * which are none for a resource without an ETag; null if it does not exist.
 */
export const meetsPreconditions = (
  current: readonly string[] | null,
  { ifMatch, ifNoneMatch }: Preconditions,
): boolean => {
  const matches = (requested: readonly string[]): boolean =>
    current !== null && (requested.includes(anyTag) || current.some((tag) => requested.includes(tag)))
  return (ifMatch === null || matches(ifMatch)) && (ifNoneMatch === null || !matches(ifNoneMatch))
}
