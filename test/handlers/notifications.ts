import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { notifyOfEvents } from '../../src/db/activity/notifications.ts'
import { fireDueReminders } from '../../src/db/tasks/due-reminders.ts'
import { claimDigest } from '../../src/db/activity/notification-settings.ts'
import { changesToBeKnown } from '../fixture/changes.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { finishedExport } from '../fixture/exports.ts'
import { ranImport, smallTable } from '../fixture/imports.ts'
import { accountActions } from '../fixture/accounts.ts'
import { projectActions } from '../fixture/projects.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { type Account, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

const { db } = await openTestDatabase(t)
/** Notifications are made only by `readEvents`. */
const service = await startService(t, {
  db,
  jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 },
})
const { createTask, peopleOf } = taskActions(service)
const { createProject, setMember, removeMember } = projectActions(service)
const admin = await service.register('admin')
const { createApiToken } = accountActions(service, admin)

const nameOf = new Map<string, string>()

/** Registers a user. Failed assertions show the name instead of the id. */
const register = async (name: string): Promise<Account> => {
  const account = await service.register(name)
  nameOf.set(account.id, name)
  return account
}

const ada = await register('ada')
const bob = await register('bob')
const eve = await register('eve')

const sortedNames = (names: readonly string[]): string =>
  names.toSorted((a, b) => a.localeCompare(b)).join(' ')

const followersOf = async (task_id: string, { token }: Account = ada): Promise<string> => {
  const { body } = await service.expect('listTaskFollowers', 200, { token, params: { task_id } })
  return sortedNames(body.items.map(({ user_id }) => nameOf.get(user_id) ?? user_id))
}

const change = (task_id: string, body: object, { token }: Account = ada) =>
  service.expect('updateTask', 200, { token, params: { task_id }, body })

const follow = ({ token }: Account, task_id: string) =>
  service.expect('followTask', 204, { token, params: { task_id } })

const unfollow = ({ token }: Account, task_id: string) =>
  service.expect('unfollowTask', 204, { token, params: { task_id } })

t.test('listTaskFollowers', async (t) => {
  t.test('200: the creator and the assignee, newest first, with expanded users', async (t) => {
    const { id: task_id } = await createTask(ada, { assignee_id: bob.id })
    const request = { token: bob.token, params: { task_id }, query: { expand: 'user' } }
    const { body } = await service.expect('listTaskFollowers', 200, request)
    t.match(body.items, [
      { user_id: bob.id, user: { id: bob.id, username: 'bob' }, created_at: /Z$/ },
      { user_id: ada.id, user: { email: null } },
    ])
  })

  t.test('200: assignees of new tasks and of batches', async (t) => {
    const { id } = await createTask(ada, { assignee_id: bob.id })
    t.equal(await followersOf(id), 'ada bob')
    const { body } = await service.expect('batchTasks', 200, {
      token: ada.token,
      body: {
        atomic: true,
        create: [{ title: 'One', assignee_id: bob.id }, { title: 'Two' }],
        update: [{ task_id: id, patch: { assignee_id: eve.id } }],
      },
    })
    t.equal(await followersOf(id), 'ada eve', 'the former assignee cannot see the task')
    const [one = '', two = ''] = body.create.map(({ task_id }) => task_id ?? '')
    t.equal(await followersOf(one), 'ada bob')
    t.equal(await followersOf(two), 'ada')
  })

  t.test('200: the new owner of a task, and the creator of a task for somebody else', async (t) => {
    const body = { title: 'For Ada', owner_id: ada.id }
    const { body: task } = await service.expect('createTask', 201, { token: admin.token, body })
    nameOf.set(admin.id, 'admin')
    t.equal(await followersOf(task.id), 'ada admin')
    await change(task.id, { owner_id: bob.id, assignee_id: ada.id })
    t.equal(await followersOf(task.id), 'ada admin bob')
  })

  t.test('200: without users who can no longer see the task', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const { id } = await createTask(ada, { project_id: project.id })
    await follow(bob, id)
    t.equal(await followersOf(id), 'ada bob')
    await removeMember(ada, project, bob)
    t.equal(await followersOf(id), 'ada')
    await setMember(ada, project, bob, 'viewer')
    t.equal(await followersOf(id), 'ada bob', 'a member who joins again still follows the task')
  })

  t.test('200: without deleted users', async (t) => {
    const { owner, assignee } = await peopleOf('gone')
    const { id } = await createTask(owner, { assignee_id: assignee.id })
    await service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: 'me' } })
    const { body } = await service.expect('listTaskFollowers', 200, {
      token: owner.token,
      params: { task_id: id },
    })
    t.match(body.items, [{ user_id: owner.id }])
    t.equal(body.items.length, 1)
  })

  t.test('403: an API token without users:read cannot expand users', async () => {
    const { id: task_id } = await createTask(ada)
    const { token } = await createApiToken(ada, { scopes: ['tasks:read'] })
    await service.expect('listTaskFollowers', 200, { token, params: { task_id } })
    await service.expect('listTaskFollowers', 403, { token, params: { task_id }, query: { expand: 'user' } })
  })
})

