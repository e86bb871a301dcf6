import { createHash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import released from '../../src/db/migrations/released-routines.json' with { type: 'json' }
import manifestOfPackage from '../../package.json' with { type: 'json' }
import { readSchema, revisionOf, type Schema } from '../../src/db/engine/migrate.ts'
import type { TableColumns, TableRows } from '../../src/db/transfer/catalog.ts'
import { countLines, type RowCounts } from '../../src/db/transfer/counts.ts'
import { type ArchiveEntry, ArchiveUnusable, type ArchiveWriter, readEntries } from './archive.ts'

/**
 * The archive of `npm run backup`:
 *
 *     manifest.json           what the archive has, and the schema of its tables
 *     routines.sql            the functions and triggers of that schema
 *     tables/<name>/<number>  rows in the text format of COPY, in pieces
 *     counts.json             the number of rows of each table
 *     attachments/…           the files, unless they are in a bucket
 *     jwt-secret              the generated secret, if there is one
 *     SHA256SUMS
 *
 * The tables are in the order in which they can be written.
 */

interface Manifest {
  readonly format: number
  /** The version of the service that wrote the archive. */
  readonly version: string
  /** Creation times, which identify migrations. */
  readonly migrations: readonly number[]
  readonly routines: { readonly sha256: string }
  readonly tables: readonly TableColumns[]
  readonly hasFiles: boolean
}

const format = 1
const { version } = manifestOfPackage

/** Bytes of a piece of a table, whose size is written before it. A larger row is a piece of its own. */
const maxPieceBytes = 16 * 1_048_576

/** Bytes of an entry that is read as a whole. */
const maxTextBytes = 16 * 1_048_576

const names = { manifest: 'manifest.json', routines: 'routines.sql', counts: 'counts.json' } as const
const pieceName = (table: string, number: number): string => `tables/${table}/${number}`

/** Writes the entries of a database with the schema of this version. Resolves to the number of rows. */
export const addDatabase = async (
  archive: ArchiveWriter,
  tables: readonly TableRows[],
  { hasFiles, schema = readSchema() }: { readonly hasFiles: boolean; readonly schema?: Schema },
): Promise<number> => {
  const { migrations, routines } = schema
  const manifest: Manifest = {
    format,
    version,
    migrations: migrations.map(({ folderMillis }) => folderMillis),
    routines: { sha256: routines.hash },
    tables: tables.map(({ name, columns }) => ({ name, columns })),
    hasFiles,
  }
  await addText(archive, names.manifest, `${JSON.stringify(manifest, null, 2)}\n`)
  await addText(archive, names.routines, routines.sql)
  const counts: RowCounts = new Map()
  for (const table of tables) {
    let number = 0
    for await (const { size, chunks } of piecesOf(countLines(table, counts).rows())) {
      number += 1
      await archive.add(pieceName(table.name, number), size, chunks)
    }
  }
  await addText(archive, names.counts, `${JSON.stringify(Object.fromEntries(counts), null, 2)}\n`)
  return [...counts.values()].reduce((sum, rows) => sum + rows, 0)
}

const addText = (archive: ArchiveWriter, name: string, content: string): Promise<void> => {
  const bytes = Buffer.from(content)
  return archive.add(name, bytes.length, [bytes])
}

interface Piece {
  readonly size: number
  readonly chunks: readonly Uint8Array[]
}

/** Joins chunks, which end with a row, to pieces. */
async function* piecesOf(rows: AsyncIterable<Uint8Array>): AsyncGenerator<Piece, void> {
  let chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of rows) {
    if (size > 0 && size + chunk.length > maxPieceBytes) {
      yield { size, chunks }
      chunks = []
      size = 0
    }
    chunks.push(chunk)
    size += chunk.length
  }
  if (size > 0) yield { size, chunks }
}

/** An archive that is being read. Its parts must be read in this order. */
export interface BackupReader {
  readonly schema: Schema
  readonly hasFiles: boolean
  readonly tables: readonly TableRows[]
  /** The number of rows of each table. */
  counts(): Promise<ReadonlyMap<string, number>>
  /** The attachments and the secret. When the last one was read, the whole archive has been verified. */
  files(): AsyncIterable<ArchiveEntry>
}

