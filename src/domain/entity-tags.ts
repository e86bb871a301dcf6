/**
 * Opaque parts of the entity tags of resources with a version. The tag of a representation is the version alone, or
 * `<version>.<variant>` if the representation also depends on something else: the caller, or other resources.
 */

export const variantTag = (version: number, variant: string): string => `${version}.${variant}`

/** The version in a tag with a variant. Any other tag is returned unchanged. */
export const withoutVariant = (opaque: string): string => /^(\d+)\.[\w-]+$/.exec(opaque)?.[1] ?? opaque
