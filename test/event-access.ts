import t from 'tap'
import type { components } from '../generated/openapi.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import { openStream, type StreamClient } from './fixture/event-stream.ts'
import { eventually } from './fixture/eventually.ts'
import { finishedExport } from './fixture/exports.ts'
import { uploadedImport } from './fixture/imports.ts'
import { projectActions } from './fixture/projects.ts'
import { type Account, startService } from './fixture/service.ts'
import { type Task, taskActions } from './fixture/tasks.ts'
import { readerHasStarted, startReceiver } from './fixture/webhooks.ts'

/**
 * Access to every type of event, for every relation to a project, through every channel: the list of events, the history of a
 * task, the stream and webhooks. The tables state the rules independently of the service.
 */

type Event = components['schemas']['Event']
type EventType = components['schemas']['EventType']

const members = ['viewer', 'commenter', 'editor', 'inTeam', 'manager'] as const
/** `former` was an editor and has left. `assignee` is assigned one task and is not a member. */
const personas = [...members, 'assignee', 'former', 'other', 'admin'] as const
type Persona = (typeof personas)[number]
const isMember = (persona: Persona): boolean => members.some((member) => member === persona)

/** What decides who sees each type of event. A relation is visible to those who see both of its tasks, a reminder, an export and an import to their users alone. */
const access: Readonly<Record<EventType, 'task' | 'relation' | 'project' | 'reminder' | 'job'>> = {
  'task.created': 'task',
  'task.updated': 'task',
  'task.deleted': 'task',
  'task.restored': 'task',
  'task.recurred': 'task',
  'task.imported': 'task',
  'task.reminder': 'reminder',
  'task.reminder_limit': 'reminder',
  'task.tagged': 'task',
  'task.untagged': 'task',
  'task.related': 'relation',
  'task.unrelated': 'relation',
  'comment.created': 'task',
  'comment.updated': 'task',
  'comment.deleted': 'task',
  'attachment.created': 'task',
  'attachment.deleted': 'task',
  'project.created': 'project',
  'project.updated': 'project',
  'project.archived': 'project',
  'project.unarchived': 'project',
  'project.deleted': 'project',
  'project.restored': 'project',
  'member.added': 'project',
  'member.changed': 'project',
  'member.removed': 'project',
  'export.finished': 'job',
  'import.finished': 'job',
}

const service = await startService(t, {
  jobTimes: { ...jobTimes, events: 20 },
  config: { webhookAllow: ['127.0.0.1'] },
})
const people: Readonly<Record<Persona, Account>> = {
  admin: await service.register('admin'),
  viewer: await service.register('viewer'),
  commenter: await service.register('commenter'),
  editor: await service.register('editor'),
  inTeam: await service.register('in-team'),
  manager: await service.register('manager'),
  assignee: await service.register('assignee'),
  former: await service.register('former'),
  other: await service.register('other'),
}
const guest = await service.register('guest')
const { db } = service.deps
const { manager } = people
const { token } = manager
const { addComment, attachFile, createTag, createTask } = taskActions(service)
const { createProject, setMember, removeMember, createTeam, setTeamMember, setProjectTeam } =
  projectActions(service)

const project = await createProject(manager, 'The project')
const projectPath = { project_id: project.id }
for (const role of ['viewer', 'commenter', 'editor'] as const)
  await setMember(manager, project, people[role], role)
await setMember(manager, project, people.former, 'editor')
const team = await createTeam(manager)
await setTeamMember(manager, team, people.inTeam, 'member')
await setProjectTeam(manager, project, team, 'editor')

await removeMember(manager, project, people.former)

/** The webhooks: one of each persona, and two of the project, by the manager and by an administrator. */
const subscribers = [...personas, 'project', 'projectOfAdmin'] as const
type Subscriber = (typeof subscribers)[number]

