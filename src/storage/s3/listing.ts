import { expectKey, isKey } from '../keys.ts'
import type { ListedFile } from '../storage.ts'
import type { S3 } from './client.ts'
import { uploadsBelow } from './multipart.ts'
import { incomingPrefix } from './names.ts'
import { objectsBelow } from './objects.ts'

/** The complete files. Objects with other names are ignored: tails, the owner record and what others have stored. */
export async function* listFiles(s3: S3): AsyncGenerator<ListedFile> {
  for await (const { Key, LastModified } of objectsBelow(s3, s3.prefix)) {
    const key = Key.slice(s3.prefix.length)
    if (isKey(key) && LastModified !== undefined) yield { key, modifiedAt: LastModified }
  }
}

/** The keys without a file. Listings are ordered by name, so adjacent keys need few pages. */
export const missingKeys = async (s3: S3, keys: readonly string[]): Promise<string[]> => {
  const [first, ...others] = keys.map(expectKey).toSorted()
  if (first === undefined) return []
  const last = others.at(-1) ?? first
  const missing = new Set(keys)
  for await (const { Key } of objectsBelow(s3, s3.prefix, `${s3.prefix}${first.slice(0, -1)}`)) {
    const name = Key.slice(s3.prefix.length)
    missing.delete(name)
    if (name >= last) break
  }
  return [...missing]
}

/** The files with parts or a tail. A file can have both. Both lists are ordered by name. */
export const listUnfinished = (s3: S3): AsyncGenerator<ListedFile> =>
  mergeByKey(filesWithParts(s3), filesWithTails(s3))

async function* filesWithParts(s3: S3): AsyncGenerator<ListedFile, void> {
  for await (const { Key = '', Initiated } of uploadsBelow(s3, s3.prefix)) {
    const key = Key.slice(s3.prefix.length)
    if (isKey(key) && Initiated !== undefined) yield { key, modifiedAt: Initiated }
  }
}

async function* filesWithTails(s3: S3): AsyncGenerator<ListedFile, void> {
  const incoming = incomingPrefix(s3)
  for await (const { Key, LastModified } of objectsBelow(s3, incoming)) {
    const key = Key.slice(incoming.length).replace(/\/\d+$/, '')
    if (isKey(key) && LastModified !== undefined) yield { key, modifiedAt: LastModified }
  }
}

/** Merges two lists that are ordered by key. A key in both gets the later time. */
async function* mergeByKey(
  one: AsyncIterator<ListedFile, void>,
  other: AsyncIterator<ListedFile, void>,
): AsyncGenerator<ListedFile> {
  let [first, second] = [await nextOf(one), await nextOf(other)]
  let found: ListedFile | null = null
  for (let next = earlier(first, second); next !== null; next = earlier(first, second)) {
    if (next === first) first = await nextOf(one)
    else second = await nextOf(other)
    if (found !== null && found.key !== next.key) yield found
    if (found?.key !== next.key || found.modifiedAt < next.modifiedAt) found = next
  }
  if (found !== null) yield found
}

const nextOf = async (files: AsyncIterator<ListedFile, void>): Promise<ListedFile | null> =>
  (await files.next()).value ?? null

const earlier = (one: ListedFile | null, other: ListedFile | null): ListedFile | null => {
  if (one === null || other === null) return one ?? other
  return one.key <= other.key ? one : other
}
