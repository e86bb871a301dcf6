import { randomUUID } from 'node:crypto'
import type { Database } from '../engine/client.ts'
import { minStepBack } from '../shared/retention.ts'
import { statement } from '../statements/statement.ts'
import { sql } from '../schema/drizzle.ts'
import { leases } from '../schema/tables.ts'

/**
 * While a backup reads the rows and then the files, no instance deletes a file: its row may be in the backup. Each backup has a lease of
 * its own, which ends without a sign of life, so that a backup that was killed does not keep files forever.
 */

const prefix = 'file_hold/'

/** Minutes after which files are deleted again without a sign of life. */
const lifetime = sql.raw(`interval '60 minutes'`)

/** Milliseconds between two signs of life. */
const renewInterval = 60_000

const isHold = sql`starts_with(${leases.name}, ${sql.raw(`'${prefix}'`)})`

/** Whether a backup keeps all files. A later end than a backup sets was set before the clock was set back. */
export const areFilesHeld = sql`exists (
  select from leases where ${isHold} and ${leases.expires_at} > now()
    and ${leases.expires_at} <= now() + ${lifetime} + ${minStepBack})`

const parameters = { holder: 'uuid' } as const

const begin = statement(
  'file_holds.begin',
  parameters,
  {},
  (p) => sql`
    with expired as (delete from leases where ${isHold} and ${leases.expires_at} <= now())
    insert into leases (name, holder, expires_at)
    values (${sql.raw(`'${prefix}'`)} || ${p.holder}::text, ${p.holder}, now() + ${lifetime})`,
)

const renew = statement(
  'file_holds.renew',
  parameters,
  { holder: 'text' },
  (p) => sql`
    update leases set expires_at = now() + ${lifetime}
    where ${isHold} and ${leases.holder} = ${p.holder} and ${leases.expires_at} > now() returning ${leases.holder}::text as holder`,
)

const end = statement(
  'file_holds.end',
  parameters,
  {},
  (p) => sql`delete from leases where ${isHold} and ${leases.holder} = ${p.holder}`,
)

const select = statement(
  'file_holds.select',
  {},
  { are_held: 'bool' },
  () => sql`select ${areFilesHeld} as are_held`,
)

/** Whether a backup keeps all files at the moment. */
export const hasFileHold = async (db: Database): Promise<boolean> =>
  (await select(db, {}))[0]?.are_held === true

/** The files were not kept all the time, so a row may have lost its file. */
export class FileHoldLost extends Error {
  override readonly name = 'FileHoldLost'

  constructor() {
    super(
      'Files may have been deleted meanwhile: the database did not answer for an hour, or its clock was set. Run the backup again',
    )
  }
}

/** Keeps all files until its end: those of rows that are read meanwhile are there. */
export interface FileHold {
  /** @throws FileHoldLost unless all files were kept until now */
  confirm(): Promise<void>
  end(): Promise<void>
}

/** Begins to keep all files. */
export const holdFiles = async (db: Database): Promise<FileHold> => {
  const holder = randomUUID()
  await begin(db, { holder })
  const timer = setInterval(() => void renew(db, { holder }).catch(() => undefined), renewInterval)
  return {
    async confirm() {
      if ((await renew(db, { holder })).length === 0) throw new FileHoldLost()
    },
    async end() {
      clearInterval(timer)
      await end(db, { holder })
    },
  }
}