t.test('followTask', async (t) => {
  t.test('204: repeatable, and does not change the task', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const task = await createTask(ada, { project_id: project.id })
    await follow(bob, task.id)
    await follow(bob, task.id)
    t.equal(await followersOf(task.id), 'ada bob')
    const read = { token: ada.token, params: { task_id: task.id } }
    t.equal((await service.expect('getTask', 200, read)).body.version, task.version)
  })

  t.test('204: after unfollowing', async (t) => {
    const { id } = await createTask(ada, { assignee_id: bob.id })
    await unfollow(bob, id)
    await follow(bob, id)
    t.equal(await followersOf(id), 'ada bob')
  })

  t.test('204: in an archived project', async (t) => {
    const project = await createProject(ada)
    const { id } = await createTask(ada, { project_id: project.id })
    await service.expect('archiveProject', 200, { token: ada.token, params: { project_id: project.id } })
    await unfollow(ada, id)
    t.equal(await followersOf(id), '')
    await follow(ada, id)
    t.equal(await followersOf(id), 'ada')
  })
})

t.test('unfollowTask', async (t) => {
  t.test('204: repeatable, and for users who do not follow the task', async (t) => {
    const project = await createProject(ada)
    await setMember(ada, project, bob, 'viewer')
    const { id } = await createTask(ada, { project_id: project.id })
    await unfollow(bob, id)
    await unfollow(ada, id)
    await unfollow(ada, id)
    t.equal(await followersOf(id), '')
  })

  t.test('204: a later assignment does not follow the task again', async (t) => {
    const { id } = await createTask(ada, { assignee_id: bob.id })
    await unfollow(bob, id)
    await change(id, { assignee_id: null })
    await change(id, { assignee_id: bob.id })
    t.equal(await followersOf(id), 'ada')
  })
})

type Notification = components['schemas']['Notification']

const inboxOf = async ({ token }: Account, query: object = {}): Promise<readonly Notification[]> =>
  (await service.expect('listNotifications', 200, { token, query: { limit: 200, ...query } })).body.items

/** Makes the notifications of all earlier changes. */
const readEvents = async (): Promise<void> => {
  await changesToBeKnown(db)
  await notifyOfEvents(db, new AbortController().signal)
}

/** The notifications of an account about a task, newest first. */
const notificationsFor = async (account: Account, taskId: string): Promise<readonly Notification[]> => {
  await readEvents()
  return (await inboxOf(account)).filter(({ task_id }) => task_id === taskId)
}

/** The newest of them. */
const newestFor = async (account: Account, taskId: string): Promise<Notification> => {
  const [newest] = await notificationsFor(account, taskId)
  if (newest === undefined) throw new Error('There is no notification')
  return newest
}

const reasonsOf = async (account: Account, taskId: string): Promise<readonly string[]> =>
  (await notificationsFor(account, taskId)).map(({ reason }) => reason)

/** A task in a project of Ada. Bob is an editor, Eve a viewer. */
const newSharedTask = async (fields: object = {}) => {
  const project = await createProject(ada)
  await setMember(ada, project, bob, 'editor')
  await setMember(ada, project, eve, 'viewer')
  return { project, task: await createTask(ada, { project_id: project.id, ...fields }) }
}

