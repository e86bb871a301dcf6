import { setTimeout as pause } from 'node:timers/promises'
import type postgres from 'postgres'
import { writes } from '../../concurrency/work.ts'
import { withTimeout } from '../../concurrency/deadline.ts'
import { type Database, openDatabase } from './client.ts'
import { createClient, type ServerConnection } from './connection.ts'
import { DatabaseUnavailable, isTransient, WritesRefused } from './errors.ts'

/**
 * Reads from standbys of the primary. A commit on the primary waits until its synchronous standbys have applied it
 * (`synchronous_commit = remote_apply`), so clients read their own writes there, even across instances. Each standby is checked
 * continually. A standby that is not known to be synchronous gets no statements.
 */
export interface Standbys {
  /** Like the primary's database, but statements that only read run on a standby if one can be used. */
  readingFor(primary: Database): Database
  /** Waits up to 5 seconds for running statements. */
  close(): Promise<void>
}

/** Milliseconds between two checks, and for which a result is valid, counted from the start of its check. */
const interval = 300
const validity = 1_000

/** Milliseconds that a statement may take on a standby; after that, it runs on the primary. */
const readDeadline = 2_000

/** The host of a standby, for logs: without credentials. */
const nameOf = ({ url }: ServerConnection): string => new URL(url).host

interface Standby {
  readonly connection: ServerConnection
  readonly database: Database
  /** The `performance.now()` up to which the standby is known to be synchronous. */
  usableUntil: number
  running: number
}

interface Options {
  readonly primary: ServerConnection
  /** One connection per standby. */
  readonly standbys: readonly ServerConnection[]
  /** Wraps the database of each standby. */
  readonly observe?: (db: Database) => Database
  /** Standbys are checked once this has resolved. */
  readonly migrated: Promise<void>
  readonly log: { info(message: string): void; warn(message: string): void }
}

/** Opens the standbys, and checks them until `close` is called. */
export const openStandbys = ({
  primary,
  standbys: connections,
  observe: observeDatabase = (db) => db,
  migrated,
  log,
}: Options): Standbys => {
  const stopping = new AbortController()
  const ofPrimary = createClient(primary)
  const standbys = connections.map((connection): Standby => ({
    connection,
    database: observeDatabase(openDatabase(connection, readDeadline)),
    usableUntil: 0,
    running: 0,
  }))

  const observe = async (standby: Standby): Promise<void> => {
    const name = nameOf(standby.connection)
    const ofStandby = createClient(standby.connection)
    let lastFault: string | null | undefined
    while (!stopping.signal.aborted) {
      const askedAt = performance.now()
      const fault = await withTimeout(
        validity,
        findStandbyFault(ofPrimary, ofStandby),
        () => new Error('no answer in time'),
      ).catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
      standby.usableUntil = fault === null ? askedAt + validity : 0
      if (fault !== lastFault && fault === null) log.info(`reading from the standby ${name}`)
      if (fault !== lastFault && fault !== null)
        log.warn(`not reading from the standby ${name}, but from the primary: ${fault}`)
      lastFault = fault
      await pause(interval, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined)
    }
    await ofStandby.end({ timeout: 0 })
  }
  const observing = migrated.then(
    () => Promise.all(standbys.map(observe)),
    () => undefined,
  )

  const leastBusy = (): Standby | undefined =>
    standbys
      .filter(({ usableUntil }) => performance.now() < usableUntil)
      .toSorted((a, b) => a.running - b.running)[0]

  return {
    readingFor: (primary) => ({
      ...primary,
      async run(...parameters) {
        const standby = writes(parameters[0]) ? undefined : leastBusy()
        if (standby === undefined) return primary.run(...parameters)
        standby.running += 1
        try {
          return await standby.database.run(...parameters)
        } catch (error) {
          // The standby is unavailable, or the statement conflicted with recovery.
          if (!(error instanceof DatabaseUnavailable) && !isTransient(error)) throw error
          if (error instanceof WritesRefused)
            log.warn(`only the primary can run ${parameters[0].slice(0, 80)}`)
          return await primary.run(...parameters)
        } finally {
          standby.running -= 1
        }
      },
    }),
    async close() {
      stopping.abort()
      await observing
      await Promise.all([ofPrimary.end({ timeout: 0 }), ...standbys.map(({ database }) => database.close())])
    },
  }
}

/**
 * Why reads may not go to a standby; null if commits of the primary, on connections such as this one, wait until the standby has
 * applied them. The user of both connections has to be a member of `pg_monitor`.
 *
 * @throws errors of the driver
 */
export const findStandbyFault = async (
  primary: postgres.Sql,
  standby: postgres.Sql,
): Promise<string | null> => {
  // PostgreSQL's own settings of the connection say by which name the primary knows the standby.
  const [receiver] = await standby<{ is_standby: boolean; may_see: boolean; name: string | null }[]>`
    select pg_is_in_recovery() as is_standby, pg_has_role('pg_read_all_stats', 'usage') as may_see, (
      select coalesce(
        substring(conninfo from '(?:^| )application_name=([^ ]+)'), substring(conninfo from 'fallback_application_name=([^ ]+)'))
      from pg_stat_wal_receiver where status = 'streaming') as name`
  if (receiver?.is_standby !== true) return 'it is no standby'
  if (!receiver.may_see) return 'the user must be a member of pg_monitor: GRANT pg_monitor TO …'
  if (receiver.name === null) return 'it does not stream from the primary'
  // With a quorum, a commit waits for some of its members only, unless it needs all of them.
  const [sender] = await primary<{ waits: boolean; is_synchronous: boolean }[]>`
    select current_setting('synchronous_commit') = 'remote_apply' as waits, exists (
      select from pg_stat_replication
      where application_name = ${receiver.name} and state = 'streaming' and (sync_state = 'sync' or sync_state = 'quorum'
        and substring(current_setting('synchronous_standby_names') from '(?i)^ *any +([0-9]+)')::int
          >= (select count(*) from pg_stat_replication where sync_state = 'quorum'))) as is_synchronous`
  if (sender?.waits !== true)
    return 'commits do not wait for standbys: synchronous_commit is not remote_apply'
  return sender.is_synchronous
    ? null
    : `${receiver.name} is not a synchronous standby: see synchronous_standby_names`
}
