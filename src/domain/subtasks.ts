/** Levels of a tree of tasks; `parent_refusal` in routines.sql has the same. */
export const maxLevels = 8

/** Subtasks that one request takes along; `have_many_subtasks` in routines.sql has the same. */
export const maxSubtasksTaken = 500
