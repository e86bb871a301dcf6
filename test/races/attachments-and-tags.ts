import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, type Outcomes, outcomesOfTask, racesOn } from '../fixture/races.ts'
import { type Call, fileForm, startService } from '../fixture/service.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

/** Writes to attachments, uploads, tags and followers that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const { createProject, setMember } = projectActions(service)
const { createTask, readTask } = taskActions(service)

type Ids = Readonly<
  Record<'caller' | 'uploader' | 'project' | 'task' | 'attachment' | 'upload' | 'tag' | 'elsewhere', string>
>

interface Write {
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const callerOutcomes = { 'the quota of the caller is used up': 413 } as const

const taskPath = ({ task }: Ids): Omit<Call, 'token'> => ({ params: { task_id: task } })

const followed = {
  ...outcomesOfTask,
  'the caller becomes a viewer': 204,
  'the project is archived': 204,
} as const

const writes: { readonly [Operation in OperationId]?: Write } = {
  addTaskAttachment: {
    request: (ids) => ({ ...taskPath(ids), body: fileForm('hello') }),
    outcomes: { ...outcomesOfTask, ...callerOutcomes },
  },
  deleteAttachment: {
    request: ({ attachment }) => ({ params: { attach_id: attachment } }),
    outcomes: { ...outcomesOfTask, 'the attachment is deleted': 404 },
  },
  createUpload: {
    request: (ids) => ({ ...taskPath(ids), headers: tusHeaders(5) }),
    outcomes: { ...outcomesOfTask, ...callerOutcomes },
  },
  appendUpload: {
    request: ({ upload }) => ({
      params: { upload_id: upload },
      headers: pieceHeaders(0),
      body: Buffer.from('hello'),
    }),
    outcomes: {
      ...outcomesOfTask,
      ...callerOutcomes,
      'the upload is deleted': 404,
      'the upload expires': 410,
      'another request leases the upload': 423,
      'another request continues the upload': 409,
      'the caller is removed before the upload is leased': 404,
    },
  },
  abortUpload: {
    request: ({ upload }) => ({ params: { upload_id: upload }, headers: { 'tus-resumable': '1.0.0' } }),
    outcomes: { 'the upload is deleted': 404 },
  },
  createTag: {
    request: ({ project }) => ({ body: { name: 'new', project_id: project } }),
    outcomes: {
      'the caller becomes a viewer': 403,
      'the caller is removed': 422,
      'the project is moved to the trash': 422,
      'the project is archived': 409,
      'the name of the tag is taken': 409,
    },
  },
  deleteTag: {
    request: ({ tag }) => ({ params: { tag_id: tag } }),
    outcomes: {
      'the caller becomes a viewer': 403,
      'the caller is removed': 404,
      'the project is moved to the trash': 404,
      'the project is archived': 409,
      'the tag is deleted': 404,
    },
  },
  followTask: { request: taskPath, outcomes: followed },
  unfollowTask: { request: taskPath, outcomes: followed },
}

/** A task of a project that a new caller manages, with a file of the administrator, an upload of the caller, and a tag. */
const prepare = async () => {
  const caller = await service.register(`caller${(callers += 1)}`)
  const [{ id: project }, { id: elsewhere }] = [await createProject(admin), await createProject(admin)]
  await setMember(admin, { id: project }, caller, 'manager')
  const { id: task } = await createTask(admin, { project_id: project })
  const params = { task_id: task }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, {
    token: admin.token,
    params,
    body: fileForm('hello'),
  })
  const { headers } = await service.expect('createUpload', 201, {
    token: caller.token,
    params,
    headers: tusHeaders(5),
  })
  const { body: tag } = await service.expect('createTag', 201, {
    token: admin.token,
    body: { name: 'A tag', project_id: project },
  })
  const ids: Ids = {
    caller: caller.id,
    uploader: admin.id,
    project,
    elsewhere,
    task,
    attachment: attachment.id,
    upload: uploadIdIn(headers),
    tag: tag.id,
  }
  return { caller, ids }
}

let callers = 0

for (const [operation, { request, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, (t) =>
    expectOutcomes(t, outcomes, {
      prepare,
      send: ({ caller, ids }) =>
        service.call(operation as OperationId, { token: caller.token, ...request(ids) }),
    }),
  )

t.test('files of a caller who is deleted meanwhile: 401', async (t) => {
  const caller = await service.register('leaver')
  const { token } = caller
  const { id: task_id } = await createTask(caller)
  const creation = { token, params: { task_id }, headers: tusHeaders(5) }
  const { headers } = await service.expect('createUpload', 201, creation)
  const piece = {
    token,
    params: { upload_id: uploadIdIn(headers) },
    headers: pieceHeaders(0),
    body: Buffer.from('hello'),
  }
  const race = {
    hold: [held(`users where id = '${caller.id}'`)],
    change: `update users set deleted_at = now() where id = '${caller.id}'`,
    waiting: 3,
  }
  const replies = await resultAfter(t, race, () =>
    Promise.all([
      service.call('addTaskAttachment', { token, params: { task_id }, body: fileForm('hello') }),
      service.call('createUpload', creation),
      service.call('appendUpload', piece),
    ]),
  )
  t.strictSame(
    replies.map(({ status }) => status),
    [401, 401, 401],
  )
})

t.test('deleteTag waits while a task is given the tag: it loses it', async (t) => {
  const { caller, ids } = await prepare()
  const { etag: before } = await readTask(caller, ids.task)
  const race = { hold: [`insert into task_tags (task_id, tag_id) values ('${ids.task}', '${ids.tag}')`] }
  const { status } = await resultAfter(t, race, () =>
    service.call('deleteTag', { token: caller.token, params: { tag_id: ids.tag } }),
  )
  t.equal(status, 204)
  const { task, etag } = await readTask(caller, ids.task)
  t.strictSame(task.tags, [])
  t.not(etag, before)
})

t.test('two files wait for the quota of their uploader: one fits', async (t) => {
  const { caller, ids } = await prepare()
  const race = {
    hold: [`update users set attachment_quota_bytes = 9 where id = '${ids.caller}'`],
    waiting: 2,
  }
  const attach = () =>
    service.call('addTaskAttachment', {
      token: caller.token,
      params: { task_id: ids.task },
      body: fileForm('hello'),
    })
  const replies = await resultAfter(t, race, () => Promise.all([attach(), attach()]))
  t.strictSame(countStatuses(replies), { 201: 1, 413: 1 })
})