const comment = async (task_id: string, body: string, { token }: Account = ada) =>
  (await service.expect('createComment', 201, { token, params: { task_id }, body: { body } })).body

/** A new account with `count` + 1 unread notifications, newest first, each about a task that is assigned to it. */
const newInbox = async (name: string, count: number) => {
  const account = await register(name)
  for (let index = 0; index <= count; index += 1) await createTask(ada, { assignee_id: account.id })
  await readEvents()
  return { account, notifications: await inboxOf(account) }
}

/** How a client that reads only the subject of a notification opens it. */
const openSubject = ({ subject: { type, id } }: Notification, { token }: Account): Promise<unknown> => {
  if (type === 'task') return service.expect('getTask', 200, { token, params: { task_id: id } })
  if (type === 'comment') return service.expect('getComment', 200, { token, params: { comment_id: id } })
  if (type === 'export') return service.expect('getExport', 200, { token, params: { export_id: id } })
  if (type === 'import') return service.expect('getImport', 200, { token, params: { import_id: id } })
  throw new Error(`No notification has a subject of the type ${type}`)
}

t.test('listNotifications', async (t) => {
  t.test('200: an assignment, with the expanded task', async (t) => {
    const task = await createTask(ada, { assignee_id: bob.id })
    const { id, created_at, ...rest } = await newestFor(bob, task.id)
    t.strictSame(rest, {
      reason: 'assignment',
      subject: { type: 'task', id: task.id },
      actor_id: ada.id,
      task_id: task.id,
      comment_id: null,
      reminder_id: null,
      export_id: null,
      import_id: null,
      read_at: null,
    })
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    t.ok(created_at >= task.created_at)
    const [expanded] = await inboxOf(bob, { expand: 'task' })
    t.match(expanded, { id, task: { id: task.id, title: 'A task', version: 1 } })
  })

  t.test('200: the subject of each is what its user opens', async (t) => {
    const zoe = await register('zoe')
    const { token } = zoe
    const { id: task_id } = await createTask(ada, { title: 'Shared', assignee_id: zoe.id })
    const mention = await comment(task_id, 'Ask @zoe.')
    const remark = await comment(task_id, 'Not yet')
    await change(task_id, { status: 'done' })
    await change(task_id, { status: 'todo' })
    const reminder = { token, params: { task_id }, body: { at: new Date().toISOString() } }
    await service.expect('createReminder', 201, reminder)
    await fireDueReminders(db, new AbortController().signal)
    const finished = await finishedExport(service, zoe)
    const imported = await ranImport(service, zoe, smallTable)
    await readEvents()
    const notifications = await inboxOf(zoe)
    const subjects = Object.fromEntries(notifications.map(({ reason, subject }) => [reason, subject]))
    t.strictSame(subjects, {
      assignment: { type: 'task', id: task_id },
      mention: { type: 'comment', id: mention.id },
      comment: { type: 'comment', id: remark.id },
      completion: { type: 'task', id: task_id },
      reminder: { type: 'task', id: task_id },
      export: { type: 'export', id: finished.id },
      import: { type: 'import', id: imported.id },
    })
    for (const notification of notifications) await openSubject(notification, zoe)
  })

  t.test('200: assignments of existing tasks and in batches', async (t) => {
    const { task } = await newSharedTask()
    await change(task.id, { assignee_id: eve.id })
    await change(task.id, { title: 'Renamed' })
    t.same(await reasonsOf(eve, task.id), ['assignment'])
    const update = [{ task_id: task.id, patch: { assignee_id: bob.id } }]
    await service.expect('batchTasks', 200, { token: ada.token, body: { atomic: true, update } })
    t.same(await reasonsOf(bob, task.id), ['assignment'])
  })

  t.test('200: completions of followed tasks, except by oneself', async (t) => {
    const { task } = await newSharedTask()
    await follow(eve, task.id)
    await change(task.id, { status: 'in_progress' }, bob)
    await change(task.id, { status: 'done' }, bob)
    t.match(await notificationsFor(eve, task.id), [{ reason: 'completion', actor_id: bob.id }])
    t.same(await reasonsOf(ada, task.id), ['completion'])
    t.same(await reasonsOf(bob, task.id), [], 'not for their own action')
  })

  t.test('200: one notification per change, with the first applicable reason', async (t) => {
    const { task } = await newSharedTask()
    await follow(eve, task.id)
    await change(task.id, { status: 'done', assignee_id: eve.id })
    t.same(await reasonsOf(eve, task.id), ['assignment'])
  })

  t.test('200: users who unfollowed a task get assignments, but not completions', async (t) => {
    const { task } = await newSharedTask()
    await unfollow(eve, task.id)
    await change(task.id, { assignee_id: eve.id })
    await change(task.id, { status: 'done' })
    t.same(await reasonsOf(eve, task.id), ['assignment'])
  })

  t.test('200: comments on followed tasks, and on tasks that the user commented on', async (t) => {
    const { task } = await newSharedTask()
    const first = await comment(task.id, 'Ready?', bob)
    t.match(await notificationsFor(ada, task.id), [
      { reason: 'comment', actor_id: bob.id, comment_id: first.id },
    ])
    t.same(await reasonsOf(eve, task.id), [])
    await comment(task.id, 'Not yet')
    t.same(await reasonsOf(bob, task.id), ['comment'])
    t.equal(await followersOf(task.id), 'ada bob')
  })

  t.test('200: mentions, even of users who unfollowed the task, once per comment', async (t) => {
    const { task } = await newSharedTask()
    await unfollow(eve, task.id)
    const { id } = await comment(task.id, 'Ask @eve and @bob.')
    t.match(await notificationsFor(eve, task.id), [{ reason: 'mention', actor_id: ada.id, comment_id: id }])
    t.same(await reasonsOf(bob, task.id), ['mention'])
    const edit = (body: string) =>
      service.expect('updateComment', 200, { token: ada.token, params: { comment_id: id }, body: { body } })
    await edit('Ask @eve, @bob, @ada or @rob.')
    await edit('Ask @eve.')
    await edit('Ask @eve or @bob.')
    t.same(await reasonsOf(eve, task.id), ['mention'])
    t.same(await reasonsOf(bob, task.id), ['mention'])
    t.same(await reasonsOf(ada, task.id), [], 'not for their own action')
  })

  t.test('200: mentions added to a comment, until the comment is deleted', async (t) => {
    const { task } = await newSharedTask()
    await follow(bob, task.id)
    const { id } = await comment(task.id, 'Ask somebody.')
    const edit = { token: ada.token, params: { comment_id: id }, body: { body: 'Ask @eve or @bob.' } }
    await service.expect('updateComment', 200, edit)
    t.same(await reasonsOf(eve, task.id), ['mention'])
    await service.expect('deleteComment', 204, { token: ada.token, params: { comment_id: id } })
    t.same(await reasonsOf(eve, task.id), [], 'deleted with the comment')
  })

  t.test('200: nothing about tasks that the user cannot see', async (t) => {
    const { project, task } = await newSharedTask()
    await follow(eve, task.id)
    await removeMember(ada, project, eve)
    await change(task.id, { status: 'done' })
    await notificationsFor(eve, task.id)
    await setMember(ada, project, eve, 'viewer')
    t.same(await reasonsOf(eve, task.id), [], 'not even once they can see the task again')
    await change(task.id, { status: 'todo' })
    await change(task.id, { status: 'done' })
    t.same(await reasonsOf(eve, task.id), ['completion'])
    await removeMember(ada, project, eve)
    t.same(await reasonsOf(eve, task.id), [], 'earlier notifications are hidden with the task')
    await setMember(ada, project, eve, 'viewer')
    t.same(await reasonsOf(eve, task.id), ['completion'])
  })

  t.test('200: nothing about tasks in the trash, until they are restored', async (t) => {
    const { task } = await newSharedTask({ assignee_id: eve.id })
    t.same(await reasonsOf(eve, task.id), ['assignment'])
    const deleted = { token: ada.token, params: { task_id: task.id } }
    await service.expect('deleteTask', 204, deleted)
    t.same(await reasonsOf(eve, task.id), [])
    await service.expect('restoreTask', 200, deleted)
    t.same(await reasonsOf(eve, task.id), ['assignment'])
  })

  t.test('200: unread notifications, with their total', async (t) => {
    const { account, notifications } = await newInbox('reader', 2)
    const { token } = account
    const [newest, second, oldest] = notifications
    const params = { notification_id: second?.id ?? '' }
    await service.expect('updateNotification', 200, { token, params, body: { is_read: true } })
    const query = { unread: true, include_total: true }
    const { body } = await service.expect('listNotifications', 200, { token, query })
    t.equal(body.total, 2)
    t.match(body.items, [{ id: newest?.id }, { id: oldest?.id }])
    t.equal((await inboxOf(account, { unread: false })).length, 3)
  })

  t.test('403: an API token without tasks:read cannot expand tasks', async () => {
    const { token } = await createApiToken(ada, { scopes: ['notifications:read'] })
    await service.expect('listNotifications', 200, { token })
    await service.expect('listNotifications', 403, { token, query: { expand: 'task' } })
  })
})