const receiver = await startReceiver(t)
await readerHasStarted(db)
const webhooks = new Map<Subscriber, string>()
for (const name of subscribers) {
  const owner = name === 'project' ? manager : name === 'projectOfAdmin' ? people.admin : people[name]
  const body = { url: `${receiver.url}?of=${name}`, event_types: ['*'] }
  const fields = name === 'project' || name === 'projectOfAdmin' ? projectPath : {}
  const created = await service.expect('createWebhook', 201, {
    token: owner.token,
    body: { ...body, ...fields },
  })
  webhooks.set(name, created.body.id)
}
const receivedBy = (name: Subscriber): readonly Event[] =>
  receiver.received.filter(({ url }) => url.endsWith(`=${name}`)).map(({ message }) => message.data)

const streams = new Map<Persona, StreamClient>()
const streamed = new Map<Persona, Event[]>()
for (const persona of personas) {
  const query = persona === 'admin' ? '?all=true' : ''
  streams.set(persona, await openStream(t, service, { token: people[persona].token, query }))
  streamed.set(persona, [])
}

/** Creates a task of the account, and reads its stream until that task arrives. Then waits for the webhook. */
const takeAll = async (persona: Persona): Promise<void> => {
  const { id } = await createTask(people[persona], { title: 'The last event' })
  const seen = streamed.get(persona) ?? []
  while (!seen.some(({ task_id }) => task_id === id)) {
    const sent = await streams.get(persona)?.next()
    if (sent !== undefined) seen.push(sent.data)
  }
  await eventually(`the webhook of ${persona} receives ${id}`, async () =>
    receivedBy(persona).some(({ task_id }) => task_id === id),
  )
}

/** Waits until all events are delivered. All streams share one reader, and so do all webhooks. */
const settle = async (): Promise<void> => {
  await takeAll('manager')
  await eventually('no delivery is pending', async () => {
    const [row] = await db.run(
      `select count(*)::int as n from webhook_deliveries where status = 'pending'`,
      [],
    )
    return row?.n === 0
  })
}

const changeTask = ({ id }: Pick<Task, 'id'>, body: object) =>
  service.expect('updateTask', 200, { token, params: { task_id: id }, body })

const changeEverything = async (task: Pick<Task, 'id'>): Promise<void> => {
  const taskPath = { task_id: task.id }
  const recurrence = { due_on: '2090-01-06', recurrence: { rule: 'FREQ=DAILY' } }
  await changeTask(task, { description: 'Changed', ...recurrence, status: 'done' })
  const comment_id = await addComment(manager, task.id, 'Words to be deleted')
  const commentRequest = { token, params: { comment_id } }
  await service.expect('updateComment', 200, {
    ...commentRequest,
    body: { body: 'Other words to be deleted' },
  })
  await service.expect('deleteComment', 204, commentRequest)
  const attach_id = await attachFile(manager, task.id)
  await service.expect('deleteAttachment', 204, { token, params: { attach_id } })
  const tagged = { token, params: { ...taskPath, tag_id: tag.id } }
  await service.expect('addTaskTag', 204, tagged)
  await service.expect('removeTaskTag', 204, tagged)
}

const relate = async ({ id: task_id }: Task, { id: other_task_id }: Task): Promise<void> => {
  const relation = { token, params: { task_id, kind: 'blocks', other_task_id } }
  await service.expect('addTaskRelation', 204, relation)
  await service.expect('removeTaskRelation', 204, relation)
}

const tag = await createTag(manager, 'A tag')
const assigned = await createTask(manager, {
  ...projectPath,
  title: 'Assigned',
  assignee_id: people.assignee.id,
})
const unassigned = await createTask(manager, { ...projectPath, title: 'Unassigned' })
const hidden = await createTask(manager, { title: 'Hidden' })
const names = new Map<string | null, string>([
  [assigned.id, 'assigned'],
  [unassigned.id, 'unassigned'],
  [hidden.id, 'hidden'],
])

