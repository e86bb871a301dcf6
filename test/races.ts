import t from 'tap'
import type { OperationId } from '../src/contract/contract.ts'
import { createClient } from '../src/db/engine/connection.ts'
import { eventually } from './fixture/eventually.ts'
import { openTestDatabase } from './fixture/database.ts'
import { projectActions } from './fixture/projects.ts'
import { startService } from './fixture/service.ts'

/**
 * Writes that wait for a row while what they depend on changes. They answer as if they had come after the change. Only a server has
 * the second session that holds the row.
 */

const { db, options } = await openTestDatabase(t)
const skip = options.kind === 'embedded' && 'the embedded database has one session'
const service = await startService(t, { db })
const admin = await service.register('admin')
const manager = await service.register('manager')
const { createProject, setMember } = projectActions(service)

/** What happens to the project while a write of the manager waits, and the status of the write. */
const changes = {
  'the manager becomes a viewer': {
    sql: (project: string) =>
      `update project_members set role = 'viewer' where project_id = '${project}' and user_id = '${manager.id}'`,
    status: 403,
  },
  'the manager is removed': {
    sql: (project: string) =>
      `delete from project_members where project_id = '${project}' and user_id = '${manager.id}'`,
    status: 404,
  },
  'the project is moved to the trash': {
    sql: (project: string) => `update projects set deleted_at = now() where id = '${project}'`,
    status: 404,
  },
  'the project is changed': {
    sql: (project: string) => `update projects set version = version + 1 where id = '${project}'`,
    status: 412,
  },
  'the project is archived': {
    sql: (project: string) => `update projects set archived_at = now() where id = '${project}'`,
    status: 409,
  },
} as const

const writes: readonly (readonly [OperationId, object])[] = [
  ['updateProject', { body: { name: 'Changed' } }],
  ['replaceProject', { body: { name: 'Replaced', description: '' } }],
  ['archiveProject', {}],
  ['unarchiveProject', {}],
  ['deleteProject', {}],
]

for (const [operation, request] of writes)
  for (const [what, { sql, status }] of Object.entries(changes)) {
    const isRefused = status !== 409 || 'body' in request
    if (!isRefused) continue
    t.test(`${operation} waits while ${what}: ${status}`, { skip }, async (t) => {
      const project = await createProject(admin)
      await setMember(admin, project, manager, 'manager')
      const holder = createClient(options, { connection: { application_name: 'holder' } })
      t.teardown(() => holder.end())
      await holder.unsafe('begin')
      await holder.unsafe(`select from projects where id = '${project.id}' for update`)
      const waiting = service.call(operation, {
        ...request,
        token: manager.token,
        params: { project_id: project.id },
        headers: status === 412 ? { 'if-match': '"1"' } : {},
      })
      await eventually('the write waits', async () => {
        const [row] = await db.run(
          `select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          [],
        )
        return row?.waiting === 1
      })
      await holder.unsafe(sql(project.id))
      await holder.unsafe('commit')
      t.equal((await waiting).status, status)
    })
  }