/** A project of Ada with a new member, and what is made of its tasks. */
const openProject = async (name: string) => {
  const member = await register(name)
  const { id: project_id } = await createProject(ada)
  await setMember(ada, { id: project_id }, member, 'editor')
  return {
    member,
    project: { token: ada.token, params: { project_id } },
    /** A task of the project with a comment that mentions the member, and assigned to them. */
    newTask: async () => {
      const { id: task_id } = await createTask(ada, { project_id })
      await comment(task_id, `Ask @${name}.`)
      await change(task_id, { assignee_id: member.id })
      return { token: ada.token, params: { task_id } }
    },
    inbox: () => inboxOf(member),
  }
}

t.test('notifications about tasks in the trash', async (t) => {
  const reasons = ['assignment', 'mention']
  const reasonsIn = (items: readonly Notification[]) => items.map(({ reason }) => reason).toSorted()

  t.test('are made once when the task is restored', async (t) => {
    const { newTask, inbox } = await openProject('restored')
    const task = await newTask()
    await service.expect('deleteTask', 204, task)
    await readEvents()
    t.same(await inbox(), [])
    const { body } = await service.expect('restoreTask', 200, task)
    await readEvents()
    const found = await inbox()
    t.same(reasonsIn(found), reasons)
    for (const { created_at } of found)
      t.ok(created_at >= body.updated_at, 'with the time of the restoration')
    await service.expect('deleteTask', 204, task)
    await readEvents()
    await service.expect('restoreTask', 200, task)
    await readEvents()
    t.strictSame(await inbox(), found, 'once')
  })

  t.test('are made when the project is restored, and the task itself is not in the trash', async (t) => {
    const { project, newTask, inbox } = await openProject('revived')
    const [task, trashed] = [await newTask(), await newTask()]
    await service.expect('deleteTask', 204, trashed)
    await service.expect('deleteProject', 204, project)
    await readEvents()
    await service.expect('restoreProject', 200, project)
    await readEvents()
    const found = await inbox()
    t.same(reasonsIn(found), reasons)
    t.ok(found.every(({ task_id }) => task_id === task.params.task_id))
    await service.expect('restoreTask', 200, trashed)
    await readEvents()
    t.same(reasonsIn(await inbox()), [...reasons, ...reasons].toSorted())
  })

  t.test('are made when task and project were restored and deleted before they were read', async (t) => {
    const { project, newTask, inbox } = await openProject('twice')
    const task = await newTask()
    await service.expect('deleteTask', 204, task)
    await service.expect('restoreTask', 200, task)
    await service.expect('deleteProject', 204, project)
    await readEvents()
    await service.expect('restoreProject', 200, project)
    await service.expect('deleteTask', 204, task)
    await readEvents()
    t.same(await inbox(), [])
    await service.expect('restoreTask', 200, task)
    await readEvents()
    t.same(reasonsIn(await inbox()), reasons)
  })

  t.test('are not made of purged tasks, nor for users who no longer see them', async (t) => {
    const { member, project, newTask, inbox } = await openProject('unseen')
    const [purged, hidden, shown] = [await newTask(), await newTask(), await newTask()]
    for (const task of [purged, hidden, shown]) await service.expect('deleteTask', 204, task)
    await readEvents()
    await service.expect('deleteTrashedTask', 204, purged)
    await service.expect('restoreTask', 200, hidden)
    const update = { ...hidden, body: { assignee_id: null } }
    await service.expect('updateTask', 200, update)
    await removeMember(ada, { id: project.params.project_id }, member)
    await readEvents()
    await service.expect('restoreTask', 200, shown)
    await readEvents()
    const found = await inbox()
    t.same(reasonsIn(found), reasons, 'as an assignee')
    t.ok(found.every(({ task_id }) => task_id === shown.params.task_id))
  })

  t.test('are in the next digest after the task is restored', async (t) => {
    const { member, newTask } = await openProject('digested')
    const settings = { token: member.token, body: { mail_digest: 'hourly' } }
    await service.expect('updateNotificationSettings', 200, settings)
    const digest = async () => {
      await db.run(
        `update notification_settings set digest_due_at = now() - interval '1 ms' where user_id = $1`,
        [member.id],
      )
      return claimDigest(db)
    }
    const task = await newTask()
    await service.expect('deleteTask', 204, task)
    await readEvents()
    t.match(await digest(), { count: 0 })
    await service.expect('restoreTask', 200, task)
    await readEvents()
    t.match(await digest(), { count: 2 })
    t.match(await digest(), { count: 0 })
  })
})

