import { isDeepStrictEqual } from 'node:util'

/**
 * What other programs keep with a task or a project: values of their own, and which record of which system it was made from. The
 * service does not interpret them.
 */
export interface IntegrationFields {
  readonly metadata: Metadata
  readonly external_source: string | null
  readonly external_id: string | null
}

export type Metadata = Readonly<Record<string, string>>

/** A merge patch of metadata: null removes a key. */
export type MetadataPatch = Readonly<Record<string, string | null>>

export const noIntegrationFields: IntegrationFields = {
  metadata: {},
  external_source: null,
  external_id: null,
}

export const isEmptyMetadata = (metadata: Metadata): boolean => Object.keys(metadata).length === 0

/** Metadata after a patch, or after a replacement. The present object if nothing changes: changes are found by identity. */
export const patchedMetadata = (
  present: Metadata,
  patch: MetadataPatch,
  { replaces = false } = {},
): Metadata => {
  const entries = Object.entries({ ...(replaces ? {} : present), ...patch })
  const patched = Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null))
  return isDeepStrictEqual(patched, present) ? present : patched
}

const maxKeys = 50
/** Of all keys and values, in UTF-8. */
const maxBytes = 8_192

export const metadataKey = /^[a-z][a-z0-9_]{0,39}$/

/** What is wrong with metadata: with a key, or with all of it together. */
export interface MetadataFault {
  readonly key: string | null
  readonly message: string
}

/** Null if the metadata is valid. The contract's schema checks the values. */
export const faultOfMetadata = (metadata: MetadataPatch): MetadataFault | null => {
  const key = Object.keys(metadata).find((one) => !metadataKey.test(one))
  if (key !== undefined)
    return {
      key,
      message:
        'is not a key: it must have 1 to 40 lower-case letters, digits and underscores, and begin with a letter',
    }
  const values = Object.entries(metadata).filter(([, value]) => value !== null)
  if (values.length > maxKeys) return { key: null, message: `must have at most ${maxKeys} keys` }
  const bytes = values.flat().reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0)
  return bytes > maxBytes
    ? { key: null, message: `must have at most ${maxBytes} bytes of keys and values in UTF-8` }
    : null
}
