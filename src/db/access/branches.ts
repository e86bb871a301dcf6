import { type SQL, sql } from '../schema/drizzle.ts'

/**
 * Access branches. There is one branch per access path: the reasons why a caller can see a row, such as owner or assignee. A
 * list runs one ordered query per branch and merges the first rows of each. Each branch has an index, so the cost of a page
 * does not depend on the number of rows.
 */
export interface AccessBranch {
  /** The branch's query. `rows` builds the ordered and limited query for an indexable condition on the row `item`. */
  readonly select: (rows: RowsOf) => SQL
  /** Whether an earlier branch also returns the row `item`. */
  readonly isRepeated: SQL
  /**
   * The transaction in which the caller began to see all rows at once that the query reads with one value of this expression.
   * Null: rows became visible when they changed.
   */
  readonly beganIn: SQL | null
}

/** `from` replaces the list's FROM clause. */
export type RowsOf = (condition: SQL, from?: SQL) => SQL

/** A single branch. */
export const onlyBranch = (condition: SQL): readonly AccessBranch[] => [
  { select: (rows) => rows(condition), isRepeated: sql`false`, beganIn: null },
]

/**
 * The union of all branches, without duplicates. `rows` orders and limits each branch and adds the column `is_repeated`.
 * Duplicates are removed after the limit, so that a branch never skips more rows than a page has. The first rows of the union
 * are among the first rows of the branches.
 */
export const unionOfBranches = (
  branches: readonly AccessBranch[],
  rows: (isRepeated: SQL, beganIn: SQL | null) => RowsOf,
): SQL =>
  sql.join(
    branches.map(
      ({ select, isRepeated, beganIn }) =>
        sql`(select * from (${select(rows(isRepeated, beganIn))}) item where not is_repeated)`,
    ),
    sql` union all `,
  )