/** All who see the assigned task and have a reminder of it; the administrator sees it by their role alone. */
const reminded = ['viewer', 'manager', 'assignee', 'admin'] as const
for (const persona of reminded) {
  const body = { at: new Date(Date.now() + 500).toISOString() }
  await service.expect('createReminder', 201, {
    token: people[persona].token,
    params: { task_id: assigned.id },
    body,
  })
}
await eventually('all reminders have fired', async () => {
  const [row] = await db.run('select count(*)::int as n from reminders where fired_at is not null', [])
  return row?.n === reminded.length
})
for (const task of [assigned, unassigned, hidden]) await changeEverything(task)
for (const { id } of [assigned, unassigned, hidden])
  await db.run(
    `select record_event('task.imported', id, project_id, owner_id, assignee_id, null, '{}', '{}') from tasks where id = $1`,
    [id],
  )
const next = await createTask(manager, { title: 'The next occurrence' })
await db.run(
  `select record_event_for(owner_id, 'task.reminder_limit', id, null, owner_id, null, $2, '{}', '{}') from tasks where id = $1`,
  [next.id, hidden.id],
)
await finishedExport(service, manager)
const { id: import_id } = await uploadedImport(service, manager)
await service.expect('cancelImport', 200, { token, params: { import_id } })
await relate(assigned, unassigned)
await relate(assigned, hidden)
await settle()
for (const task of [assigned, unassigned]) {
  const request = { token, params: { task_id: task.id } }
  await service.expect('deleteTask', 204, request)
  await settle()
  await service.expect('restoreTask', 200, request)
}
await service.expect('updateProject', 200, { token, params: projectPath, body: { name: 'Renamed' } })
await setMember(manager, project, guest, 'viewer')
await setMember(manager, project, guest, 'editor')
await removeMember(manager, project, guest)
const request = { token, params: projectPath }
await service.expect('archiveProject', 200, request)
await service.expect('unarchiveProject', 200, request)
await settle()
await service.expect('deleteProject', 204, request)
await settle()
await service.expect('restoreProject', 200, request)
for (const persona of personas) await takeAll(persona)

/** The type and the name of each event on the project, its tasks or the hidden task, in alphabetical order. */
const namesOf = (events: readonly Event[]): readonly string[] =>
  events
    .filter(
      ({ task_id, project_id }) => names.has(task_id) || (task_id === null && project_id === project.id),
    )
    // Excludes events from before the streams and webhooks were set up.
    .filter(({ type, created_at }) => access[type] !== 'project' || created_at > tag.created_at)
    .map(({ type, task_id }) => `${type} ${names.get(task_id) ?? 'project'}`)
    .toSorted()

const typesOf = (wanted: (typeof access)[EventType]): readonly string[] =>
  Object.entries(access).flatMap(([type, rule]) => (rule === wanted ? [type] : []))
const taskEvents = (name: string): readonly string[] => typesOf('task').map((type) => `${type} ${name}`)
const relationEvents = (name: string): readonly string[] =>
  typesOf('relation').map((type) => `${type} ${name}`)

/** Without the creation, which was before the streams and webhooks were set up. */
const projectEvents = typesOf('project')
  .filter((type) => type !== 'project.created')
  .map((type) => `${type} project`)
/** Without deletion and restoration, which the hidden task did not have. */
const hiddenTaskEvents = taskEvents('hidden').filter((name) => !/^task\.(deleted|restored)/.test(name))
const toMembers = [
  ...taskEvents('assigned'),
  ...taskEvents('unassigned'),
  ...relationEvents('assigned'),
  ...relationEvents('unassigned'),
  ...projectEvents,
]
const toManager = [
  ...toMembers,
  ...hiddenTaskEvents,
  ...relationEvents('assigned'),
  ...relationEvents('hidden'),
]

/** The events that a persona can list without `all=true`. */
const listedFor = (persona: Persona): readonly string[] => {
  if (persona === 'manager') return toManager
  if (persona === 'assignee') return taskEvents('assigned')
  return isMember(persona) ? toMembers : []
}
/** The same, with `all=true` for the administrator. */
const seenBy = (persona: Persona): readonly string[] => (persona === 'admin' ? toManager : listedFor(persona))
/** The same on streams and webhooks: with the person's reminders, and without the tasks of imports. */
const sentOf = (events: readonly string[], persona?: Persona): readonly string[] => {
  const isReminded = persona !== 'admin' && reminded.some((one) => one === persona)
  const sent = events.filter((event) => !event.startsWith('task.imported'))
  return [...sent, ...(isReminded ? ['task.reminder assigned'] : [])].toSorted()
}

