import type { Sql } from 'postgres'

/**
 * Fills tables over one connection. Indexes are created after the rows, and triggers do not fire, so that `fill` must write what
 * triggers would.
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
