import { LRUCache } from 'lru-cache'
import type { PageRequest } from '../../domain/shared/pages.ts'
import type { Role } from '../../domain/shared/permissions.ts'
import type { SortBy } from '../../domain/shared/sort.ts'
import type { SQL } from '../schema/drizzle.ts'
import type { Condition } from '../statements/conditions.ts'
import { type Compiled, shapeOf } from '../statements/statement.ts'

/** What the statement of a page depends on, besides the request. */
interface ShapedList {
  readonly name: string
  readonly order: readonly SortBy<string>[]
  readonly rank?: SQL
  readonly filters?: readonly Condition[]
}

/** Clients decide how many shapes there are, so those that were not used for the longest time go. */
const statements = new LRUCache<string, Compiled>({ max: 300 })

/** The statement of a page, compiled once for each shape: what is compared and sorted, without the values. */
export const compiledOnce = (
  { name, order, rank, filters = [] }: ShapedList,
  role: Role,
  { position, offset, includeTotal }: PageRequest,
  compile: () => Compiled,
): Compiled => {
  const shape = JSON.stringify([
    name,
    role,
    order,
    rank !== undefined,
    position && [position.direction, position.values.map((value) => value === null)],
    offset === 0,
    includeTotal,
    filters.map(({ sql, search }) => [
      shapeOf(sql),
      search && [shapeOf(search.cost), search.index && shapeOf(search.index)],
    ]),
  ])
  const known = statements.get(shape)
  if (known !== undefined) return known
  const statement = compile()
  statements.set(shape, statement)
  return statement
}
