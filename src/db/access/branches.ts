import { unionAll } from '../statements/conditions.ts'
import { aliasedTable, type SQL, sql, type SQLWrapper } from '../schema/drizzle.ts'
import { memberships } from '../schema/tables.ts'

const membership = aliasedTable(memberships, 'membership')

/**
 * Access branches. There is one branch per access path: the reasons why a caller can see a row, such as owner or assignee. A
 * list runs one ordered query per branch and merges the first rows of each. Each branch has an index, so the cost of a page
 * does not depend on the number of rows.
 */
export interface AccessBranch {
  /**
   * The branch's query. `rows` builds the ordered and limited query for an indexable condition on the row `item`. If `first` is
   * given, a branch of several such queries needs to return only their first rows in total.
   */
  readonly select: (rows: RowsOf, first: FirstRows | null) => SQL
  /** Whether an earlier branch also returns the row `item`. Absent if none does. */
  readonly isRepeated?: SQL
  /** Whether the row `item` is in the branch. Used for a few rows that were found by id. */
  readonly holds?: SQL
  /**
   * The transaction in which a group of rows became visible to the caller, such as all tasks of a project on joining it. Absent if
   * each row became visible by its own change.
   */
  readonly beganIn?: SQL
}

interface RowsOptions {
  /** Replaces the list's FROM clause. */
  readonly from?: SQL
  /** Replaces the list's number of rows. */
  readonly limit?: SQL
}

export type RowsOf = (condition: SQL, options?: RowsOptions) => SQL

/** The number of rows that are needed, and their order. */
export interface FirstRows {
  readonly count: SQL
  readonly order: SQL
  /** Whether `count` is much larger than a page. The query then has the column `row_limit`: its limit, or null. */
  readonly areMany?: boolean
}

/** A single branch. */
export const onlyBranch = (condition: SQL): readonly AccessBranch[] => [
  { select: (rows) => rows(condition), holds: condition },
]

/** A single branch for a few rows that are found by id. Planning it takes less time than one query per branch. */
export const branchOfFound = (branches: readonly AccessBranch[]): readonly AccessBranch[] => {
  const conditions = branches.flatMap(({ holds }) => holds ?? [])
  return conditions.length < branches.length
    ? branches
    : onlyBranch(sql`(${sql.join(conditions, sql` or `)})`)
}

/**
 * The union of all branches. `rows` orders and limits each branch. The first rows of the union are among the first rows of the
 * branches. A row that several branches return is in it several times.
 */
export const unionOfBranches = (
  branches: readonly AccessBranch[],
  rows: (branch: AccessBranch) => RowsOf,
  first: FirstRows | null = null,
): SQL => unionAll(branches.map((branch) => sql`(${branch.select(rows(branch), first)})`))

/**
 * The same without duplicates: `rows` adds the column `is_repeated`. They are removed after the limit, so that a branch never
 * skips more rows than a page has.
 */
export const distinctUnionOfBranches = (
  branches: readonly AccessBranch[],
  rows: (branch: AccessBranch) => RowsOf,
  first: FirstRows | null = null,
): SQL =>
  unionAll(
    branches.map((branch) => {
      const query = branch.select(rows(branch), first)
      return branch.isRepeated === undefined
        ? sql`(${query})`
        : sql`(select * from (${query}) item where not is_repeated)`
    }),
  )

/** Number of rows that are read first of each project. A constant, so that the planner knows that it is small. */
const ahead = sql.raw('3')

/** Factor by which the number of rows per project grows in each round. */
const growth = sql.raw('4')

/**
 * The first rows of all projects that `user` is a member of. `rows` builds the query for the row `membership`. Most projects
 * contribute few of them, so only a few rows of each project are read at first, and more only of projects that may contribute
 * more.
 */
export const rowsOfMemberships = (
  user: SQLWrapper,
  condition: SQL,
  rows: (options?: RowsOptions) => SQL,
  first: FirstRows | null,
): SQL => {
  const reached = (and: SQL, options?: RowsOptions): SQL => sql`
    select reached.* from memberships membership cross join lateral (${rows(options)}) reached
    where ${membership.user_id} = ${user} and ${condition} and ${and}`
  if (first === null) return reached(sql`true`)
  if (first.areMany === true) {
    const userMemberships = sql`select membership.* from memberships membership where ${membership.user_id} = ${user} and ${condition}`
    return rowsInRounds(userMemberships, rows, first)
  }
  return sql`
    with heads as materialized (
      ${reached(sql`true`, { limit: ahead })}
    ), continued as materialized (
      select project_id from (
        select project_id, row_number() over (order by ${first.order}) as ordinal from heads
      ) ordered
      group by project_id having count(*) = ${ahead} and max(ordinal) < ${first.count}
    )
    select * from heads where project_id not in (select project_id from continued)
    union all ${reached(sql`${membership.project_id} in (select project_id from continued)`)}`
}

/**
 * The same for many rows, of which reading all from each project would be too expensive. The first round reads about twice as
 * many rows as needed, the same number from each project. Further rounds read more from projects all of whose rows so far are
 * among the first ones. There are fewer such projects the more rows each has contributed, so a round reads at most `growth`
 * times as many rows as needed.
 */
const rowsInRounds = (
  chosenMemberships: SQL,
  rows: (options: RowsOptions) => SQL,
  { count, order }: FirstRows,
): SQL => {
  const reached = (limit: SQL): SQL => sql`cross join lateral (${rows({ limit })}) reached`
  const firstLimit = sql`(
    select least(${count}, greatest(${ahead}, 2 * ${count} / greatest(count(*), 1)))::int from chosen)`
  // In its recursive term, `rounds` is the last round only. Rows that are known twice have one ordinal.
  return sql`
    with recursive chosen as materialized (
      ${chosenMemberships}
    ), heads as materialized (
      select reached.* from chosen membership ${reached(firstLimit)}
    ), rounds as (
      select * from heads
      union all
      select reached.* from (
        select project_id, row_limit from (
          select project_id, row_limit, max(row_limit) over () as latest, dense_rank() over (order by ${order}) as ordinal
          from (select * from rounds union all select * from heads) known
        ) ordered
        where row_limit = latest
        group by project_id, row_limit having count(distinct ordinal) = row_limit and max(ordinal) < ${count}
      ) continued join chosen membership on ${membership.project_id} = continued.project_id
        ${reached(sql`least(${count}, ${growth} * continued.row_limit)`)}
    )
    select * from rounds
    where (project_id, row_limit) in (select project_id, max(row_limit) from rounds group by project_id)`
}