/** All events that an account can read; for the administrator, with `all=true`. */
const eventsOf = async (persona: Persona): Promise<readonly Event[]> => {
  const events: Event[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const all = persona === 'admin' ? { all: true } : {}
    const query = { limit: 200, ...all, ...(cursor !== undefined && { cursor }) }
    const { body } = await service.expect('listEvents', 200, { token: people[persona].token, query })
    events.push(...body.items)
    cursor = body.next_cursor
  }
  return events
}

/** The history of a task, as the account sees it; null for 404. */
const historyOf = async (persona: Persona, { id }: Task): Promise<readonly Event[] | null> => {
  const own = { token: people[persona].token, params: { task_id: id }, query: { limit: 200 } }
  const { status, body } = await service.call('listTaskEvents', own)
  if (status !== 200) t.equal(status, 404)
  return status === 200 ? (body as { readonly items: readonly Event[] }).items : null
}

t.test('everybody gets exactly the events that they may see', async (t) => {
  for (const persona of personas) {
    await t.test(persona, async (t) => {
      const expected = seenBy(persona).toSorted()
      const listed = await eventsOf(persona)
      const sent = streamed.get(persona) ?? []
      t.strictSame(namesOf(listed), expected, 'list')
      t.strictSame(namesOf(sent), sentOf(expected, persona), 'stream')
      t.strictSame(namesOf(receivedBy(persona)), sentOf(listedFor(persona), persona), 'webhook')

      const histories: Event[] = []
      for (const task of [assigned, unassigned, hidden]) {
        const name = names.get(task.id) ?? ''
        const expectedEvents = expected.filter((event) => event.endsWith(` ${name}`))
        const isOfProject = task !== hidden && (isMember(persona) || persona === 'admin')
        const history = await historyOf(persona, task)
        histories.push(...(history ?? []))
        const wanted = [...expectedEvents, ...(isOfProject ? projectEvents : [])].toSorted()
        if (expectedEvents.length === 0) t.equal(history, null, `history of the task ${name}`)
        else t.strictSame(namesOf(history ?? []), wanted, `history of the task ${name}`)
      }

      if (seenBy(persona) === toManager) return
      const everything = JSON.stringify([listed, sent, histories, receivedBy(persona)])
      for (const trace of [hidden.id, hidden.title])
        t.notMatch(everything, trace, 'no trace of the hidden task')
    })
  }

  t.test('the webhooks of the project', async (t) => {
    // Nothing is sent while their project is in the trash.
    const wholeProjectEvents = sentOf([...toMembers, ...relationEvents('assigned')]).filter(
      (name) => name !== 'project.deleted project',
    )
    for (const name of ['project', 'projectOfAdmin'] as const)
      t.strictSame(namesOf(receivedBy(name)), wholeProjectEvents, name)
  })

  t.test('deleted comments have no text', async (t) => {
    t.notMatch(JSON.stringify(await eventsOf('admin')), 'ords to be deleted')
  })
})

/** The type of the subject, and the field that has its id, by what the type of an event names before the dot. */
const subjects: Readonly<
  Record<string, readonly [Event['subject']['type'], 'task_id' | 'project_id' | 'resource_id']>
> = {
  task: ['task', 'task_id'],
  comment: ['comment', 'resource_id'],
  attachment: ['attachment', 'resource_id'],
  project: ['project', 'project_id'],
  member: ['project', 'project_id'],
  export: ['export', 'resource_id'],
  import: ['import', 'resource_id'],
}

t.test('the subject of every type of event is the resource that the type names', async (t) => {
  const events = [...(await eventsOf('admin')), ...(streamed.get('manager') ?? []), ...receivedBy('manager')]
  t.strictSame([...new Set(events.map(({ type }) => type))].toSorted(), Object.keys(access).toSorted())
  for (const event of events) {
    const [type, field] = subjects[event.type.split('.')[0] ?? ''] ?? []
    t.strictSame(event.subject, { type, id: field && (event[field] ?? 'missing') }, event.type)
  }
})

