import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { type FileHandle, mkdir, open, opendir, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable, Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createTarDecoder, createTarPacker, type TarHeader } from 'modern-tar'
import { ignoreMissing } from '../../src/data-dir/system-errors.ts'
import { syncFolder } from '../../src/data-dir/folder.ts'
import type { Teardown } from '../run/run-to-end.ts'

/**
 * Archives as tar files. The last entry lists the SHA-256 of every file in the format of sha256sum, so that `tar x` and
 * `sha256sum -c SHA256SUMS` can extract and verify it. A truncated archive lacks this entry.
 */

const sumsName = 'SHA256SUMS'

/** Bytes of a file that are read at a time. */
const chunkBytes = 262_144

/** The file is no complete archive. */
export class ArchiveUnusable extends Error {
  constructor(reason: string, options?: ErrorOptions) {
    super(
      `The archive cannot be used: ${reason}. Nothing was restored. Copy it again from where it was written, or use another backup`,
      options,
    )
  }
}

/** An archive that is being written. */
export interface ArchiveWriter {
  /** Adds a file, whose content has `size` bytes. */
  add(name: string, size: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void>
}

/**
 * Writes a new archive beside its final path, and renames it when it is complete and durable. `scratch` is a folder for temporary files.
 * Rejects with the error of `fill`. A teardown removes what is unfinished.
 */
export const writeArchive = async (
  t: Teardown,
  file: string,
  scratch: string,
  fill: (archive: ArchiveWriter) => Promise<void>,
): Promise<{ readonly files: number; readonly bytes: number }> => {
  const unfinished = unfinishedName(file)
  await rm(unfinished, { force: true })
  t.teardown(() => rm(unfinished, { force: true }))
  const { readable, controller } = createTarPacker()
  const output = createWriteStream(unfinished, { flags: 'wx', mode: 0o600, flush: true })
  const writing = async () => {
    try {
      return await addEntries(controller, join(scratch, sumsName), fill)
    } catch (error) {
      controller.error(error)
      throw error
    }
  }
  const [written] = await Promise.all([writing(), pipeline(readable, output)])
  await rename(unfinished, file)
  await syncFolder(dirname(file))
  return written
}

const addEntries = async (
  controller: ReturnType<typeof createTarPacker>['controller'],
  sumsPath: string,
  fill: (archive: ArchiveWriter) => Promise<void>,
) => {
  let [files, bytes] = [0, 0]
  await using sums = await open(sumsPath, 'wx', 0o600)
  const addEntry = async (
    name: string,
    size: number,
    content: Parameters<ArchiveWriter['add']>[2],
  ): Promise<Hash> => {
    const hash = createHash('sha256')
    // Fails if the content has another size.
    await pipeline(content, hashing(hash), Writable.fromWeb(controller.add({ name, size, mode: 0o600 })))
    return hash
  }
  await fill({
    async add(name, size, content) {
      await sums.appendFile(sumLine(await addEntry(name, size, content), name))
      files += 1
      bytes += size
    },
  })
  await addFile({ add: async (...entry) => void (await addEntry(...entry)) }, sumsPath, sumsName)
  controller.finalize()
  return { files, bytes }
}

/**
 * Adds a file of the disk as it is now: of one that grows, what it has at first; in one that is cut off meanwhile, zeros take the place of
 * what is missing. A file that is not there is left out.
 */
export const addFile = async (archive: ArchiveWriter, path: string, name: string): Promise<void> => {
  await using handle = await open(path).catch(ignoreMissing)
  if (handle === undefined) return
  const { size } = await handle.stat()
  await archive.add(name, size, contentOf(handle, size))
}

/** The first `size` bytes of a file. */
async function* contentOf(handle: FileHandle, size: number): AsyncGenerator<Uint8Array, void> {
  for (let position = 0; position < size;) {
    const chunk = Buffer.alloc(Math.min(chunkBytes, size - position))
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position)
    position += bytesRead === 0 ? chunk.length : bytesRead
    yield bytesRead === 0 ? chunk : chunk.subarray(0, bytesRead)
  }
}

