import { type SQL, sql } from '../schema/drizzle.ts'

/**
 * Access branches: a list reads the rows that a caller may see by one ordered query for each reason to see them, and merges
 * the first rows of each. An index serves a branch, so the cost of a page does not depend on how many rows there are.
 */
export interface AccessBranch {
  /** The query of the branch: `rows` makes the ordered, limited query for an index condition on the row `item`. */
  readonly select: (rows: RowsOf) => SQL
  /** Whether an earlier branch has the row `item` too. */
  readonly isRepeated: SQL
}

/** `from` replaces the list's own FROM. */
export type RowsOf = (condition: SQL, from?: SQL) => SQL

/** A list with one branch. */
export const onlyBranch = (condition: SQL): readonly AccessBranch[] => [
  { select: (rows) => rows(condition), isRepeated: sql`false` },
]

/**
 * The rows of all branches. `rows` orders and limits those of each, with a column `is_repeated`: what is repeated goes after
 * the limit, so that a page never skips more rows than it has. The first rows of all are among the first rows of each.
 */
export const unionOfBranches = (branches: readonly AccessBranch[], rows: (isRepeated: SQL) => RowsOf): SQL =>
  sql.join(
    branches.map(
      ({ select, isRepeated }) =>
        sql`(select * from (${select(rows(isRepeated))}) item where not is_repeated)`,
    ),
    sql` union all `,
  )
