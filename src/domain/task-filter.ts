/** The filter parameters of a list of tasks, as the contract names them. */
export interface TaskFilterQuery {
  readonly status?: readonly string[]
  readonly priority?: readonly string[]
  readonly assignee_id?: readonly string[]
  readonly tag_id?: readonly string[]
  readonly q?: string
}

/** Which tasks a list holds: those with one of the values in each filter that is there. */
export interface TaskFilter {
  /** Only tasks that this user owns or is assigned. */
  readonly userId?: string
  readonly status?: readonly string[]
  readonly priority?: readonly string[]
  readonly assigneeId?: readonly string[]
  readonly tagId?: readonly string[]
  /** A part of the title. */
  readonly title?: string
}

/** The filter that a query asks for; `userId` narrows it to one user's tasks. */
export const taskFilter = (
  { status, priority, assignee_id, tag_id, q }: TaskFilterQuery,
  userId?: string,
): TaskFilter => ({
  ...(userId !== undefined && { userId }),
  ...(status && { status }),
  ...(priority && { priority }),
  ...(assignee_id && { assigneeId: assignee_id }),
  ...(tag_id && { tagId: tag_id }),
  ...(q !== undefined && { title: q }),
})
