import t from 'tap'
import type { Scope } from '../src/domain/shared/scopes.ts'
import { operations, prepareOperations, rows } from './fixture/operations.ts'
import { startService } from './fixture/service.ts'

/**
 * Every operation that can show a task, a comment, a file or a project, called by an administrator who has no other relation to
 * it: the read is in the audit log.
 */

const service = await startService(t)
const admin = await service.register('admin')
const { token } = admin
const { newWorld, requestTo } = await prepareOperations(service, admin)

type ResourceOf<S extends string> = S extends `${infer Resource}:${string}` ? Resource : never

/** The resources of scopes that show no such content, unless the path names a task. */
const others = new Set<string>([
  'users',
  'notifications',
  'webhooks',
  'feeds',
  'tags',
] satisfies ResourceOf<Scope>[])

const concerned = operations.filter(
  ({ scope, path }) =>
    path.includes('{task_id}') ||
    (scope !== 'none' &&
      scope !== 'session' &&
      [scope].flat().some((one) => !others.has(one.split(':')[0] ?? ''))),
)

const eventsOf = async (requestId: string | null) =>
  (await service.expect('listAuditEvents', 200, { token, query: { limit: 50 } })).body.items.filter(
    ({ request_id }) => request_id === requestId,
  )

for (const operation of concerned) {
  const { id } = operation
  const { unaudited } = rows[id]
  t.test(id, async (t) => {
    const world = await newWorld()
    const { status, headers, body } = await service.call(
      id,
      await requestTo(operation, { world, caller: admin }),
    )
    const events = await eventsOf(headers.get('x-request-id'))
    const hasContent = body !== null
    if (unaudited !== undefined) {
      t.strictSame(events, [], unaudited)
      t.ok(hasContent || status >= 300, 'the reason is needed')
      return
    }
    t.ok(status < 300, `${status}`)
    if (!hasContent) {
      t.strictSame(events, [])
      return
    }
    const [event, ...more] = events
    t.match(event, { action: /^(task|comment|attachment|project)\.read_by_admin$/, actor_id: admin.id })
    t.equal(event?.user_id, event?.action === 'project.read_by_admin' ? null : world.owner.id)
    t.strictSame(more, [], 'exactly one event')
  })
}