/**
 * @throws ArchiveUnusable
 * @throws Error if the archive is of another version whose schema is not known here
 */
export const readBackup = async (file: string, scratch: string): Promise<BackupReader> => {
  const entries = readEntries(file, scratch)
  let current = await entries.next()
  const currentName = (): string | null => (current.done === true ? null : current.value.name)
  const advance = async (): Promise<void> => {
    current = await entries.next()
  }
  const readText = async (name: string): Promise<string> => {
    if (current.done === true || current.value.name !== name || current.value.size > maxTextBytes)
      throw new ArchiveUnusable(`it has no ${name} where it should be`)
    const content = await text(current.value.body)
    await advance()
    return content
  }

  if (currentName() !== names.manifest) {
    while (current.done !== true && !current.value.name.startsWith('postgres/')) await advance()
    if (current.done === true) throw new ArchiveUnusable('it was not written by "npm run backup"')
    await entries.return()
    throw new Error(
      `${file} was written by Taskwright 0.1 or 0.2. "npm run carry-over" writes its data to a database of this version`,
    )
  }
  const manifest = parseManifest(await readText(names.manifest))
  const schema = schemaOf(manifest, await readText(names.routines))

  async function* rowsOf(table: string): AsyncGenerator<Uint8Array, void> {
    for (
      let number = 1;
      current.done !== true && current.value.name === pieceName(table, number);
      number += 1
    ) {
      yield* current.value.body
      await advance()
    }
  }
  return {
    schema,
    hasFiles: manifest.hasFiles,
    tables: manifest.tables.map(({ name, columns }) => ({ name, columns, rows: () => rowsOf(name) })),
    counts: async () => parseCounts(await readText(names.counts)),
    async *files() {
      for (; current.done !== true; await advance()) yield current.value
    },
  }
}

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

const isTable = (value: unknown): value is TableColumns =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  typeof value.name === 'string' &&
  'columns' in value &&
  isNames(value.columns)

const parseObject = (json: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value === 'object' && value !== null) return { ...value }
  } catch {
    // It is no JSON.
  }
  throw new ArchiveUnusable('it contains unreadable JSON')
}

const parseManifest = (json: string): Manifest => {
  const manifest = parseObject(json)
  const writer = typeof manifest['version'] === 'string' ? manifest['version'] : 'an unknown version'
  if (manifest['format'] !== format) throw ofNewerVersion(writer)
  const { migrations, routines, tables, hasFiles } = manifest
  if (
    !Array.isArray(migrations) ||
    !migrations.every((item): item is number => typeof item === 'number') ||
    typeof routines !== 'object' ||
    routines === null ||
    !('sha256' in routines && typeof routines.sha256 === 'string') ||
    !Array.isArray(tables) ||
    !tables.every(isTable) ||
    typeof hasFiles !== 'boolean'
  )
    throw new ArchiveUnusable('its manifest is incomplete')
  const { sha256 } = routines
  return { format, version: writer, migrations, routines: { sha256 }, tables, hasFiles }
}

const parseCounts = (json: string): ReadonlyMap<string, number> =>
  new Map(Object.entries(parseObject(json)).map(([table, rows]) => [table, Number(rows)]))

const ofNewerVersion = (writer: string): Error =>
  new Error(
    `The archive was written by Taskwright ${writer}, and this is ${version}. Restore it with that version or a newer one`,
  )

/**
 * The schema that an archive was written with. Its routines are run only if a release had exactly the same.
 *
 * @throws Error if this version does not know the schema
 */
const schemaOf = (manifest: Manifest, routines: string): Schema => {
  const current = readSchema()
  const migrations = current.migrations.filter(({ folderMillis }) =>
    manifest.migrations.includes(folderMillis),
  )
  if (migrations.length < manifest.migrations.length) throw ofNewerVersion(manifest.version)
  const hash = createHash('sha256').update(routines).digest('hex')
  if (hash !== manifest.routines.sha256) throw new ArchiveUnusable('its checksums do not match')
  if (hash !== current.routines.hash && !Object.values(released).includes(hash))
    throw new Error(
      `The archive was written by an unreleased state of Taskwright ${manifest.version}. Restore it with the same state`,
    )
  return { migrations, routines: { revision: revisionOf(routines), sql: routines, hash } }
}