/** A file or a folder of an archive. */
export interface ArchiveEntry {
  readonly name: string
  readonly type: 'file' | 'directory'
  readonly size: number
  /** Can be read until the next entry. */
  readonly body: AsyncIterable<Uint8Array>
}

/**
 * Reads the entries of an archive. When the last one was read, each file has been compared with its checksum: until then, what was read can
 * be damaged.
 *
 * @throws ArchiveUnusable if the archive is damaged or incomplete
 */
export async function* readEntries(file: string, scratch: string): AsyncGenerator<ArchiveEntry, void> {
  const entries = Readable.toWeb(createReadStream(file)).pipeThrough(createTarDecoder({ strict: true }))
  const sumsPath = join(scratch, `${sumsName}.found`)
  await using sums = await open(sumsPath, 'wx', 0o600)
  let listed: string | null = null
  try {
    for await (const { header, body } of entries) {
      const { name, type } = checkHeader(header)
      if (listed !== null) throw new ArchiveUnusable('it has data after its end')
      const hash = createHash('sha256')
      const content = hashed(body, hash)
      if (name === sumsName) {
        listed = Buffer.concat(await Array.fromAsync(content)).toString()
        continue
      }
      yield { name, type, size: header.size, body: content }
      // The rest, if it was not read.
      for await (const _ of content);
      if (type === 'file') await sums.appendFile(sumLine(hash, name))
    }
  } catch (error) {
    throw unusable(error)
  }
  if (listed === null) throw new ArchiveUnusable('it is truncated')
  if ((await readFile(sumsPath, 'utf8')) !== listed) throw new ArchiveUnusable('its checksums do not match')
}

async function* hashed(body: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) {
      hash.update(chunk)
      yield chunk
    }
  } catch (error) {
    throw unusable(error)
  }
}

/** All but errors of the system are errors of the tar reader about the content. */
const unusable = (error: unknown): Error => {
  if (error instanceof ArchiveUnusable || (error instanceof Error && 'syscall' in error)) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new ArchiveUnusable(`it is truncated or damaged (${reason})`, { cause: error })
}

/** Writes a file of an archive to a folder, durably. */
export const extractEntry = async ({ name, type, body }: ArchiveEntry, folder: string): Promise<void> => {
  const path = join(folder, name)
  await mkdir(type === 'directory' ? path : dirname(path), { recursive: true, mode: 0o700 })
  if (type === 'file')
    await pipeline(body, createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }))
}

/**
 * Extracts an archive into an empty folder and verifies every file. Resolves to their number. Rejects if a file is damaged, missing or not
 * listed; the caller then removes the extracted files.
 */
export const readArchive = async (file: string, folder: string, scratch: string): Promise<number> => {
  let files = 0
  for await (const entry of readEntries(file, scratch)) {
    await extractEntry(entry, folder)
    if (entry.type === 'file') files += 1
  }
  return files
}

/** @throws ArchiveUnusable if the path of an entry leaves the folder, or an entry is neither a file nor a folder */
const checkHeader = ({ name, type }: TarHeader): { name: string; type: 'file' | 'directory' } => {
  const parts = name.replace(/\/$/, '').split('/')
  const isInside = parts.every(
    (part) => part !== '' && part !== '.' && part !== '..' && !/[\\:\0]/.test(part),
  )
  if (isInside && (type === 'file' || type === 'directory')) return { name, type }
  throw new ArchiveUnusable(`it contains an unexpected entry, ${name}`)
}

const sumLine = (hash: Hash, name: string): string => `${hash.digest('hex')}  ${name}\n`

const hashing = (hash: Hash): Transform =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })

/** The files in a folder and below. @throws Error for a link, which would be missing in a copy */
export async function* filesBelow(folder: string, below = ''): AsyncGenerator<string, void> {
  for await (const entry of await opendir(join(folder, below))) {
    const path = join(below, entry.name)
    if (entry.isSymbolicLink())
      throw new Error(
        `${join(folder, path)} is a link. Mount its target there instead, or set DATA_DIR to the target`,
      )
    if (entry.isFile()) yield path
    if (entry.isDirectory()) yield* filesBelow(folder, path)
  }
}

/** The temporary name of a file until it is complete. */
const unfinishedName = (file: string): string => join(dirname(file), `.${basename(file)}.unfinished`)
