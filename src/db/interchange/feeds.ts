import type { CalendarFeed } from '../../domain/shared/feeds.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import {
  type Authorized,
  type FeedPrincipal,
  type Principal,
  type Relation,
  relationsToUser,
} from '../../domain/shared/permissions.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsOwn } from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { Database } from '../engine/client.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import type { ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { retentionTime } from '../shared/retention.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { newest, selectPage } from '../lists/list.ts'
import { countFeeds, lockCounters } from '../shared/quotas.ts'
import { feedJson } from '../shared/read-models.ts'
import { isSignInDue } from '../shared/recent.ts'
import { aliasedTable, and, eq, isNull, sql } from '../schema/drizzle.ts'
import { feeds, users } from '../schema/tables.ts'
import { principalColumns, readPrincipal, selectPrincipal } from '../accounts/sessions.ts'
import { touched } from '../shared/touch.ts'

const item = aliasedTable(feeds, 'item')
const feed = aliasedTable(feeds, 'feed')
const person = aliasedTable(users, 'person')

/** A feed as JSON text, and its version. */
export interface FeedRow {
  readonly json: string
  readonly version: number
}

const selectOne = query(
  'feeds.select',
  { id: 'uuid' },
  { json: 'text', version: 'int' },
  (p) => sql`
    select ${feedJson(feed)} as json, ${feed.version} from feeds feed
    where ${feed.id} = ${p.id} and ${feed.revoked_at} is null and ${allowsOwn('feed.see', p, feed.owner_id)}`,
)

/** One feed of the caller. */
export const selectFeed = async (ctx: StatementContext, id: string): Promise<FeedRow | null> =>
  firstRow(await selectOne(ctx, { id }))

/** A feed that the transaction has written. */
export const viewFeed = async (tx: TransactionContext, id: string): Promise<FeedRow> =>
  expectRow(await selectOne(tx, { id }))

/** A page of the caller's feeds. */
export const selectFeeds = (
  { db, principal }: StatementContext<Principal>,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'feeds',
      table: feeds,
      branches: (caller) =>
        onlyBranch(sql`${allowsOwn('feed.see', caller, item.owner_id)} and ${item.revoked_at} is null`),
      ...newest,
      json: feedJson,
    },
    principal,
    page,
  )

const countOwned = builtStatement('feeds.count_owned', { id: 'uuid' }, (db, p) =>
  db
    .select({ used: countFeeds(p.id) })
    .from(users)
    .where(eq(users.id, p.id)),
)

/** The number of feeds of the caller, whom it locks: of two concurrent creations, the second counts the feed of the first. */
export const countOwnFeeds = async ({ db, principal }: TransactionContext<Principal>): Promise<number> => {
  const id = principal.userId
  const { count } = await pipeline(db, {
    counters: () => lockCounters(db, { id }),
    count: () => countOwned(db, { id }),
  })
  const [row] = count
  return row?.used ?? 0
}

/** The fields of a new feed. */
export type NewFeed = Omit<CalendarFeed, 'id' | 'version'>

const insert = builtStatement(
  'feeds.insert',
  {
    id: 'uuid',
    owner_id: 'uuid',
    name: 'text',
    filter: 'text',
    kind: 'text',
    alarms: 'bool',
    color: 'text?',
    hash: 'bytes',
  } satisfies ParametersOf<typeof feeds>,
  (db, p) => db.insert(feeds).values(p),
)

/** Inserts a feed of the caller. */
export const insertFeed = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  fields: NewFeed & { readonly hash: Buffer },
): Promise<void> => {
  await insert(db, { ...fields, id, owner_id: principal.userId })
}

/** A merge patch: absent fields are not changed. */
export type FeedPatch = Partial<Pick<CalendarFeed, 'name' | 'alarms' | 'color'>>

/** What a change of a feed depends on. */
export interface FeedFacts extends Required<FeedPatch> {
  readonly id: string
  readonly version: number
  /** What the caller is to its owner. */
  readonly relations: readonly Relation[]
}

const lock = rowLock('feeds.lock', feeds, 'no key update')

