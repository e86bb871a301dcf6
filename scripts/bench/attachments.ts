import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { withPostgres } from '../postgres.ts'
import { runToEnd, type Teardown } from '../run-to-end.ts'
import { cpuTime, type Server, pinToProcessor, startServer } from './processes.ts'
import { startService } from './service.ts'
import { download, inParallel, remove, type Target, upload } from './transfer.ts'

/**
 * `npm run bench:attachments`: the rate of uploads and downloads, compared with a bare Node server that does the same work. They are
 * measured in turn on one processor; the client and PostgreSQL use the other. The results are medians over rounds.
 */

const { values: options } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })

/** Milliseconds. */
const deadline = 1_800_000

const mebibyte = 1_048_576

interface Case {
  readonly name: string
  readonly parallel: number
  /** Bytes of each file. */
  readonly size: number
}

const rounds = options.quick ? 1 : 3
const cases: readonly Case[] = options.quick
  ? [
      { name: '64 MiB', parallel: 1, size: 64 * mebibyte },
      { name: '10 x 8 MiB at once', parallel: 10, size: 8 * mebibyte },
    ]
  : [
      { name: '256 MiB', parallel: 1, size: 256 * mebibyte },
      { name: '10 x 64 MiB at once', parallel: 10, size: 64 * mebibyte },
    ]

/** The minimum rate, as a ratio to the rate of the floor. */
const targets = { upload: 0.6, download: 0.8 }

type Direction = keyof typeof targets

/** A measured server, and its path for uploads. */
interface Contender {
  readonly server: Server
  readonly target: Target
  readonly uploads: string
}

/** The result of one round of a case. */
interface Sample {
  /** Megabytes per second. */
  readonly rate: number
  /** Milliseconds of CPU time of the server per megabyte. */
  readonly cpu: number
}

const main = async (t: Teardown): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-bench-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const core = await pinToProcessor()
  await withPostgres(async (databaseUrl) => {
    const placement = { core, folder }
    const ours = await startService(t, placement, { DATABASE_URL: databaseUrl })
    const bare = await startBare(t, placement)
    const rows = []
    for (const one of cases) rows.push(...(await compare(one, ours, bare)))
    console.log('\nMegabytes per second, and CPU time of the server in milliseconds per megabyte')
    console.table(Object.fromEntries(rows))
  })
}

const startBare = async (
  t: Teardown,
  { core, folder }: { readonly core: number | null; readonly folder: string },
): Promise<Contender> => {
  const files = join(folder, 'bare')
  await mkdir(files)
  const environment = { DATA_DIR: files }
  const server = await startServer(t, { program: 'bare-files.ts', environment, core, folder })
  return { server, target: { url: server.url, headers: {} }, uploads: '/' }
}

/** The rows of the table for a case. The service and the floor are measured in turn, after a warm-up. */
const compare = async (one: Case, ours: Contender, bare: Contender) => {
  const samples = { ours: noSamples(), bare: noSamples() }
  const contenders = [
    ['ours', ours],
    ['bare', bare],
  ] as const
  for (const [, contender] of contenders) await measure(contender, { ...one, size: mebibyte })
  for (let round = 0; round < rounds; round += 1)
    for (const [name, contender] of contenders) {
      const { upload: up, download: down } = await measure(contender, one)
      samples[name].upload.push(up)
      samples[name].download.push(down)
    }
  return (['upload', 'download'] as const).map((direction) => {
    const [our, floor] = [medianOf(samples.ours[direction]), medianOf(samples.bare[direction])]
    const ratio = our.rate / floor.rate
    const row = {
      ours: Math.round(our.rate),
      bare: Math.round(floor.rate),
      ratio: rounded(ratio),
      target: targets[direction],
      met: ratio >= targets[direction] ? 'yes' : 'no',
      CPU: rounded(our.cpu),
      'bare CPU': rounded(floor.cpu),
    }
    return [`${direction} ${one.name}`, row] as const
  })
}

const noSamples = (): Record<Direction, Sample[]> => ({ upload: [], download: [] })

/** Uploads, downloads and deletes the files of a case. */
const measure = async (
  { server, target, uploads }: Contender,
  { parallel, size }: Case,
): Promise<Record<Direction, Sample>> => {
  const timed = async <T>(action: () => Promise<T>): Promise<[Sample, T]> => {
    const [startedAt, used] = [performance.now(), await cpuTime(server.pid)]
    const result = await action()
    const seconds = (performance.now() - startedAt) / 1_000
    const megabytes = (parallel * size) / 1e6
    const cpu = ((await cpuTime(server.pid)) - used) / megabytes
    return [{ rate: megabytes / seconds, cpu }, result]
  }
  const [up, paths] = await timed(() => inParallel(parallel, () => upload(target, uploads, size)))
  const [down, sizes] = await timed(() => Promise.all(paths.map((path) => download(target, path))))
  if (sizes.some((received) => received !== size))
    throw new Error('The size of a download differs from the upload')
  for (const path of paths) await remove(target, path)
  return { upload: up, download: down }
}

/** The median of each figure separately. */
const medianOf = (samples: readonly Sample[]): Sample => {
  const median = (name: keyof Sample): number => {
    const sorted = samples.map((sample) => sample[name]).toSorted((a, b) => a - b)
    return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  }
  return { rate: median('rate'), cpu: median('cpu') }
}

const rounded = (figure: number): number => Math.round(figure * 100) / 100

await runToEnd('bench:attachments', deadline, main)
