/**
 * Whether a task would be due before it starts. Both are RFC 3339 instants, in milliseconds and UTC, as the request
 * validation leaves them, so they compare as text.
 */
export const isDueBeforeStart = (task: { start_at?: string | null; due_at?: string | null }): boolean =>
  task.start_at != null && task.due_at != null && task.due_at < task.start_at
