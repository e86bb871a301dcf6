import { constants, type BigIntStats } from 'node:fs'
import { copyFile, link, lstat, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../../src/db/engine/system-errors.ts'
import { walk } from './archive.ts'
import type { ServiceConnection } from './running-service.ts'

/**
 * Copies DATA_DIR to a folder in it while the service runs. The first passes copy everything while it changes. The last one copies
 * what has changed since, while PostgreSQL is stopped in the middle of what it does: the copy is what a kill of the service at this
 * moment would leave.
 */

/** Milliseconds. A file that changed this shortly before it was copied may have changed again with the same time. */
const timeGranularity = 1_000

interface Seen {
  readonly stamp: string
  /** Milliseconds since the epoch, by the clock of the disk. */
  readonly changedAt: number
  readonly copiedAt: number
}

const stampOf = ({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  `${ino} ${size} ${mtimeNs} ${ctimeNs}`

/** Complete attachments never change, so a link is a copy. */
const isImmutable = (path: string): boolean => /^attachments[/\\][0-9a-f]{2}[/\\]/.test(path)

const ignoreMissing = (error: unknown): void => {
  if (!hasCode(error, 'ENOENT')) throw error
}

/** Copies what is new or changed in `from` to `to`, and removes the rest. */
const copyChanges = async (
  from: string,
  to: string,
  isExcluded: (path: string) => boolean,
  seen: Map<string, Seen>,
): Promise<void> => {
  const present = new Set<string>()
  for await (const { path, isFolder } of walk(from, isExcluded)) {
    const target = join(to, path)
    if (isFolder) {
      await mkdir(target, { recursive: true, mode: 0o700 })
      continue
    }
    present.add(path)
    const before = seen.get(path)
    if (before !== undefined && isImmutable(path)) continue
    try {
      const stats = await lstat(join(from, path), { bigint: true })
      const [stamp, changedAt] = [stampOf(stats), Number(stats.ctimeMs)]
      const mayHaveChanged =
        before === undefined || before.stamp !== stamp || before.changedAt > before.copiedAt - timeGranularity
      if (!mayHaveChanged) continue
      const copiedAt = Date.now()
      if (isImmutable(path)) await linkOrCopy(join(from, path), target)
      else await copyFile(join(from, path), target, constants.COPYFILE_FICLONE)
      seen.set(path, { stamp, changedAt, copiedAt })
    } catch (error) {
      ignoreMissing(error)
      present.delete(path)
    }
  }
  for (const path of seen.keys()) {
    if (present.has(path)) continue
    await rm(join(to, path), { force: true })
    seen.delete(path)
  }
}

/** Not every file system has links. */
const linkOrCopy = (from: string, to: string): Promise<void> =>
  link(from, to).catch(async (error: unknown) => {
    if (hasCode(error, 'ENOENT')) throw error
    await copyFile(from, to)
  })

/** @throws Error when the database could not be paused for long enough */
export const copyRunning = async (
  service: ServiceConnection,
  from: string,
  to: string,
  isExcluded: (path: string) => boolean,
): Promise<void> => {
  const seen = new Map<string, Seen>()
  await copyChanges(from, to, isExcluded, seen).catch(ignoreMissing)
  // What changed during the first pass, which can take long, need not wait for the pause.
  await copyChanges(from, to, isExcluded, seen).catch(ignoreMissing)
  await service.ask('pause')
  await copyChanges(from, to, isExcluded, seen)
  if ((await service.ask('resume')) !== 'resumed')
    throw new Error(
      'The database changes faster than its files can be copied. Run the command again, or stop the service first',
    )
}
