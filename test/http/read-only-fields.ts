import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { newId } from '../../src/db/shared/ids.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { type Call, startService } from '../fixture/service.ts'

/**
 * A PUT or PATCH of what a read returned. Read-only fields are dropped, whatever they say; the version is a condition; and anything else
 * that is no field of the request is refused.
 */

type Fields = Readonly<Record<string, unknown>>
type Problem = components['schemas']['Problem']

interface Lists {
  readonly changedBy: readonly OperationId[]
  readonly dropped: readonly string[]
  /** Columns that nobody may write, and fields of other resources. */
  readonly refused: readonly string[]
}

const names = (text: string): readonly string[] => text.trim().split(/\s+/)

/** By table. */
const resources: Readonly<Record<string, Lists>> = {
  tasks: {
    changedBy: ['replaceTask', 'updateTask'],
    dropped: names(`
      id revision created_at updated_at completed_at position is_blocked tags occurrence attachment_count
      comment_count subtask_count open_subtask_count owner assignee project attachments parent
      subtasks
    `),
    refused: names(`
      role side_changes series_id occurrence_number next_task_id deleted_at placed_at changed_in blocker_count recurrence_anchor search
      title_folded description_folded
    `),
  },
  comments: {
    changedBy: ['updateComment'],
    dropped: names('id task_id author_id author_name author mentions revision created_at edited_at'),
    refused: names('owner_id role updated_at deleted_at'),
  },
  projects: {
    changedBy: ['replaceProject', 'updateProject'],
    dropped: names('id revision created_at updated_at archived_at role member_count open_task_count'),
    refused: names('owner_id deleted_at purged_at name_folded filling_import_id visible_in'),
  },
  sections: {
    changedBy: ['updateSection'],
    dropped: names('id project_id position revision created_at updated_at'),
    refused: names('owner_id role'),
  },
  project_members: {
    changedBy: ['setProjectMember'],
    dropped: names('user_id user direct_role revision created_at'),
    refused: names('id owner_id project_id updated_at'),
  },
  project_teams: {
    changedBy: ['setProjectTeam'],
    dropped: names('team_id name revision created_at'),
    refused: names('id owner_id project_id updated_at'),
  },
  teams: {
    changedBy: ['updateTeam'],
    dropped: names('id role revision created_at updated_at'),
    refused: names('owner_id name_folded'),
  },
  team_members: {
    changedBy: ['setTeamMember'],
    dropped: names('user_id user revision created_at'),
    refused: names('id owner_id team_id source updated_at'),
  },
  notifications: {
    changedBy: ['updateNotification'],
    dropped: names(`
      id reason subject actor_id task_id comment_id reminder_id export_id import_id created_at read_at
      task
    `),
    refused: names('owner_id user_id role version event_id'),
  },
  notification_settings: {
    changedBy: ['updateNotificationSettings'],
    dropped: names('revision'),
    refused: names('user_id digest_due_at reminders_mailed_at'),
  },
  reminders: {
    changedBy: ['updateReminder'],
    dropped: names('id task_id remind_at is_pending fired_at late_seconds revision created_at updated_at'),
    refused: names('owner_id user_id role fires_at is_mail_due'),
  },
  webhooks: {
    changedBy: ['updateWebhook'],
    dropped: names(`
      id owner_id project_id revision created_at updated_at disabled_reason failing_since
      previous_secret_until
    `),
    refused: names('role secret previous_secret deleted_at due_at last_sequence lease_id'),
  },
  feeds: {
    changedBy: ['updateFeed'],
    dropped: names('id filter kind revision created_at updated_at'),
    refused: names('owner_id role hash revoked_at'),
  },
  imports: {
    changedBy: ['updateImport'],
    dropped: names(`
      id status failure file_name size file_expires_at progress poll_after_seconds preview
      result revision created_at updated_at ended_at
    `),
    refused: names('owner_id user_id role deleted_at storage_key sha256 authors attempts'),
  },
  users: {
    changedBy: ['replaceUser', 'updateUser'],
    dropped: names('id revision created_at updated_at'),
    refused: names(`
      owner_id password password_hash may_use_password attachment_bytes deleted_at
      sign_in_due_at email_verified_at
    `),
  },
}

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))

const bodyOf = ({ path, method }: Operation): Located | undefined =>
  lookUp(['paths', path, method.toLowerCase(), 'requestBody', 'content', 'application/json', 'schema'])

const readOnlyIn = (schema: Located | undefined): string[] =>
  Object.keys(schema?.node.properties ?? {}).filter(
    (name) => schema && member(schema, 'properties', name)?.node.readOnly === true,
  )

/** The resource as GET returns it, or an empty patch where there is no GET. */
const read = async ({ id, path }: Operation, request: Call): Promise<Fields> => {
  const get = operations.find((operation) => operation.path === path && operation.method === 'GET')
  const { body } = await (get === undefined
    ? service.call(id, { ...request, body: {} })
    : service.call(get.id, request))
  return body as Fields
}