t.test('updateNotification', async (t) => {
  const { account, notifications } = await newInbox('marker', 0)
  const { token } = account
  const params = { notification_id: notifications[0]?.id ?? '' }
  const mark = async (body: object) =>
    (await service.expect('updateNotification', 200, { token, params, body })).body

  t.test('200: marks as read, repeatably, and as unread', async (t) => {
    const read = await mark({ is_read: true })
    t.match(read, { id: params.notification_id, read_at: /Z$/ })
    t.strictSame(await inboxOf(account), [read])
    t.strictSame(await mark({ is_read: true }), read, 'the time of the first read stays')
    t.strictSame(await mark({}), read)
    t.strictSame(await mark({ is_read: false }), { ...read, read_at: null })
    t.strictSame(await mark({}), { ...read, read_at: null })
  })

  t.test('404: a notification of another user, or about a task that is no longer visible', async () => {
    const { project, task } = await newSharedTask()
    const body = { is_read: true }
    await service.expect('updateNotification', 404, { token: ada.token, params, body })
    await change(task.id, { assignee_id: eve.id })
    const { id } = await newestFor(eve, task.id)
    await change(task.id, { assignee_id: null })
    await removeMember(ada, project, eve)
    const lost = { token: eve.token, params: { notification_id: id }, body }
    await service.expect('updateNotification', 404, lost)
  })
})