/** The deliveries of a webhook with their states, oldest first, once none is pending. */
const deliveriesOf = async (name: Subscriber) => {
  const request = {
    token: people.admin.token,
    params: { webhook_id: webhooks.get(name) ?? '' },
    query: { limit: 200 },
  }
  return (await service.expect('listWebhookDeliveries', 200, request)).body.items.toReversed()
}

/** Redelivers the oldest message of a webhook as an administrator. Resolves to its final status. */
const redeliver = async (name: Subscriber): Promise<string | undefined> => {
  const [first] = await deliveriesOf(name)
  const params = { webhook_id: webhooks.get(name) ?? '', delivery_id: first?.id ?? '' }
  await service.expect('redeliverWebhook', 201, { token: people.admin.token, params })
  await settle()
  return (await deliveriesOf(name)).at(-1)?.status
}

t.test('those who leave, join or are unassigned see what they may see now', async (t) => {
  await removeMember(manager, project, people.viewer)
  await setMember(manager, project, people.other, 'viewer')
  await changeTask(assigned, { assignee_id: null })
  await settle()
  const isAboutThem = (name: string): boolean => !/^(member\.|task\.updated)/.test(name)
  const present = toMembers.filter(isAboutThem).toSorted()
  for (const persona of ['viewer', 'assignee', 'other', 'editor'] as const) {
    const now = isMember(persona) || persona === 'other' ? present : []
    const listed = namesOf(await eventsOf(persona)).filter(isAboutThem)
    t.strictSame(listed, persona === 'viewer' ? [] : now, persona)
  }
  for (const persona of ['viewer', 'assignee'] as const)
    t.equal(await redeliver(persona), 'withheld', `${persona}: no redelivery`)
})

t.test('only the deletion of a task in the trash is visible', async (t) => {
  const request = { token, params: { task_id: unassigned.id } }
  await service.expect('deleteTask', 204, request)
  for (const persona of ['commenter', 'manager', 'assignee', 'former'] as const) {
    const listed = namesOf(await eventsOf(persona)).filter((name) => name.endsWith(' unassigned'))
    // The task is deleted for the second time.
    const deletions = ['task.deleted unassigned', 'task.deleted unassigned']
    t.strictSame(listed, isMember(persona) ? deletions : [], persona)
  }
  const related = namesOf(await eventsOf('commenter')).filter((name) => name.startsWith('task.related'))
  t.strictSame(related, [], 'relations to it are not visible')
  await service.expect('restoreTask', 200, request)
})

t.test('the project webhook of a former manager receives nothing', async (t) => {
  await setMember(manager, project, people.editor, 'manager')
  const params = { ...projectPath, user_id: manager.id }
  await service.expect('setProjectMember', 200, {
    token: people.editor.token,
    params,
    body: { role: 'editor' },
  })
  // What a manager could still see may be on its way.
  await settle()
  const before = receivedBy('project').length
  await changeTask(unassigned, { description: 'Changed again' })
  await settle()
  t.equal(receivedBy('project').length, before)
  t.equal(receivedBy('projectOfAdmin').at(-1)?.type, 'task.updated', 'another webhook receives it')
  t.equal(await redeliver('project'), 'withheld')
})

t.test('the webhook of a disabled user receives nothing', async (t) => {
  const { id } = people.commenter
  const setDisabled = (is_disabled: boolean) =>
    service.expect('updateUser', 200, {
      token: people.admin.token,
      params: { user_id: id },
      body: { is_disabled },
    })
  await setDisabled(true)
  const before = receivedBy('commenter').length
  await changeTask(unassigned, { description: 'While somebody is disabled' })
  await settle()
  t.equal(await redeliver('commenter'), 'withheld')
  t.equal(receivedBy('commenter').length, before)
  await setDisabled(false)
  await changeTask(unassigned, { description: 'While nobody is disabled' })
  await settle()
  t.equal(receivedBy('commenter').length, before + 1, 'after the user is enabled')
})
