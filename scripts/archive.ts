import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, opendir, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { Transform } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { extract, pack, type Header, type Pack } from 'tar-stream'

/**
 * One file that holds a folder: a tar archive whose last entry has the SHA-256 of all others, in the format of sha256sum,
 * so that `tar x` and `sha256sum -c SHA256SUMS` read and check it too. An archive that was cut short lacks that entry.
 */

const sumsName = 'SHA256SUMS'

/** Writes what is below `folder` and not left out into a new file; `scratch` is a folder for what is not yet finished. */
export const writeArchive = async (
  file: string,
  folder: string,
  isLeftOut: (path: string) => boolean,
  scratch: string,
): Promise<{ readonly files: number; readonly bytes: number }> => {
  const archive = pack()
  const written = pipeline(archive, createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }))
  const sums = join(scratch, sumsName)
  const [[files, bytes]] = await Promise.all([addFolder(archive, folder, isLeftOut, sums), written])
  await syncFolder(dirname(file))
  return { files, bytes }
}

/** Adds the folder and its sums, and ends the archive. */
const addFolder = async (
  archive: Pack,
  folder: string,
  isLeftOut: (path: string) => boolean,
  sumsPath: string,
): Promise<readonly [files: number, bytes: number]> => {
  let [files, bytes] = [0, 0]
  const sums = createWriteStream(sumsPath, { flags: 'wx', mode: 0o600 })
  try {
    for await (const { path, isFolder } of walk(folder, isLeftOut)) {
      const name = path.split(sep).join('/')
      if (isFolder) {
        archive.entry({ name: `${name}/`, type: 'directory', mode: 0o700 })
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
    archive.destroy(error instanceof Error ? error : new Error(String(error)))
    throw error
  }
}

const addFile = async (archive: Pack, path: string, name: string) => {
  const { size } = await stat(path)
  const hash = createHash('sha256')
  // A file that grows or shrinks meanwhile is an error of the archive's entry.
  await pipeline(createReadStream(path), hashing(hash), archive.entry({ name, size, mode: 0o600 }))
  return { hash, size }
}

/**
 * Extracts an archive into an empty folder and checks every byte of it; rejects when a file is damaged, missing or none
 * of the archive's, and leaves what it has made to its caller.
 */
export const readArchive = async (file: string, folder: string, scratch: string): Promise<number> => {
  const entries = extract()
  const input = pipeline(createReadStream(file), entries)
  // Whoever reads the entries learns of it first.
  input.catch(() => undefined)
  const sumsPath = join(scratch, `${sumsName}.found`)
  const sums = createWriteStream(sumsPath, { flags: 'wx', mode: 0o600 })
  let files = 0
  let isComplete = false
  try {
    for await (const entry of entries) {
      const { name, type } = checkHeader(entry.header)
      if (isComplete) throw new Error('The archive has data after its end')
      if (type === 'directory') {
        await mkdir(join(folder, name), { recursive: true, mode: 0o700 })
        entry.resume()
        continue
      }
      isComplete = name === sumsName
      const path = isComplete ? join(scratch, sumsName) : join(folder, name)
      const hash = createHash('sha256')
      await pipeline(entry, hashing(hash), createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }))
      if (isComplete) continue
      files += 1
      await write(sums, sumLine(hash, name))
    }
    await input
  } finally {
    sums.end()
    await finished(sums)
  }
  if (!isComplete) throw new Error('The archive is truncated')
  if (!(await isSame(join(scratch, sumsName), sumsPath)))
    throw new Error('The archive is damaged: its checksums do not match')
  return files
}

/** Nothing in an archive may lead out of the folder, or be anything but a file or a folder. */
const checkHeader = ({ name, type }: Header): { name: string; type: 'file' | 'directory' } => {
  const parts = name.replace(/\/$/, '').split('/')
  const isInside = parts.every(
    (part) => part !== '' && part !== '.' && part !== '..' && !/[\\:\0]/.test(part),
  )
  if (isInside && (type === 'file' || type === 'directory')) return { name, type }
  throw new Error(`The archive contains an unexpected entry: ${name}`)
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

/** Whether two files of sums are the same; a line for each file of the archive is little beside the files. */
const isSame = async (one: string, other: string): Promise<boolean> =>
  (await readFile(one)).equals(await readFile(other))

/** What is below a folder, folders before what is in them. */
async function* walk(
  folder: string,
  isLeftOut: (path: string) => boolean,
  below = '',
): AsyncGenerator<{ readonly path: string; readonly isFolder: boolean }> {
  for await (const entry of await opendir(join(folder, below))) {
    const path = join(below, entry.name)
    if (isLeftOut(path)) continue
    if (entry.isFile()) yield { path, isFolder: false }
    if (!entry.isDirectory()) continue
    yield { path, isFolder: true }
    yield* walk(folder, isLeftOut, path)
  }
}

/** Without this a crash could undo that the file, complete as it is, has its name. */
export const syncFolder = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return
  await using handle = await open(folder, 'r')
  await handle.sync()
}

/** The name of a file that is not finished. */
export const unfinishedName = (file: string): string => join(dirname(file), `.${basename(file)}.unfinished`)