t.test('markNotificationsRead', async (t) => {
  t.test('200: up to the given time, only for the caller', async (t) => {
    const { account, notifications } = await newInbox('sweeper', 1)
    const { token } = account
    const until = notifications[0]?.created_at ?? ''
    const { id } = await createTask(ada, { assignee_id: account.id })
    await newestFor(account, id)
    const { body } = await service.expect('markNotificationsRead', 200, { token, body: { until } })
    t.strictSame(body, { marked_count: 2, has_more: false })
    const [newest, ...others] = await inboxOf(account)
    t.equal(newest?.read_at, null)
    for (const { read_at } of others) t.match(read_at, /Z$/)
    const again = await service.expect('markNotificationsRead', 200, { token, body: { until } })
    t.strictSame(again.body, { marked_count: 0, has_more: false })
    t.same((await inboxOf(ada)).filter(({ read_at }) => read_at !== null).length, 0, 'not of other users')
  })

  t.test(
    '200: not those about tasks that the caller no longer sees, which do not count as unread',
    async (t) => {
      const account = await register('leaver')
      const { token } = account
      const project = await createProject(ada)
      await setMember(ada, project, account, 'editor')
      const fields = { project_id: project.id, assignee_id: account.id }
      const [left, trashed] = [
        await createTask(ada, fields),
        await createTask(ada, { assignee_id: account.id }),
      ]
      const { id } = await createTask(ada, { assignee_id: account.id })
      const { created_at: until } = await newestFor(account, id)
      await change(left.id, { assignee_id: null })
      await removeMember(ada, project, account)
      const deleted = { token: ada.token, params: { task_id: trashed.id } }
      await service.expect('deleteTask', 204, deleted)
      const unread = async () => {
        const query = { unread: true, include_total: true }
        return (await service.expect('listNotifications', 200, { token, query })).body.total
      }
      t.equal(await unread(), 1)
      const { body } = await service.expect('markNotificationsRead', 200, { token, body: { until } })
      t.strictSame(body, { marked_count: 1, has_more: false })
      t.equal(await unread(), 0)
      await service.expect('restoreTask', 200, deleted)
      await setMember(ada, project, account, 'viewer')
      t.equal(await unread(), 2, 'unread when they are visible again')
    },
  )

  t.test('200: at most 5,000 per request, oldest first', async (t) => {
    const { account, notifications } = await newInbox('hoarder', 0)
    const { token } = account
    const [first] = notifications
    await db.run(
      `insert into notifications (id, user_id, reason, event_id, task_id, created_at)
       select gen_random_uuid(), user_id, reason, gen_random_uuid(), task_id, created_at - interval '1 hour'
       from notifications, generate_series(1, 5000) where id = $1`,
      [first?.id],
    )
    const body = { until: first?.created_at ?? '' }
    const mark = async () => (await service.expect('markNotificationsRead', 200, { token, body })).body
    t.strictSame(await mark(), { marked_count: 5_000, has_more: true })
    t.same(await inboxOf(account, { unread: true }), [first])
    t.strictSame(await mark(), { marked_count: 1, has_more: false })
  })
})

