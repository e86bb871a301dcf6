import { v7 } from 'uuid'

const keyPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** A UUIDv7: the first characters encode the time, the last ones are random. */
export const newKey = (): string => v7()

/** Name of the owner record (see `Storage.readOwner`). It cannot be a key. */
export const ownerName = 'owner.json'

export const isKey = (text: string): boolean => keyPattern.test(text)

/** Guards against path traversal: every path and object name is built from a checked key. */
export function expectKey(key: string): string {
  if (!isKey(key)) throw new TypeError('Not a key of the file storage')
  return key
}
