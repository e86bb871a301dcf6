import type { Readable } from 'node:stream'
import { type Entry, openPromise, type ZipFile } from 'yauzl'
import { UnreadableFile } from './import-file.ts'

/** Reads archives that anybody may have made. Nothing is written to the disk, and no archive inside an archive is opened. */

const maxEntries = 200_000

/** Bytes of all entries. */
const maxInflated = 10 * 1024 ** 3

/** Bytes of the names, comments and other fields of all entries, which are in memory. */
const maxDirectory = 64 * 1024 ** 2

/** How many times as large as the archive. Does not matter for small ones. */
const maxRatio = 100
const smallArchive = 1024 ** 2

/** Bytes of a local header without the name. */
const localHeader = 30

export interface Archive {
  /** The names of the files, in the order of the archive. */
  readonly names: readonly string[]
  has(name: string): boolean
  /** @throws UnreadableFile if there is no such entry */
  open(name: string): Promise<Readable>
  close(): void
}

/** @throws UnreadableFile */
export const openArchive = async (path: string): Promise<Archive> => {
  const zip = await openPromise(path, { autoClose: false }).catch(toUnreadable)
  try {
    const entries = await entriesOf(zip)
    return {
      names: [...entries.keys()],
      has: (name) => entries.has(name),
      async open(name) {
        const entry = entries.get(name)
        if (entry === undefined) throw new UnreadableFile('damaged', `The archive has no ${name}.`)
        return zip.openReadStreamPromise(entry).catch(toUnreadable)
      },
      close: () => zip.close(),
    }
  } catch (error) {
    zip.close()
    throw error
  }
}

const entriesOf = async (zip: ZipFile): Promise<ReadonlyMap<string, Entry>> => {
  if (zip.entryCount > maxEntries) throw tooManyEntries()
  const entries = new Map<string, Entry>()
  let inflated = 0
  let directory = 0
  try {
    for await (const entry of zip.eachEntry()) {
      const { fileName } = entry
      if (entries.has(fileName)) throw new UnreadableFile('unsafe', `The archive has ${fileName} twice.`)
      if (entry.isEncrypted()) throw new UnreadableFile('unsafe', 'The archive is encrypted.')
      inflated += entry.uncompressedSize
      directory += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength
      if (directory > maxDirectory)
        throw new UnreadableFile('too_large', `The archive has more than ${maxDirectory} bytes of names.`)
      entries.set(fileName, entry)
      // An archive may have more entries than it says.
      if (entries.size > maxEntries) throw tooManyEntries()
    }
  } catch (error) {
    return toUnreadable(error)
  }
  if (inflated > maxInflated)
    throw new UnreadableFile('too_large', `The archive has more than ${maxInflated} bytes inside.`)
  if (inflated > smallArchive && inflated > maxRatio * zip.fileSize)
    throw new UnreadableFile(
      'unsafe',
      `The archive is more than ${maxRatio} times as large inside as outside.`,
    )
  expectApart([...entries.values()])
  for (const name of entries.keys()) if (name.endsWith('/')) entries.delete(name)
  return entries
}

const tooManyEntries = (): UnreadableFile =>
  new UnreadableFile('too_large', `The archive has more than ${maxEntries} files.`)

/** Overlapping entries are how a small archive inflates to a large one. */
const expectApart = (entries: readonly Entry[]): void => {
  let end = 0
  for (const entry of entries.toSorted(
    (one, other) => one.relativeOffsetOfLocalHeader - other.relativeOffsetOfLocalHeader,
  )) {
    const start = entry.relativeOffsetOfLocalHeader
    if (start < end) throw new UnreadableFile('unsafe', 'Files of the archive overlap.')
    end = start + localHeader + entry.fileNameLength + entry.compressedSize
  }
}

const unsafeName = /^(absolute path|invalid relative path|invalid characters in fileName)/

const toUnreadable = (error: unknown): never => {
  if (error instanceof UnreadableFile) throw error
  const message = error instanceof Error ? error.message : String(error)
  if (unsafeName.test(message))
    throw new UnreadableFile('unsafe', `The archive has an unsafe name: ${message}.`)
  throw new UnreadableFile('damaged', `The archive cannot be read: ${message}.`, { cause: error })
}
