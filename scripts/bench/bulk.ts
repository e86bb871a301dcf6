import type { Sql } from 'postgres'

/**
 * Fills tables by statements that make their rows themselves, over one connection: indexes are made when the rows are
 * there, and triggers do not fire, so that `fill` has to say what they would.
 */
export const inBulk = async (
  client: Sql,
  tables: readonly string[],
  fill: () => Promise<unknown>,
): Promise<void> => {
  const indexes = await client<{ indexname: string; indexdef: string }[]>`
    select indexname, indexdef from pg_indexes
    where tablename in ${client(tables)} and indexname not like '%pkey' and indexname not like '%_pk'`
  for (const { indexname } of indexes) await client.unsafe(`drop index "${indexname}"`)
  await client`set session_replication_role = replica`
  await client`set maintenance_work_mem = '256MB'`
  await fill()
  for (const { indexdef } of indexes) await client.unsafe(indexdef)
  await client`reset session_replication_role`
  await client`vacuum analyze`
}
