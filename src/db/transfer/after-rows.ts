import type postgres from 'postgres'

interface Postponed {
  readonly drop: string
  readonly create: string
}

/**
 * Writes rows without the indexes and foreign keys of the tables, and makes these afterwards: to sort a million values once takes a small
 * part of the time of a million insertions, and a join checks references faster than a query for each row. Primary keys stay.
 */
export const makeIndexesAfter = async <T>(
  transaction: postgres.TransactionSql,
  write: () => Promise<T>,
): Promise<T> => {
  const postponed = [...(await selectIndexes(transaction)), ...(await selectForeignKeys(transaction))]
  for (const { drop } of postponed.toReversed()) await transaction.unsafe(drop)
  const result = await write()
  for (const { create } of postponed) await transaction.unsafe(create)
  return result
}

/** Those that no constraint needs. */
const selectIndexes = (transaction: postgres.TransactionSql): Promise<readonly Postponed[]> =>
  transaction<Postponed[]>`
    select format('drop index %s', indexrelid::regclass) as drop, pg_get_indexdef(indexrelid) as create
    from pg_index join pg_class on pg_class.oid = indrelid
    where relnamespace = 'public'::regnamespace and not exists (select from pg_constraint where conindid = indexrelid)`

const selectForeignKeys = (transaction: postgres.TransactionSql): Promise<readonly Postponed[]> =>
  transaction<Postponed[]>`
    select format('alter table %s drop constraint %I', conrelid::regclass, conname) as drop,
      format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as create
    from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace`
