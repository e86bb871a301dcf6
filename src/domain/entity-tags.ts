/**
 * The opaque part of an entity tag is the version of the resource, or `<version>.<variant>` if the representation also depends
 * on the caller or on other resources.
 */
export const variantTag = (version: number, variant: string): string => `${version}.${variant}`

/** The version in a tag with a variant. Any other tag is returned unchanged. */
export const withoutVariant = (opaque: string): string => /^(\d+)\.[\w-]+$/.exec(opaque)?.[1] ?? opaque
