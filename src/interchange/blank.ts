import { noIntegrationFields } from '../domain/shared/integration-fields.ts'
import { noSeries } from '../domain/tasks/series.ts'
import type { ProjectRecord, TagRecord, TaskRecord } from './records.ts'

/** Records without what most formats do not have. */

export const blankTask: Omit<TaskRecord, 'id' | 'title'> = {
  type: 'task',
  description: '',
  status: 'todo',
  priority: 'none',
  start_at: null,
  start_on: null,
  due_at: null,
  due_on: null,
  completed_at: null,
  owner_id: null,
  assignee_id: null,
  project_id: null,
  section_id: null,
  parent_id: null,
  tag_ids: [],
  reminders: [],
  ...noIntegrationFields,
  version: 1,
  created_at: null,
  updated_at: null,
  ...noSeries,
}

export const blankProject: Omit<ProjectRecord, 'id' | 'name'> = {
  type: 'project',
  description: '',
  color: null,
  archived_at: null,
  created_at: null,
  ...noIntegrationFields,
}

/** A tag that is known by its name alone. */
export const tagNamed = (name: string): TagRecord => ({
  type: 'tag',
  id: name,
  name,
  color: null,
  project_id: null,
})

/** A date as the field that it belongs to: a time, or a day. */
export const dueFields = (date: string | null) =>
  date?.includes('T') ? { due_at: date, due_on: null } : { due_at: null, due_on: date }

export const startFields = (date: string | null) =>
  date?.includes('T') ? { start_at: date, start_on: null } : { start_at: null, start_on: date }