const selectFacts = builtStatement('feeds.select_facts', { id: 'uuid' }, (db, p) =>
  db
    .select({
      id: feeds.id,
      owner_id: feeds.owner_id,
      name: feeds.name,
      alarms: feeds.alarms,
      color: feeds.color,
      version: feeds.version,
    })
    .from(feeds)
    .where(and(eq(feeds.id, p.id), isNull(feeds.revoked_at))),
)

/** Locks a feed, and reads it under the lock, unless it is revoked. */
export const lockFeed = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
): Promise<FeedFacts | null> => {
  const { rows } = await pipeline(db, {
    lock: () => lock(db, { id }),
    rows: () => selectFacts(db, { id }),
  })
  const [row] = rows
  if (row === undefined) return null
  const { owner_id, ...facts } = row
  return { ...facts, relations: relationsToUser(principal, owner_id) }
}

/** A feed that the caller was found to be allowed to change. */
export type ChangeableFeed = Authorized<'feed.change', FeedFacts>

const update = builtStatement(
  'feeds.update',
  { id: 'uuid', name: 'text', alarms: 'bool', color: 'text?' },
  (db, { id, ...fields }) =>
    db
      .update(feeds)
      .set({ ...fields, ...touched(feeds) })
      .where(eq(feeds.id, id)),
)

/** Changes fields of a feed. */
export const updateFields = async (
  { db }: TransactionContext,
  { id, ...present }: ChangeableFeed,
  patch: FeedPatch,
): Promise<void> => {
  const { name, alarms, color } = { ...present, ...patch }
  await update(db, { id, name, alarms, color })
}

const rotate = builtStatement('feeds.rotate', { id: 'uuid', hash: 'bytes' }, (db, p) =>
  db
    .update(feeds)
    .set({ hash: p.hash, ...touched(feeds) })
    .where(eq(feeds.id, p.id)),
)

/** Replaces the token of a feed. */
export const replaceToken = async (
  { db }: TransactionContext,
  { id }: ChangeableFeed,
  hash: Buffer,
): Promise<void> => {
  await rotate(db, { id, hash })
}

const markRevoked = builtStatement('feeds.revoke', { id: 'uuid' }, (db, p) =>
  db
    .update(feeds)
    .set({ revoked_at: sql`now()` })
    .where(eq(feeds.id, p.id)),
)

/** Revokes a feed. */
export const revokeFeed = async ({ db }: TransactionContext, { id }: ChangeableFeed): Promise<void> => {
  await markRevoked(db, { id })
}

const selectReadable = statement(
  'feeds.select_readable',
  { id: 'uuid', hash: 'bytes' },
  {
    ...principalColumns,
    id: 'text',
    name: 'text',
    filter: 'text',
    kind: 'text',
    alarms: 'bool',
    color: 'text?',
    version: 'int',
    is_revoked: 'bool',
  },
  (p) => sql`
    select ${selectPrincipal(person)}, ${feed.id}::text as id, ${feed.name}, ${feed.filter}, ${feed.kind}, ${feed.alarms}, ${feed.color},
      ${feed.version}, ${feed.revoked_at} is not null as is_revoked
    from feeds feed join users person on ${person.id} = ${feed.owner_id}
    where ${feed.id} = ${p.id} and ${feed.hash} = ${p.hash} and ${person.deleted_at} is null and not ${person.is_disabled}
      and not ${isSignInDue(person)}`,
)

/** The owner of a feed and the feed, for whoever has its token. Null if there is none, or its owner cannot sign in, or has to. */
export const selectFeedPrincipal = async (
  db: Database,
  key: { readonly id: string; readonly hash: Buffer },
): Promise<FeedPrincipal | 'revoked' | null> => {
  const [row] = await selectReadable(db, key)
  if (row === undefined) return null
  if (row.is_revoked) return 'revoked'
  const { id, name, filter, alarms, color, version } = row
  const kind = row.kind === 'event' ? 'event' : 'todo'
  const readFeed = { id, name, filter, kind, alarms, color, version } as const
  return { ...readPrincipal(row), credential: { kind: 'feed', feed: readFeed } }
}

/** Deletes feeds that were revoked long ago. */
export const removeRevokedFeeds = deletionInBatches('feeds.delete_revoked', {
  parameters: {},
  table: feeds,
  condition: () => sql`${feeds.revoked_at} < ${retentionTime} - interval '90 days'`,
})
