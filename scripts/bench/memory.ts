import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { withPostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { resetPeakMemory, peakMemory, residentMemory } from './processes.ts'
import { startService } from './service.ts'
import { download, inParallel, upload } from './transfer.ts'

/**
 * `npm run bench:memory`: the memory of the service during ten concurrent uploads and then ten downloads. Files are stored on the
 * disk, or in the bucket of TEST_STORAGE_URL (`node scripts/s3.ts -- npm run bench:memory`).
 */

const { values: options } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })

/** Milliseconds. */
const deadline = 1_800_000

const mebibyte = 1_048_576
const parallel = 10

/** Bytes of each file. */
const size = (options.quick ? 100 : 1_024) * mebibyte

/**
 * Maximum growth in bytes, independent of the size of the files: V8 collects buffers once 64 MiB are garbage, each upload to S3
 * buffers a part of 5 MiB, and the rest is headroom.
 */
const target = 160 * mebibyte

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await expectSpace(folder)
  await withPostgres(async (databaseUrl) => {
    const { TEST_STORAGE_URL, AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = process.env
    const bucket = TEST_STORAGE_URL && {
      STORAGE_URL: TEST_STORAGE_URL,
      AWS_ACCESS_KEY_ID,
      AWS_SECRET_ACCESS_KEY,
    }
    const environment = { DATABASE_URL: databaseUrl, ...bucket }
    const { server, target, uploads } = await startService(t, { core: null, folder }, environment)
    const idle = await residentMemory(server.pid)
    console.log(`idle: ${mebibytes(idle)} MiB`)
    const measure = async <T>(transfers: string, action: () => Promise<T>): Promise<T> => {
      await resetPeakMemory(server.pid)
      const startedAt = performance.now()
      const result = await action()
      const rate = (parallel * size) / 1e3 / (performance.now() - startedAt)
      report(
        `${parallel} concurrent ${transfers} of ${mebibytes(size)} MiB`,
        (await peakMemory(server.pid)) - idle,
        rate,
      )
      return result
    }
    const paths = await measure('uploads', () => inParallel(parallel, () => upload(target, uploads, size)))
    await measure('downloads', () => Promise.all(paths.map((path) => download(target, path))))
  })
}

/** Without enough disk space, the measurement would be meaningless. */
const expectSpace = async (folder: string): Promise<void> => {
  const { bavail, bsize } = await statfs(folder)
  const needed = 2 * parallel * size
  if (bavail * bsize < needed)
    throw new Error(`This needs ${mebibytes(needed)} MiB of free space in ${folder}`)
}

const mebibytes = (bytes: number): number => Math.round(bytes / mebibyte)

const report = (transfers: string, growth: number, rate: number): void =>
  console.log(
    `${transfers}: +${mebibytes(growth)} MiB of ${mebibytes(target)}, ${growth < target ? 'met' : 'not met'}; ${Math.round(rate)} MB/s`,
  )

await runToEnd('bench:memory', deadline, main)