t.test('getNotificationSettings', async (t) => {
  t.test('200: digests are off by default', async (t) => {
    const { token } = await register('settled')
    const { body, headers } = await service.expect('getNotificationSettings', 200, { token })
    t.strictSame(body, { mail_digest: 'off', mail_reminders: false, version: 1, revision: 1 })
    t.equal(headers.get('etag'), '"1"')
  })
})

t.test('updateNotificationSettings', async (t) => {
  const update = ({ token }: Account, body: unknown, headers = {}) =>
    service.call('updateNotificationSettings', { token, body, headers })

  t.test('200: each change increments the version of the settings, not of the user', async (t) => {
    const account = await register('chooser')
    const choices: readonly [object, object][] = [
      [{}, { mail_digest: 'off', mail_reminders: false, version: 1, revision: 1 }],
      [{ mail_digest: 'off' }, { mail_digest: 'off', mail_reminders: false, version: 1, revision: 1 }],
      [{ mail_digest: 'daily' }, { mail_digest: 'daily', mail_reminders: false, version: 2, revision: 2 }],
      [{ mail_digest: 'daily' }, { mail_digest: 'daily', mail_reminders: false, version: 2, revision: 2 }],
      [{ mail_reminders: true }, { mail_digest: 'daily', mail_reminders: true, version: 3, revision: 3 }],
      [{}, { mail_digest: 'daily', mail_reminders: true, version: 3, revision: 3 }],
      [{ mail_digest: 'hourly' }, { mail_digest: 'hourly', mail_reminders: true, version: 4, revision: 4 }],
      [{ mail_digest: 'off' }, { mail_digest: 'off', mail_reminders: true, version: 5, revision: 5 }],
    ]
    for (const [patch, settings] of choices) {
      const { body, headers } = await update(account, patch)
      t.strictSame(body, settings)
      t.match(settings, { version: Number(JSON.parse(headers.get('etag') ?? '""')) })
    }
    const { token } = account
    const { body } = await service.expect('getNotificationSettings', 200, { token })
    t.strictSame(body, { mail_digest: 'off', mail_reminders: true, version: 5, revision: 5 })
    const { body: user } = await service.expect('getCurrentUser', 200, { token })
    t.equal(user.version, 1, 'the user has not changed')
  })

  t.test('200 for one of several concurrent updates of a version, 412 for the others', async (t) => {
    const account = await register('racer')
    for (const etag of ['"1"', '"2"']) {
      const choices = etag === '"1"' ? ['daily', 'hourly', 'daily'] : ['off', 'off', 'off']
      const replies = await Promise.all(
        choices.map((mail_digest) => update(account, { mail_digest }, { 'if-match': etag })),
      )
      t.strictSame(
        replies.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 412, 412],
      )
    }
  })
})
