import t from 'tap'
import { startService } from '../../fixture/service.ts'

/** The task quota of users. */

const quota = 6
const service = await startService(t, { config: { taskQuota: quota } })
await service.register('admin')

const create = (token: string, status: 201 | 413, headers: Record<string, string> = {}) =>
  service.call('createTask', { token, headers, body: { title: 'One' } }).then((reply) => {
    t.equal(reply.status, status)
    return reply.body as { id: string; code: string }
  })

t.test('413 above the quota; replays still get their first response', async (t) => {
  const { token } = await service.register('ada')
  const headers = { 'idempotency-key': 'first' }
  const first = await create(token, 201, headers)
  for (let count = 1; count < quota; count += 1) await create(token, 201)
  const { body } = await service.expect('createTask', 413, { token, body: { title: 'One more' } })
  t.match(body, { code: 'quota_exceeded', resource: 'tasks', quota, used: quota, size: 1 })
  t.equal((await create(token, 201, headers)).id, first.id)

  await t.test('tasks in the trash count, permanently deleted ones do not', async () => {
    await service.expect('deleteTask', 204, { token, params: { task_id: first.id } })
    await create(token, 413)
    await service.expect('deleteTrashedTask', 204, { token, params: { task_id: first.id } })
    for (;;) {
      const { status } = await service.call('createTask', { token, body: { title: 'In its place' } })
      if (status === 201) break
    }
  })
})

t.test('413 for a whole batch above the quota', async (t) => {
  const { token } = await service.register('bob')
  const tasks = (count: number) => Array.from({ length: count }, () => ({ title: 'One of many' }))
  const { body } = await service.expect('batchTasks', 413, { token, body: { create: tasks(quota + 1) } })
  t.match(body, { code: 'quota_exceeded', resource: 'tasks', quota, used: 0, size: quota + 1 })
  await service.expect('batchTasks', 200, { token, body: { create: tasks(quota) } })
  await service.expect('batchTasks', 413, { token, body: { create: tasks(1) } })
})

t.test('a quota can exceed 32 bits', async (t) => {
  const unbounded = await startService(t, { config: { taskQuota: 2 ** 32 } })
  const { token } = await unbounded.register('ada')
  await unbounded.expect('createTask', 201, { token, body: { title: 'One' } })
})

t.test('413 for transfers above half of the quota', async (t) => {
  const [giver, taker] = [await service.register('giver'), await service.register('taker')]
  const made: string[] = []
  for (let count = 0; count < quota; count += 1) made.push((await create(giver.token, 201)).id)
  const [one = '', two = '', three = '', four = ''] = made
  const transfer = { owner_id: taker.id }
  const { body: kept } = await service.expect('getTask', 200, {
    token: giver.token,
    params: { task_id: one },
  })
  await service.expect('updateTask', 200, {
    token: giver.token,
    params: { task_id: one },
    body: { ...transfer, assignee_id: giver.id },
  })
  await service.expect('batchTasks', 200, {
    token: giver.token,
    body: { update: [two, three].map((task_id) => ({ task_id, patch: transfer })) },
  })
  const fourthTaskRequest = { token: giver.token, params: { task_id: four } }
  const refused = await service.expect('updateTask', 413, { ...fourthTaskRequest, body: transfer })
  t.match(refused.body, { code: 'quota_exceeded', quota: quota / 2, used: quota / 2, size: 1 })
  const { title, description, status, priority } = kept
  const whole = { title, description, status, priority }
  await service.expect('replaceTask', 413, { ...fourthTaskRequest, body: { ...whole, ...transfer } })
  await service.expect('batchTasks', 413, {
    token: giver.token,
    body: { update: [{ task_id: four, patch: transfer }] },
  })
  const firstTaskRequest = { token: giver.token, params: { task_id: one } }
  await service.expect('replaceTask', 200, { ...firstTaskRequest, body: { ...whole, ...transfer } })
  for (let count = 0; count < quota / 2; count += 1) await create(taker.token, 201)
  await create(taker.token, 413)
})

t.test('subtasks that get another owner with their task count as well', async (t) => {
  const [giver, taker] = [await service.register('parent'), await service.register('adopter')]
  const newTree = async (fields: object) => {
    const create = (body: object) =>
      service.expect('createTask', 201, { token: giver.token, body: { title: 'Tree', ...body } })
    const { id } = (await create(fields)).body
    for (let count = 0; count < quota / 2; count += 1) await create({ parent_id: id })
    return { token: giver.token, params: { task_id: id } }
  }
  const exceeds = (used: number, size: number) => ({
    status: 413,
    body: { code: 'quota_exceeded', quota: quota / 2, used, size },
  })

  const personal = await newTree({})
  const transfer = { owner_id: taker.id }
  t.match(await service.call('updateTask', { ...personal, body: transfer }), exceeds(0, 4))
  const update = [{ ...personal.params, patch: transfer }]
  t.match(await service.call('batchTasks', { token: giver.token, body: { update } }), exceeds(0, 4))
  await service.expect('deleteTask', 204, personal)
  await service.expect('deleteTrashedTask', 204, personal)

  const { token } = giver
  const { body: project } = await service.expect('createProject', 201, { token, body: { name: 'Shared' } })
  const inProject = await newTree({ project_id: project.id })
  await service.expect('updateTask', 200, { ...inProject, body: transfer })
  const out = { project_id: null }
  t.match(await service.call('updateTask', { ...inProject, body: out }), exceeds(1, 3))
  t.match(await service.call('moveTask', { ...inProject, body: out }), exceeds(1, 3))
  const { body: kept } = await service.expect('getTask', 200, inProject)
  t.equal(kept.project_id, project.id)
})
