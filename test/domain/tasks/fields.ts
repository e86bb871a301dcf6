import t from 'tap'
import {
  type Completion,
  completionWith,
  dateConflictsOf,
  patched,
  type TaskFields,
} from '../../../src/domain/tasks/fields.ts'

import { noIntegrationFields } from '../../../src/domain/shared/integration-fields.ts'
import { noSeries } from '../../../src/domain/tasks/series.ts'

/** What a change of a task does to its other fields, and which dates contradict each other. */

const task: TaskFields = {
  title: 'A task',
  description: '',
  status: 'todo',
  priority: 'none',
  start_at: null,
  start_on: null,
  due_at: null,
  due_on: null,
  owner_id: 'ada',
  assignee_id: null,
  project_id: 'one',
  section_id: 'first',
  parent_id: 'parent',
  position: 'a5',
  ...noSeries,
  ...noIntegrationFields,
}
const personal = { ...task, project_id: null, section_id: null }

t.test('a task that leaves its place loses what belongs to the place', async (t) => {
  const cases: readonly (readonly [
    string,
    TaskFields,
    Parameters<typeof patched>[1],
    Partial<TaskFields>,
  ])[] = [
    ['another title', task, { title: 'New' }, { section_id: 'first', parent_id: 'parent', position: 'a5' }],
    ['another project', task, { project_id: 'two' }, { section_id: null, parent_id: null }],
    ['no project', task, { project_id: null }, { section_id: null, parent_id: null }],
    [
      'the same project',
      task,
      { project_id: 'one' },
      { section_id: 'first', parent_id: 'parent', position: 'a5' },
    ],
    ['another owner in a project', task, { owner_id: 'eve' }, { section_id: 'first', parent_id: 'parent' }],
    ['another owner of a personal task', personal, { owner_id: 'eve' }, { parent_id: null, position: 'a5' }],
    [
      'a project with a section and a parent',
      task,
      { project_id: 'two', section_id: 'second', parent_id: 'other' },
      { section_id: 'second', parent_id: 'other' },
    ],
    [
      'a day instead of a time',
      { ...task, due_at: '2026-01-01T00:00:00.000Z' },
      { due_on: '2026-01-02' },
      { due_at: null },
    ],
  ]
  for (const [what, before, patch, expected] of cases) t.match(patched(before, patch), expected, what)
  t.not(patched(task, { project_id: 'two' }).position, 'a5', 'it goes to the end of another project')
})

t.test('a task that was reopened is completed anew', async (t) => {
  const cases: readonly (readonly [string, Completion, Completion])[] = [
    ['todo', 'never', 'never'],
    ['done', 'never', 'now'],
    ['done', 'before', 'before'],
    ['done', 'now', 'now'],
    ['cancelled', 'before', 'never'],
    ['in_progress', 'now', 'never'],
  ]
  for (const [status, present, expected] of cases)
    t.equal(completionWith(status, present), expected, `${present}, ${status}`)
})

t.test(
  'a task is not due before it starts, by days in the time zone of its owner if one date is a day',
  async (t) => {
    const none = { start_at: null, start_on: null, due_at: null, due_on: null }
    const cases: readonly (readonly [
      Partial<typeof none> | Record<string, string>,
      string,
      readonly string[],
    ])[] = [
      [{}, 'UTC', []],
      [{ due_on: '2026-01-01' }, 'UTC', []],
      [{ start_on: '2026-01-01', due_on: '2026-01-01' }, 'UTC', []],
      [{ start_on: '2026-01-02', due_on: '2026-01-01' }, 'UTC', ['due_on_before_start']],
      [
        { start_at: '2026-01-01T12:00:00.000Z', due_at: '2026-01-01T11:59:59.999Z' },
        'UTC',
        ['due_at_before_start'],
      ],
      [{ start_at: '2026-01-01T12:00:00.000Z', due_on: '2026-01-01' }, 'UTC', []],
      [
        { start_at: '2026-01-01T23:00:00.000Z', due_on: '2026-01-01' },
        'Europe/Paris',
        ['due_on_before_start'],
      ],
      [{ start_on: '2026-01-01', due_at: '2026-01-01T03:00:00.000Z' }, 'UTC', []],
      [
        { start_on: '2026-01-01', due_at: '2026-01-01T03:00:00.000Z' },
        'America/New_York',
        ['due_at_before_start'],
      ],
    ]
    for (const [dates, zone, expected] of cases)
      t.strictSame(dateConflictsOf({ ...none, ...dates }, zone), expected, `${JSON.stringify(dates)} ${zone}`)
  },
)