/** A valid value that differs from the present one, or an empty one where the schema does not tell one. */
const another = (schema: Located | undefined, present: unknown): unknown => {
  if (schema === undefined) return present
  const { type, format, nullable, allOf } = schema.node
  if (nullable === true && present !== null) return null
  if (Array.isArray(allOf)) return another(member(schema, 'allOf', '0'), present)
  const values = Array.isArray(schema.node.enum) ? (schema.node.enum as unknown[]) : []
  if (values.length > 0) return values.find((value) => value !== present)
  if (format === 'uuid') return newId()
  if (format === 'date-time') return '2001-01-01T00:00:00.000Z'
  if (format === 'date') return '2001-01-01'
  if (type === 'integer') return Number(present) + 1
  if (type === 'boolean') return present !== true
  if (type === 'string') return 'zz'
  return type === 'array' ? [] : {}
}

const rowsOf = (table: string) =>
  service.deps.db.run(`select r::text as row from ${table} r order by row`, [])

const pointersOf = (body: unknown): string[] =>
  ((body as Problem).errors ?? []).map(({ pointer }) => pointer).toSorted()

for (const operation of operations.filter(({ method }) => method === 'PUT' || method === 'PATCH')) {
  const { id, path, method } = operation
  const schema = bodyOf(operation)
  const dropped = readOnlyIn(schema)
  const [table, lists] = Object.entries(resources).find(([, { changedBy }]) => changedBy.includes(id)) ?? []
  if (table === undefined || lists === undefined) {
    t.strictSame(dropped, [], `${id} has no read-only fields`)
    continue
  }

  t.test(`${id}: drops the read-only fields of what was read`, async (t) => {
    t.strictSame(dropped.toSorted(), lists.dropped.toSorted())
    const { body: change, ...request } = await requestTo(operation)
    const object = await read(operation, request)
    const before = await rowsOf(table)
    t.match(await service.call(id, { ...request, body: object }), { status: 200, body: object })
    const others = Object.fromEntries(
      dropped
        .filter((name) => name in object)
        .map((name) => [name, another(schema && member(schema, 'properties', name), object[name])]),
    )
    const same = await service.call(id, { ...request, body: { ...object, ...others } })
    t.equal(same.status, 200)
    t.strictSame(same.body, object)
    t.strictSame(await rowsOf(table), before, 'no row has changed')

    const version = 'version' in object ? Number(object.version) : null
    const edited = { ...object, ...others, ...(change as Fields) }
    if (version !== null) {
      const stale = await service.call(id, { ...request, body: { ...edited, version: version + 1 } })
      t.match(stale, { status: 412, body: { code: 'precondition_failed' } })
      t.strictSame(await rowsOf(table), before, 'no row has changed')
    }
    const { status, body } = await service.call(id, { ...request, body: edited })
    t.equal(status, 200)
    if (version !== null) t.match(body, { version: version + 1 })
  })

  t.test(`${id}: refuses what is no field of the request`, async (t) => {
    const { body: change, ...request } = await requestTo(operation)
    const object = await read(operation, request)
    const before = await rowsOf(table)
    const refused = Object.fromEntries(lists.refused.map((name) => [name, object[name] ?? newId()]))
    for (const body of [
      { ...object, ...refused },
      { ...(change as Fields), ...refused },
    ]) {
      const answer = await service.call(id, { ...request, body })
      t.match(answer, { status: 400, body: { code: 'invalid_request' } })
      t.strictSame(pointersOf(answer.body), lists.refused.map((name) => `/${name}`).toSorted())
    }
    t.strictSame(await rowsOf(table), before, 'no row has changed')
  })

  t.test(`${id}: the contract has all fields of the resource`, async (t) => {
    const returned = lookUp(['paths', path, method.toLowerCase(), 'responses', '200'])
    const fields = returned && member(returned, 'content', 'application/json', 'schema', 'properties')
    const accepted = Object.keys(schema?.node.properties ?? {})
    t.strictSame(
      Object.keys(fields?.node ?? {}).filter((name) => !accepted.includes(name)),
      [],
    )
  })
}

t.test('a POST has no read-only fields, so that it refuses all of them', async (t) => {
  for (const operation of operations.filter(({ method }) => method === 'POST'))
    t.strictSame(readOnlyIn(bodyOf(operation)), [], operation.id)
})

t.test('a version in the body and If-Match must both be current', async (t) => {
  const { owner, newTask } = await newWorld()
  const task = await newTask()
  const send = (etag: string, version: number) =>
    service.call('updateTask', {
      token: owner.token,
      params: { task_id: task.id },
      headers: { 'if-match': etag },
      body: { title: 'Changed', version },
    })
  t.equal((await send('"7"', task.version)).status, 412)
  t.equal((await send(`"${task.version}"`, task.version + 1)).status, 412)
  t.equal((await send('*', task.version)).status, 200)
})

t.test('the tags and expanded resources of a task are dropped', async (t) => {
  const { owner, newLinkedTag } = await newWorld()
  const { token } = owner
  const { task } = await newLinkedTag()
  const params = { task_id: task.id }
  const query = { expand: 'owner,assignee,attachments,parent,subtasks' }
  const { body: expanded } = await service.expect('getTask', 200, { token, params, query })
  const body = { ...expanded, title: 'Changed' }
  const changed = await service.expect('updateTask', 200, { token, params, body })
  t.match(changed.body, { title: 'Changed', tags: expanded.tags })
  const [tag] = expanded.tags
  for (const tags of [[], [{ ...tag, name: 'another' }]]) {
    const { body: same } = await service.call('updateTask', { token, params, body: { tags } })
    t.strictSame(same, changed.body)
  }
})
