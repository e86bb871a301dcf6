import type { components } from '../../generated/openapi.ts'
import type { ColumnName } from './schema/columns.ts'

type Task = components['schemas']['Task']

/** The fields of a task that clients set. Other fields are derived, or have separate events. */
type RecordedField = Exclude<
  keyof Task,
  | 'id'
  | 'completed_at'
  | 'tags'
  | `${string}_count`
  | 'version'
  | 'created_at'
  | 'updated_at'
  | 'owner'
  | 'assignee'
  | 'project'
  | 'attachments'
  | 'parent'
  | 'subtasks'
>

const unchanged = (column: string): string => column
const asInstant = (column: string): string => `instant_text(${column})`

/** The value of each field in an event, in the format of the contract. */
const recordedFields = {
  title: unchanged,
  description: unchanged,
  status: unchanged,
  priority: unchanged,
  start_at: asInstant,
  start_on: unchanged,
  due_at: asInstant,
  due_on: unchanged,
  owner_id: unchanged,
  assignee_id: unchanged,
  project_id: unchanged,
  section_id: unchanged,
  parent_id: unchanged,
  position: unchanged,
} satisfies Readonly<Record<RecordedField & ColumnName<'tasks'>, (column: string) => string>>

/** The function and the triggers for routines.sql that record the events of tasks themselves. */
export const eventRoutines = (): string => {
  const fields = Object.entries(recordedFields)
  const rowOf = (row: string): string =>
    `(${[...fields.map(([name]) => `${row}.${name}`), `${row}.deleted_at`].join(', ')})`
  const added = fields.map(([name, write]) => `'${name}', ${write(`NEW.${name}`)}`)
  const changed = fields.map(
    ([name, write]) => `
  IF OLD.${name} IS DISTINCT FROM NEW.${name} THEN
    old_values := old_values || jsonb_build_object('${name}', ${write(`OLD.${name}`)});
    new_values := new_values || jsonb_build_object('${name}', ${write(`NEW.${name}`)});
  END IF;`,
  )
  return `
-- Record the fields of a task that clients set, before and after each change.
CREATE OR REPLACE FUNCTION record_added_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM record_event('task.created', NEW.id, NEW.project_id, NEW.owner_id, NEW.assignee_id, NULL, '{}', jsonb_strip_nulls(jsonb_build_object(
    ${added.join(',\n    ')})));
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION record_changed_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  old_values jsonb := '{}';
  new_values jsonb := '{}';
BEGIN${changed.join('')}
  PERFORM record_event(
    CASE WHEN (OLD.deleted_at IS NULL) = (NEW.deleted_at IS NULL) THEN 'task.updated'
      WHEN NEW.deleted_at IS NULL THEN 'task.restored' ELSE 'task.deleted' END,
    NEW.id, NEW.project_id, NEW.owner_id, NEW.assignee_id, NULL, old_values, new_values);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tasks_added_recorded AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION record_added_task();

CREATE OR REPLACE TRIGGER tasks_changed_recorded AFTER UPDATE ON tasks FOR EACH ROW
  WHEN (${rowOf('OLD')} IS DISTINCT FROM ${rowOf('NEW')})
  EXECUTE FUNCTION record_changed_task();
`
}
