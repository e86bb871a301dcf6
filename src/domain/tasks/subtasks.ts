/** Maximum depth of a tree of tasks. */
export const maxLevels = 8

/** Maximum number of subtasks that move with a task in one request. `lock_trees` in routines.sql reads one more. */
export const maxMovedSubtasks = 500
