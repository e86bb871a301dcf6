import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, opendir, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { Readable, Transform, Writable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { createTarDecoder, createTarPacker, type TarHeader, type TarPackController } from 'modern-tar'
import { syncFolder } from '../../src/postgres/cluster.ts'

/**
 * The archive of a folder, as a tar file. Its last entry lists the SHA-256 of every file in the format of sha256sum, so that `tar x`
 * and `sha256sum -c SHA256SUMS` can extract and verify it. A truncated archive lacks this entry.
 */

const sumsName = 'SHA256SUMS'

/** The file is no complete archive. */
class ArchiveUnusable extends Error {
  constructor(reason: string, options?: ErrorOptions) {
    super(
      `The archive cannot be used: ${reason}. Nothing was restored. Copy it again from where it was written, or use another backup`,
      options,
    )
  }
}

/** Archives `folder` without the excluded paths in a new file. `scratch` is a folder for temporary files. */
export const writeArchive = async (
  file: string,
  folder: string,
  isExcluded: (path: string) => boolean,
  scratch: string,
): Promise<{ readonly files: number; readonly bytes: number }> => {
  const { readable, controller } = createTarPacker()
  const written = pipeline(readable, createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }))
  const sums = join(scratch, sumsName)
  const [[files, bytes]] = await Promise.all([addFolder(controller, folder, isExcluded, sums), written])
  await syncFolder(dirname(file))
  return { files, bytes }
}

const addFolder = async (
  archive: TarPackController,
  folder: string,
  isExcluded: (path: string) => boolean,
  sumsPath: string,
): Promise<readonly [files: number, bytes: number]> => {
  let [files, bytes] = [0, 0]
  const sums = createWriteStream(sumsPath, { flags: 'wx', mode: 0o600 })
  try {
    for await (const { path, isFolder } of walk(folder, isExcluded)) {
      const name = path.split(sep).join('/')
      if (isFolder) {
        await archive.add({ name: `${name}/`, type: 'directory', size: 0, mode: 0o700 }).close()
        continue
      }
      const { hash, size } = await addFile(archive, join(folder, path), name)
      files += 1
      bytes += size
      await write(sums, sumLine(hash, name))
    }
    sums.end()
    await finished(sums)
    await addFile(archive, sumsPath, sumsName)
    archive.finalize()
    return [files, bytes]
  } catch (error) {
    sums.destroy()
    archive.error(error)
    throw error
  }
}

const addFile = async (archive: TarPackController, path: string, name: string) => {
  const { size } = await stat(path)
  const hash = createHash('sha256')
  // If the file grows or shrinks while it is read, the entry fails.
  const entry = Writable.fromWeb(archive.add({ name, size, mode: 0o600 }))
  await pipeline(createReadStream(path), hashing(hash), entry)
  return { hash, size }
}

/**
 * Extracts an archive into an empty folder and verifies every file. Rejects if a file is damaged, missing or not listed; the caller
 * then removes the extracted files.
 */
export const readArchive = async (file: string, folder: string, scratch: string): Promise<number> => {
  const entries = Readable.toWeb(createReadStream(file)).pipeThrough(createTarDecoder({ strict: true }))
  const sumsPath = join(scratch, `${sumsName}.found`)
  const sums = createWriteStream(sumsPath, { flags: 'wx', mode: 0o600 })
  let files = 0
  let isComplete = false
  try {
    for await (const { header, body } of entries) {
      const { name, type } = checkHeader(header)
      if (isComplete) throw new ArchiveUnusable('it has data after its end')
      if (type === 'directory') {
        await mkdir(join(folder, name), { recursive: true, mode: 0o700 })
        continue
      }
      isComplete = name === sumsName
      const path = isComplete ? join(scratch, sumsName) : join(folder, name)
      const hash = createHash('sha256')
      const output = createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true })
      await pipeline(Readable.fromWeb(body), hashing(hash), output)
      if (isComplete) continue
      files += 1
      await write(sums, sumLine(hash, name))
    }
  } catch (error) {
    // All others are errors of the system, or of the tar reader about the content.
    if (error instanceof ArchiveUnusable || (error instanceof Error && 'syscall' in error)) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new ArchiveUnusable(`it is truncated or damaged (${reason})`, { cause: error })
  } finally {
    sums.end()
    await finished(sums)
  }
  if (!isComplete) throw new ArchiveUnusable('it is truncated')
  if (!(await isSame(join(scratch, sumsName), sumsPath)))
    throw new ArchiveUnusable('its checksums do not match')
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

const write = async (stream: NodeJS.WritableStream, text: string): Promise<void> => {
  if (!stream.write(text)) await new Promise((resolve) => stream.once('drain', resolve))
}

/** Compares two lists of checksums in memory: one line for each file. */
const isSame = async (one: string, other: string): Promise<boolean> =>
  (await readFile(one)).equals(await readFile(other))

/** The files and folders in a folder. A folder comes before its content. @throws Error for a link, which would be missing in a copy */
export async function* walk(
  folder: string,
  isExcluded: (path: string) => boolean,
  below = '',
): AsyncGenerator<{ readonly path: string; readonly isFolder: boolean }> {
  for await (const entry of await opendir(join(folder, below))) {
    const path = join(below, entry.name)
    if (isExcluded(path)) continue
    if (entry.isSymbolicLink())
      throw new Error(
        `${join(folder, path)} is a link. Mount its target there instead, or set DATA_DIR to the target`,
      )
    if (entry.isFile()) yield { path, isFolder: false }
    if (!entry.isDirectory()) continue
    yield { path, isFolder: true }
    yield* walk(folder, isExcluded, path)
  }
}

/** The temporary name of a file until it is complete. */
export const unfinishedName = (file: string): string => join(dirname(file), `.${basename(file)}.unfinished`)
