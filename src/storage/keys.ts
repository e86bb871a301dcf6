import { v7 } from 'uuid'

const keyPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** A UUIDv7: its first characters are a time, its last ones random. */
export const newKey = (): string => v7()

/** What tells whose the files are; no key looks like it. */
export const ownerName = 'owner.json'

export const isKey = (text: string): boolean => keyPattern.test(text)

/** The shape of a key is checked here, so no other string can become a path. */
export function expectKey(key: string): string {
  if (!isKey(key)) throw new TypeError('Not a key of the file storage')
  return key
}
