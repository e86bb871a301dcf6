/** Maximum depth of a tree of tasks. `parent_refusal` in routines.sql has the same limit. */
export const maxLevels = 8

/** Maximum number of subtasks that move with a task in one request. `have_too_many_subtasks` in routines.sql has the same limit. */
export const maxMovedSubtasks = 500
