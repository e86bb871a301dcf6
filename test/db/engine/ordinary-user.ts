import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openDatabase } from '../../../src/db/engine/client.ts'
import { createClient } from '../../../src/db/engine/connection.ts'
import { migrate } from '../../../src/db/engine/migrate.ts'
import { startService } from '../../fixture/service.ts'

const serverUrl = process.env.DATABASE_URL
const skip = serverUrl === undefined && 'the embedded database has one user only'

t.test('the user of the database needs no more than to own it', { skip }, async (t) => {
  const name = `test_${randomBytes(8).toString('hex')}`
  const sql = createClient({ kind: 'server', url: serverUrl ?? '' })
  await sql.unsafe(`create role ${name} login password '${name}'`)
  await sql.unsafe(`create database ${name} owner ${name}`)
  t.teardown(async () => {
    await sql.unsafe(`drop database ${name} with (force)`)
    await sql.unsafe(`drop role ${name}`)
    await sql.end()
  })
  const url = new URL(serverUrl ?? '')
  Object.assign(url, { username: name, password: name, pathname: name })
  const options = { kind: 'server', url: url.href } as const

  await migrate(options)

  const db = openDatabase(options)
  t.teardown(() => db.close())
  const service = await startService(t, { db })
  const { token } = await service.register('ada')
  const { body: project } = await service.expect('createProject', 201, { token, body: { name: 'Trip' } })
  const inProject = { token, params: { project_id: project.id } }
  const { body: task } = await service.expect('createTask', 201, {
    token,
    body: { title: 'Plan', project_id: project.id, tag_names: ['travel'] },
  })
  const ofTask = { token, params: { task_id: task.id } }
  await service.expect('createTask', 201, { token, body: { title: 'Book', parent_id: task.id } })

  await t.test('tags are replaced', async (t) => {
    const { body } = await service.expect('updateTask', 200, { ...ofTask, body: { tag_ids: [] } })
    t.match(body, { tags: [], version: task.version + 2 })
  })
  await t.test('subtasks are taken along', async (t) => {
    await service.expect('deleteTask', 204, ofTask)
    await service.expect('restoreTask', 200, ofTask)
    const { body } = await service.expect('getTask', 200, ofTask)
    t.match(body, { subtask_count: 1, open_subtask_count: 1 })
  })
  await t.test('projects move to the trash and back', async () => {
    await service.expect('deleteProject', 204, inProject)
    await service.expect('restoreProject', 200, inProject)
    await service.expect('getTask', 200, ofTask)
  })
})
