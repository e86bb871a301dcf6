import t from 'tap'
import type { components } from '../generated/openapi.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import { openStream, type StreamClient } from './fixture/event-stream.ts'
import { eventually } from './fixture/eventually.ts'
import { projectActions } from './fixture/projects.ts'
import { type Account, startService } from './fixture/service.ts'
import { type Task, taskActions } from './fixture/tasks.ts'
import { startReceiver } from './fixture/webhooks.ts'

/**
 * Every type of event, told to everybody who has to do with a project by every way: the list of events, the history of a task, the
 * stream and webhooks. The tables say who may see what in words of their own.
 */

type Event = components['schemas']['Event']
type EventType = components['schemas']['EventType']

const members = ['viewer', 'commenter', 'editor', 'inTeam', 'manager'] as const
/** `former` was an editor and has left, and `assignee` is assigned one task without being a member. */
const personas = [...members, 'assignee', 'former', 'other', 'admin'] as const
type Persona = (typeof personas)[number]
const isMember = (persona: Persona): boolean => members.some((member) => member === persona)

/** What an event of each type is about; a relation is seen by who sees both of its tasks. */
const subjects: Readonly<Record<EventType, 'task' | 'relation' | 'project'>> = {
  'task.created': 'task',
  'task.updated': 'task',
  'task.deleted': 'task',
  'task.restored': 'task',
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
const { createProject, setMember, createTeam, setTeamMember, setProjectTeam } = projectActions(service)

const project = await createProject(manager, 'The project')
const ofProject = { project_id: project.id }
for (const role of ['viewer', 'commenter', 'editor'] as const)
  await setMember(manager, project, people[role], role)
await setMember(manager, project, people.former, 'editor')
const team = await createTeam(manager)
await setTeamMember(manager, team, people.inTeam, 'member')
await setProjectTeam(manager, project, team, 'editor')

const removeMember = ({ id }: Account) =>
  service.expect('removeProjectMember', 204, { token, params: { ...ofProject, user_id: id } })
await removeMember(people.former)

/** What has a webhook: each persona one of everything that they see, and the project one of the manager and one of an administrator. */
const subscribers = [...personas, 'project', 'projectOfAdmin'] as const
type Subscriber = (typeof subscribers)[number]

const receiver = await startReceiver(t)
const webhooks = new Map<Subscriber, string>()
for (const name of subscribers) {
  const owner = name === 'project' ? manager : name === 'projectOfAdmin' ? people.admin : people[name]
  const body = { url: `${receiver.url}?of=${name}`, event_types: ['*'] }
  const fields = name === 'project' || name === 'projectOfAdmin' ? ofProject : {}
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

/** Takes what an account's stream has sent up to a new task of the account, which is also sent by its webhook. */
const takeAll = async (persona: Persona): Promise<void> => {
  const { id } = await createTask(people[persona], { title: 'The last event' })
  const seen = streamed.get(persona) ?? []
  while (!seen.some(({ task_id }) => task_id === id)) {
    const sent = await streams.get(persona)?.next()
    if (sent !== undefined) seen.push(sent.data)
  }
  await eventually(`${persona} is told of ${id}`, async () =>
    receivedBy(persona).some(({ task_id }) => task_id === id),
  )
}

/** Waits until everybody has been told of everything: all streams have the same reader, and so have all webhooks. */
const settle = async (): Promise<void> => {
  await takeAll('manager')
  await eventually('everything is sent', async () => {
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
  const ofTask = { task_id: task.id }
  await changeTask(task, { description: 'Changed' })
  const comment_id = await addComment(manager, task.id, 'Words to be deleted')
  const ofComment = { token, params: { comment_id } }
  await service.expect('updateComment', 200, { ...ofComment, body: { body: 'Other words to be deleted' } })
  await service.expect('deleteComment', 204, ofComment)
  const attach_id = await attachFile(manager, task.id)
  await service.expect('deleteAttachment', 204, { token, params: { attach_id } })
  const tagged = { token, params: { ...ofTask, tag_id: tag.id } }
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
  ...ofProject,
  title: 'Assigned',
  assignee_id: people.assignee.id,
})
const unassigned = await createTask(manager, { ...ofProject, title: 'Unassigned' })
const hidden = await createTask(manager, { title: 'Hidden' })
const names = new Map<string | null, string>([
  [assigned.id, 'assigned'],
  [unassigned.id, 'unassigned'],
  [hidden.id, 'hidden'],
])

for (const task of [assigned, unassigned, hidden]) await changeEverything(task)
await relate(assigned, unassigned)
await relate(assigned, hidden)
await settle()
for (const task of [assigned, unassigned]) {
  const request = { token, params: { task_id: task.id } }
  await service.expect('deleteTask', 204, request)
  await settle()
  await service.expect('restoreTask', 200, request)
}
await service.expect('updateProject', 200, { token, params: ofProject, body: { name: 'Renamed' } })
await setMember(manager, project, guest, 'viewer')
await setMember(manager, project, guest, 'editor')
await removeMember(guest)
const request = { token, params: ofProject }
await service.expect('archiveProject', 200, request)
await service.expect('unarchiveProject', 200, request)
await settle()
await service.expect('deleteProject', 204, request)
await settle()
await service.expect('restoreProject', 200, request)
for (const persona of personas) await takeAll(persona)

/** The type and the subject of each event that is about the project, its tasks or the hidden one, in order of the alphabet. */
const namesOf = (events: readonly Event[]): readonly string[] =>
  events
    .filter(
      ({ task_id, project_id }) => names.has(task_id) || (task_id === null && project_id === project.id),
    )
    // Before everybody had streams and webhooks.
    .filter(({ type, created_at }) => subjects[type] !== 'project' || created_at > tag.created_at)
    .map(({ type, task_id }) => `${type} ${names.get(task_id) ?? 'project'}`)
    .toSorted()

const typesOf = (subject: (typeof subjects)[EventType]): readonly string[] =>
  Object.entries(subjects).flatMap(([type, about]) => (about === subject ? [type] : []))
const ofTask = (name: string): readonly string[] => typesOf('task').map((type) => `${type} ${name}`)
const ofRelation = (name: string): readonly string[] => typesOf('relation').map((type) => `${type} ${name}`)

/** It was created before. */
const ofProjectSince = typesOf('project')
  .filter((type) => type !== 'project.created')
  .map((type) => `${type} project`)
/** It was not in the trash. */
const ofHidden = ofTask('hidden').filter((name) => !/^task\.(deleted|restored)/.test(name))
const toMembers = [
  ...ofTask('assigned'),
  ...ofTask('unassigned'),
  ...ofRelation('assigned'),
  ...ofRelation('unassigned'),
  ...ofProjectSince,
]
const toManager = [...toMembers, ...ofHidden, ...ofRelation('assigned'), ...ofRelation('hidden')]

/** What somebody is told who sees what they see as a user among others. */
const toldTo = (persona: Persona): readonly string[] => {
  if (persona === 'manager') return toManager
  if (persona === 'assignee') return ofTask('assigned')
  return isMember(persona) ? toMembers : []
}
/** An administrator who asks for everything sees it. */
const seenBy = (persona: Persona): readonly string[] => (persona === 'admin' ? toManager : toldTo(persona))

/** Everything that an account can read now; an administrator, of the whole installation. */
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

/** The history of a task, as the account sees it; null if it does not. */
const historyOf = async (persona: Persona, { id }: Task): Promise<readonly Event[] | null> => {
  const own = { token: people[persona].token, params: { task_id: id }, query: { limit: 200 } }
  const { status, body } = await service.call('listTaskEvents', own)
  if (status !== 200) t.equal(status, 404)
  return status === 200 ? (body as { readonly items: readonly Event[] }).items : null
}

t.test('everybody is told of every event that they may see, and of no other', async (t) => {
  for (const persona of personas) {
    await t.test(persona, async (t) => {
      const expected = seenBy(persona).toSorted()
      const listed = await eventsOf(persona)
      const sent = streamed.get(persona) ?? []
      t.strictSame(namesOf(listed), expected, 'list')
      t.strictSame(namesOf(sent), expected, 'stream')
      t.strictSame(namesOf(receivedBy(persona)), toldTo(persona).toSorted(), 'webhook')

      const histories: Event[] = []
      for (const task of [assigned, unassigned, hidden]) {
        const name = names.get(task.id) ?? ''
        const ofThis = expected.filter((event) => event.endsWith(` ${name}`))
        const isOfProject = task !== hidden && (isMember(persona) || persona === 'admin')
        const history = await historyOf(persona, task)
        histories.push(...(history ?? []))
        const wanted = [...ofThis, ...(isOfProject ? ofProjectSince : [])].toSorted()
        if (ofThis.length === 0) t.equal(history, null, `history of the task ${name}`)
        else t.strictSame(namesOf(history ?? []), wanted, `history of the task ${name}`)
      }

      if (seenBy(persona) === toManager) return
      const everything = JSON.stringify([listed, sent, histories, receivedBy(persona)])
      for (const trace of [hidden.id, hidden.title])
        t.notMatch(everything, trace, 'nothing of the hidden task')
    })
  }

  t.test('the webhooks of the project', async (t) => {
    // They are silent while their project is in the trash.
    const ofTheProject = [...toMembers, ...ofRelation('assigned')]
      .filter((name) => name !== 'project.deleted project')
      .toSorted()
    for (const name of ['project', 'projectOfAdmin'] as const)
      t.strictSame(namesOf(receivedBy(name)), ofTheProject, name)
  })

  t.test('deleted comments have no text', async (t) => {
    t.notMatch(JSON.stringify(await eventsOf('admin')), 'ords to be deleted')
  })
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

/** Asks an administrator to send the oldest message of a webhook again; resolves to its status in the end. */
const sendAgain = async (name: Subscriber): Promise<string | undefined> => {
  const [first] = await deliveriesOf(name)
  const params = { webhook_id: webhooks.get(name) ?? '', delivery_id: first?.id ?? '' }
  await service.expect('redeliverWebhook', 201, { token: people.admin.token, params })
  await settle()
  return (await deliveriesOf(name)).at(-1)?.status
}

t.test('who leaves, joins or is unassigned sees what they may see from then on', async (t) => {
  await removeMember(people.viewer)
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
    t.equal(await sendAgain(persona), 'withheld', `${persona}: a message is not sent again`)
})

t.test('of a task in the trash only the deletion is told', async (t) => {
  const request = { token, params: { task_id: unassigned.id } }
  await service.expect('deleteTask', 204, request)
  for (const persona of ['commenter', 'manager', 'assignee', 'former'] as const) {
    const listed = namesOf(await eventsOf(persona)).filter((name) => name.endsWith(' unassigned'))
    // It is the second time.
    const deletions = ['task.deleted unassigned', 'task.deleted unassigned']
    t.strictSame(listed, isMember(persona) ? deletions : [], persona)
  }
  const related = namesOf(await eventsOf('commenter')).filter((name) => name.startsWith('task.related'))
  t.strictSame(related, [], 'nor are relations to it')
  await service.expect('restoreTask', 200, request)
})

t.test('a project tells nothing by the webhook of somebody who manages it no longer', async (t) => {
  await setMember(manager, project, people.editor, 'manager')
  const params = { ...ofProject, user_id: manager.id }
  await service.expect('setProjectMember', 200, {
    token: people.editor.token,
    params,
    body: { role: 'editor' },
  })
  const before = receivedBy('project').length
  await changeTask(unassigned, { description: 'Changed again' })
  await settle()
  t.equal(receivedBy('project').length, before)
  t.equal(receivedBy('projectOfAdmin').at(-1)?.type, 'task.updated', 'another webhook does')
  t.equal(await sendAgain('project'), 'withheld')
})

t.test('a disabled user is told nothing', async (t) => {
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
  t.equal(await sendAgain('commenter'), 'withheld')
  t.equal(receivedBy('commenter').length, before)
  await setDisabled(false)
  await changeTask(unassigned, { description: 'While nobody is disabled' })
  await settle()
  t.equal(receivedBy('commenter').length, before + 1, 'until they are enabled')
})
