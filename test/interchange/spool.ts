import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { InterchangeRecord } from '../../src/interchange/records.ts'
import { createSpool, type PlacedTask } from '../../src/interchange/spool.ts'
import { taskRecord } from '../fixture/interchange.ts'

const task = (id: string, fields: Partial<PlacedTask> = {}): PlacedTask => ({
  ...taskRecord({ id, title: id }),
  position: 'a0',
  ...fields,
})

const spoolOf = async (...batches: readonly (readonly (PlacedTask | InterchangeRecord)[])[]) => {
  const spool = await createSpool(join(await mkdtemp(join(tmpdir(), 'taskwright-spool-')), 'made'))
  t.teardown(() => spool.remove())
  for (const batch of batches) await spool.add(batch as readonly PlacedTask[])
  await spool.arrange()
  return spool
}

t.test('parents come before their subtasks, each level in the manual order', async (t) => {
  const spool = await spoolOf(
    [task('child 2', { parent_id: 'parent', position: 'a2' }), task('last', { position: 'a3' })],
    [task('child 1', { parent_id: 'parent', position: 'a1' }), task('parent', { position: 'a1' })],
  )
  const tasks = await Array.fromAsync(spool.read('task'))
  t.strictSame(
    tasks.map(({ id, parent_id }) => [id, parent_id]),
    [
      ['parent', null],
      ['child 1', 'parent'],
      ['child 2', 'parent'],
      ['last', null],
    ],
  )
})

t.test(
  'tasks that were moved while they were read: none is lost, and none has itself above it',
  async (t) => {
    const spool = await spoolOf(
      [task('a', { parent_id: 'b' }), task('below', { parent_id: 'a' }), task('a', { title: 'twice' })],
      [task('b', { parent_id: 'a' })],
    )
    const tasks = await Array.fromAsync(spool.read('task'))
    t.strictSame(
      tasks.map(({ id, parent_id, title }) => [id, parent_id, title]),
      [
        ['a', null, 'a'],
        ['b', 'a', 'b'],
        ['below', 'a', 'below'],
      ],
    )
  },
)

t.test('records name only what is there', async (t) => {
  const spool = await spoolOf([
    task('one', {
      parent_id: 'hidden',
      project_id: 'hidden',
      section_id: 'hidden',
      next_task_id: 'hidden',
      tag_ids: ['there', 'hidden'],
    }),
    { type: 'tag', id: 'there', name: 'there', color: null, project_id: null },
    { type: 'relation', task_id: 'one', kind: 'blocks', other_task_id: 'hidden', created_at: null },
  ])
  t.match(await Array.fromAsync(spool.read('task')), [
    { parent_id: null, project_id: null, section_id: null, next_task_id: null, tag_ids: ['there'] },
  ])
  t.strictSame(await Array.fromAsync(spool.read('relation')), [])
})
