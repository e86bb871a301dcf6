import t, { type Test } from 'tap'
import { accountActions } from '../fixture/accounts.ts'
import { type Account, type Call, fileForm, type Reply, startService } from '../fixture/service.ts'
import {
  clockToMove,
  countStatuses,
  noSeries,
  pointersOf,
  type Task,
  taskActions,
  unknownId,
} from '../fixture/tasks.ts'

const service = await startService(t)
const { attachFile, createTag, createTask, peopleOf, readTask } = taskActions(service)
const admin = await service.register('admin')
const { setRole } = accountActions(service, admin)

/** Instants as a client can send them, and as the service returns them. */
const validInstants = [
  ['2026-11-02T10:00:00+01:00', '2026-11-02T09:00:00.000Z'],
  ['2026-11-02T00:30:00-23:59', '2026-11-03T00:29:00.000Z'],
  ['2026-11-02T09:00:00-00:00', '2026-11-02T09:00:00.000Z'],
  ['2026-11-02T09:00:00.5Z', '2026-11-02T09:00:00.500Z'],
  ['2026-11-02T09:00:00.123456789Z', '2026-11-02T09:00:00.123Z'],
  ['2026-11-02t09:00:00z', '2026-11-02T09:00:00.000Z'],
  ['2024-02-29T12:00:00Z', '2024-02-29T12:00:00.000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
] as const

const invalidInstants: readonly unknown[] = [
  '',
  'tomorrow',
  'infinity',
  '2026-11-02',
  '2026-11-02T09:00:00',
  '2026-11-02T09:00Z',
  '2026-11-02 09:00:00Z',
  ' 2026-11-02T09:00:00Z',
  '2026-11-02T09:00:00,5Z',
  '2026-11-02T09:00:00+0100',
  '2026-11-02T09:00:00+24:00',
  '2026-11-02T24:00:00Z',
  '2026-11-02T23:59:60Z',
  '2016-12-31T23:59:60Z',
  '2026-02-30T09:00:00Z',
  '2025-02-29T09:00:00Z',
  '2026-13-01T09:00:00Z',
  '2026-00-01T09:00:00Z',
  '2026-11-00T09:00:00Z',
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00+01:00',
  '9999-12-31T23:59:59-01:00',
  '10000-01-01T00:00:00Z',
  '+002026-11-02T09:00:00Z',
  1_762_074_000_000,
  true,
  [],
]

/** Fields with unlikely names, and the pointers of the problems. */
const invalidFields: readonly (readonly [object, string])[] = [
  [{ constructor: 1 }, '/constructor'],
  [{ toString: 1 }, '/toString'],
  [{ 'a/b~c': 1 }, '/a~1b~0c'],
]

const defaults = {
  title: 'A task',
  description: '',
  status: 'todo',
  priority: 'none',
  start_at: null,
  start_on: null,
  due_at: null,
  due_on: null,
  completed_at: null,
  assignee_id: null,
  project_id: null,
  section_id: null,
  parent_id: null,
  tags: [],
  attachment_count: 0,
  is_blocked: false,
  comment_count: 0,
  subtask_count: 0,
  open_subtask_count: 0,
  ...noSeries,
  metadata: {},
  external_source: null,
  external_id: null,
  version: 1,
  revision: 1,
} as const

const countTasks = async ({ token }: Account): Promise<number | null> => {
  const { body } = await service.expect('listTasks', 200, { token, query: { include_total: true } })
  return body.total
}

t.test('createTask', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('create')
  const { token } = owner

  t.test('201 with only a title: the other fields have defaults', async (t) => {
    const { body, headers } = await service.expect('createTask', 201, { token, body: { title: 'A task' } })
    const { id, position, created_at, updated_at, ...rest } = body
    t.strictSame(rest, { ...defaults, owner_id: owner.id })
    t.match(position, /^\w+$/)
    t.equal(updated_at, created_at)
    t.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000)
    t.equal(headers.get('location'), `/tasks/${id}`)
    t.equal(headers.get('etag'), '"1.1"')
    t.equal(headers.get('idempotency-replayed'), null)
    const read = await readTask(owner, id)
    t.strictSame(read, { task: body, etag: '"1.1"' })
  })

  t.test('201 with every field', async (t) => {
    const [late, early] = [await createTag(owner, 'b late'), await createTag(owner, 'A early')]
    const fields = {
      title: 'Everything',
      description: '  kept as it is\r\n',
      status: 'in_progress',
      priority: 'urgent',
      start_at: '2026-11-02T09:00:00.000Z',
      due_at: '2026-11-02T09:00:00.000Z',
      owner_id: owner.id,
      assignee_id: assignee.id,
    } as const
    const task = await createTask(owner, { ...fields, tag_ids: [late.id, early.id] })
    t.strictSame({ ...task, ...fields }, task)
    t.strictSame(task.tags, [early, late], 'tags are sorted by name')
    t.equal(task.version, 1)
    t.strictSame((await readTask(assignee, task.id)).task, task)
  })

  t.test('201 with null for nullable fields', async (t) => {
    const task = await createTask(owner, { start_at: null, due_at: null, assignee_id: null, tag_ids: [] })
    t.match(task, defaults)
  })

  t.test('201: a title of up to 500 characters is trimmed and normalized', async (t) => {
    const titles = [
      ['  \t A task\u00a0\n', 'A task'],
      [`  ${'x'.repeat(496)}  `, 'x'.repeat(496)],
      ['\u{1f600}'.repeat(500), '\u{1f600}'.repeat(500)],
      ['e\u0301'.repeat(250), '\u00e9'.repeat(250)],
      [`<b>"it's"</b> \\ %_ $1 {} \u202e`, `<b>"it's"</b> \\ %_ $1 {} \u202e`],
    ] as const
    for (const [title, kept] of titles) t.equal((await createTask(owner, { title })).title, kept)
  })

  t.test('201 with a description of 65,536 characters', async (t) => {
    const description = '\u{1f600}'.repeat(65_536)
    const { id } = await createTask(owner, { description })
    t.equal((await readTask(owner, id)).task.description, description)
  })

  t.test('201: instants are returned in UTC with milliseconds', async (t) => {
    for (const [sent, kept] of validInstants) {
      const task = await createTask(owner, { start_at: sent, due_at: sent })
      t.strictSame([task.start_at, task.due_at], [kept, kept], sent)
    }
  })

  t.test('201: a task that is done has completed_at', async (t) => {
    const task = await createTask(owner, { status: 'done' })
    t.equal(task.completed_at, task.created_at)
  })

  t.test('201 for an administrator who creates a task for another user', async (t) => {
    const task = await createTask(admin, { owner_id: stranger.id })
    t.equal(task.owner_id, stranger.id)
    t.strictSame((await readTask(stranger, task.id)).task, task)
  })

  t.test('400 for a repeated tag, ignoring case', async (t) => {
    const tag = await createTag(owner, 'twice')
    for (const id of [tag.id, tag.id.toUpperCase()]) {
      const body = { title: 'x', tag_ids: [tag.id, id] }
      const { errors } = (await service.expect('createTask', 400, { token, body })).body
      t.match(errors, [{ pointer: '/tag_ids' }])
    }
  })

  t.test("201 with another user's tag that is visible on an assigned task", async (t) => {
    const tag = await createTag(owner, 'shared')
    await createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
    t.strictSame((await createTask(assignee, { tag_ids: [tag.id] })).tags, [tag])
  })

  t.test('400 for invalid fields', async (t) => {
    const before = await countTasks(owner)
    const cases = [
      ...invalidFields,
      ...invalidInstants.map((instant) => [{ due_at: instant }, '/due_at'] as const),
      [{ tag_ids: [unknownId, 'x'] }, '/tag_ids/1'],
      [{ tag_ids: [unknownId, unknownId] }, '/tag_ids'],
      [
        { tag_ids: Array.from({ length: 101 }, (_, n) => unknownId.slice(0, -3) + String(n + 100)) },
        '/tag_ids',
      ],
      [{ start_at: '2026-11-02T09:00:00Z', due_at: '2026-11-02T08:59:59.999Z' }, '/due_at'],
      [{ start_at: '2026-11-02T09:00:00Z', due_at: '2026-11-02T09:30:00+01:00' }, '/due_at'],
    ] as const
    for (const [fields, pointer] of cases) {
      const { body } = await service.expect('createTask', 400, {
        token,
        body: { title: 'A task', ...fields },
      })
      t.strictSame(pointersOf(body), [pointer], JSON.stringify(fields).slice(0, 60))
    }
    t.equal(await countTasks(owner), before)
  })

  t.test('403 for a member who creates a task for another user', async (t) => {
    for (const owner_id of [stranger.id, unknownId]) {
      await service.expect('createTask', 403, { token, body: { title: 'x', owner_id } })
    }
    const { body } = await service.expect('listTasks', 200, { token: stranger.token, query: { q: 'x' } })
    t.strictSame(body.items, [])
  })

  t.test('422 for unknown users, and unknown and invisible tags', async (t) => {
    const [mine, foreign] = [await createTag(owner, 'mine'), await createTag(stranger, 'foreign')]
    const before = await countTasks(owner)
    const cases = [
      [{ assignee_id: unknownId }, '/assignee_id'],
      [{ tag_ids: [unknownId] }, '/tag_ids/0'],
      [{ tag_ids: [mine.id, unknownId.toUpperCase()] }, '/tag_ids/1'],
      [{ tag_ids: [mine.id, foreign.id] }, '/tag_ids/1'],
    ] as const
    for (const [fields, pointer] of cases) {
      const { body } = await service.expect('createTask', 422, { token, body: { title: 'x', ...fields } })
      t.equal(body.code, 'unknown_reference')
      t.strictSame(pointersOf(body), [pointer])
    }
    t.equal(await countTasks(owner), before)
    const forNobody = await service.expect('createTask', 422, {
      token: admin.token,
      body: { title: 'x', owner_id: unknownId },
    })
    t.strictSame(pointersOf(forNobody.body), ['/owner_id'])
  })

  t.test('Idempotency-Key: a repeat gets the first response', async (t) => {
    const tag = await createTag(owner, 'once')
    const request: Call = {
      token,
      body: { title: ' Once ', tag_ids: [tag.id] },
      headers: { 'idempotency-key': 'once' },
    }
    const first = await service.expect('createTask', 201, request)
    t.equal(first.headers.get('idempotency-replayed'), null)
    await service.expect('updateTask', 200, {
      token,
      params: { task_id: first.body.id },
      body: { title: 'Changed since' },
    })
    const second = await service.expect('createTask', 201, request)
    t.equal(second.headers.get('idempotency-replayed'), 'true')
    t.strictSame(second.body, first.body)
    for (const name of ['location', 'etag', 'content-type', 'cache-control']) {
      t.equal(second.headers.get(name), first.headers.get(name), name)
    }
    const reordered = await service.expect('createTask', 201, {
      ...request,
      body: { tag_ids: [tag.id], title: 'Once' },
    })
    t.strictSame(reordered.body, first.body)
  })

  t.test('Idempotency-Key: belongs to one caller and one operation', async (t) => {
    const request = { body: { title: 'Mine' }, headers: { 'idempotency-key': 'k' } }
    const mine = await service.expect('createTask', 201, { ...request, token })
    const theirs = await service.expect('createTask', 201, { ...request, token: stranger.token })
    t.not(theirs.body.id, mine.body.id)
    t.equal(theirs.body.owner_id, stranger.id)
    await service.expect('createTag', 201, { token, body: { name: 'k' }, headers: request.headers })
  })

  t.test('Idempotency-Key: a rejection is not stored', async (t) => {
    const headers = { 'idempotency-key': 'refused' }
    await service.expect('createTask', 400, { token, body: { title: '' }, headers })
    await service.expect('createTask', 422, { token, body: { title: 'x', assignee_id: unknownId }, headers })
    await service.expect('createTask', 403, { token, body: { title: 'x', owner_id: stranger.id }, headers })
    const response = await service.expect('createTask', 201, { token, body: { title: 'At last' }, headers })
    t.equal(response.headers.get('idempotency-replayed'), null)
    t.equal(response.body.title, 'At last')
  })
})

t.test('getTask', async (t) => {
  const { owner, assignee } = await peopleOf('get')
  const { token } = owner
  const tag = await createTag(owner, 'seen')
  const task = await createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
  const params = { task_id: task.id }

  t.test('200 for its owner, its assignee and administrators', async (t) => {
    for (const { token } of [owner, assignee, admin]) {
      const { body, headers } = await service.expect('getTask', 200, { token, params })
      t.strictSame(body, task)
      t.equal(headers.get('etag'), '"1.1"')
      t.equal(headers.get('cache-control'), 'private, no-cache')
    }
    const { body } = await service.expect('getTask', 200, {
      token,
      params: { task_id: task.id.toUpperCase() },
    })
    t.strictSame(body, task)
  })

  t.test('400 for a malformed id', async (t) => {
    for (const task_id of ['7', `${task.id}x`, `{${task.id}}`, '\0', '%00', "' or 1=1 --"]) {
      const { body } = await service.expect('getTask', 400, { token, params: { task_id } })
      t.strictSame(pointersOf(body), ['/task_id'])
    }
  })
})

/** Tests what PUT and PATCH have in common. `complete` makes a full body from the fields under test. */
const testChange = (operation: 'replaceTask' | 'updateTask', complete: (fields: object) => object): void => {
  t.test(operation, async (t) => {
    const { owner, assignee, stranger } = await peopleOf(operation.toLowerCase())
    const { token } = owner

    const change = (task: Task, fields: object, request: Call = {}): Call => ({
      token,
      params: { task_id: task.id },
      body: complete(fields),
      ...request,
    })

    t.test('200: changes every field, and returns the new ETag', async (t) => {
      const tag = await createTag(owner, 'stays')
      const task = await createTask(owner, { tag_ids: [tag.id] })
      await clockToMove()
      const fields = {
        title: 'Everything',
        description: ' new ',
        status: 'in_progress',
        priority: 'high',
        start_at: '2026-11-02T09:00:00.000Z',
        due_at: '2026-11-02T09:00:00.000Z',
        assignee_id: assignee.id,
      } as const
      const { body, headers } = await service.expect(operation, 200, change(task, fields))
      const { updated_at, ...rest } = body
      const { updated_at: before, ...old } = task
      t.strictSame(rest, { ...old, ...fields, version: 2, revision: 2 })
      t.ok(updated_at > before)
      t.equal(headers.get('etag'), '"2.2"')
      t.strictSame(await readTask(owner, task.id), { task: body, etag: '"2.2"' })
    })

    t.test('200: a title of up to 500 characters is trimmed and normalized', async (t) => {
      const task = await createTask(owner)
      for (const [title, kept] of [
        ['  e\u0301 ', '\u00e9'],
        [`  ${'x'.repeat(496)}  `, 'x'.repeat(496)],
      ] as const) {
        t.equal((await service.expect(operation, 200, change(task, { title }))).body.title, kept)
      }
      const { body } = await service.expect('listTasks', 200, { token, query: { q: 'X'.repeat(200) } })
      t.ok(
        body.items.some(({ id }) => id === task.id),
        'the new title is found',
      )
    })

    t.test('200: completed_at is set, kept and cleared', async (t) => {
      const task = await createTask(owner)
      const setTo = async (status: string, title = 'A task') =>
        (await service.expect(operation, 200, change(task, { title, status }))).body.completed_at
      const completed = await setTo('done')
      if (completed === null) throw new Error('The task is done without completed_at')
      t.ok(completed >= task.created_at)
      await clockToMove()
      t.equal(await setTo('done', 'Done all the same'), completed)
      for (const status of ['cancelled', 'todo', 'in_progress']) {
        t.equal(await setTo(status), null, status)
        await clockToMove()
        const again = await setTo('done')
        t.ok(again !== null && again > completed, 'completed again')
      }
    })

    t.test('200: completed_at is not before created_at, even if the clock was set back', async (t) => {
      const task = await createTask(owner)
      await service.deps.db.run(
        `update tasks set created_at = later, updated_at = later
         from (select date_trunc('second', now()) + interval '1 hour' as later) clock where id = $1`,
        [task.id],
      )
      const { body } = await service.expect(operation, 200, change(task, { status: 'done' }))
      t.ok(body.created_at > task.updated_at)
      t.equal(body.completed_at, body.created_at)
      t.equal(body.updated_at, body.created_at)
    })

    t.test('200: the same values keep version and updated_at', async (t) => {
      const tag = await createTag(owner, 'unmoved')
      const fields = {
        title: 'The same',
        description: 'text',
        status: 'done',
        priority: 'low',
        start_at: '2026-11-02T09:00:00.000Z',
        due_at: '2026-11-03T09:00:00.000Z',
        owner_id: owner.id,
        assignee_id: assignee.id,
      }
      const task = await createTask(owner, { ...fields, tag_ids: [tag.id] })
      await clockToMove()
      for (const same of [
        fields,
        { ...fields, title: ' The same ', start_at: '2026-11-02T10:00:00+01:00' },
      ]) {
        const { body, headers } = await service.expect(operation, 200, change(task, same))
        t.strictSame(body, task)
        t.equal(headers.get('etag'), '"1.1"')
      }
    })

    t.test('200 for a transfer by the owner and by an administrator', async (t) => {
      const task = await createTask(owner)
      const away = await service.expect(operation, 200, change(task, { owner_id: stranger.id }))
      t.match(away.body, { owner_id: stranger.id, version: 2 })
      await service.expect('getTask', 404, { token, params: { task_id: task.id } })
      t.equal((await readTask(stranger, task.id)).task.owner_id, stranger.id)
      const back = await service.expect(
        operation,
        200,
        change(task, { owner_id: owner.id }, { token: admin.token }),
      )
      t.equal(back.body.owner_id, owner.id)
    })

    t.test('400 for invalid fields: the task is unchanged', async (t) => {
      const task = await createTask(owner, { assignee_id: assignee.id })
      const cases = [
        ...invalidFields,
        [{ tag_names: [] }, '/tag_names'],
        [{ start_at: '2026-11-02T09:00:00Z', due_at: '2026-11-02T08:59:59.999Z' }, '/due_at'],
      ] as const
      for (const [fields, pointer] of cases) {
        const { body } = await service.expect(operation, 400, change(task, fields))
        t.strictSame(pointersOf(body), [pointer], JSON.stringify(fields).slice(0, 60))
      }
      t.strictSame((await readTask(owner, task.id)).task, task)
    })

    t.test('200 for one of 12 requests with the same ETag, 412 for the others', async (t) => {
      const task = await createTask(owner)
      const replies = await Promise.all(
        Array.from({ length: 12 }, (_, n) =>
          service.call(operation, change(task, { title: `Writer ${n}` }, { headers: { 'if-match': '"1"' } })),
        ),
      )
      t.strictSame(countStatuses(replies), { 200: 1, 412: 11 })
      const winner = replies.find(({ status }) => status === 200)
      t.strictSame((await readTask(owner, task.id)).task, winner?.body)
      t.match(winner?.body, { version: 2 })
    })
  })
}

testChange('replaceTask', (fields) => ({ title: 'Replaced', ...fields }))
testChange('updateTask', (fields) => fields)

t.test('replaceTask, specific to PUT', async (t) => {
  const { owner, assignee } = await peopleOf('put')
  const { token } = owner

  t.test('200: omitted fields get their defaults, except the owner and the tags', async (t) => {
    const tag = await createTag(owner, 'kept')
    const task = await createTask(owner, {
      description: 'x',
      status: 'done',
      priority: 'high',
      start_at: '2026-11-02T09:00:00.000Z',
      due_at: '2026-11-03T09:00:00.000Z',
      assignee_id: assignee.id,
      tag_ids: [tag.id],
    })
    await attachFile(owner, task.id)
    const { body } = await service.expect('replaceTask', 200, {
      token: admin.token,
      params: { task_id: task.id },
      body: { title: 'A task' },
    })
    const { id, created_at } = task
    t.match(body, {
      ...defaults,
      id,
      created_at,
      owner_id: owner.id,
      tags: [tag],
      attachment_count: 1,
      version: 2,
      revision: 3,
    })
  })

  t.test('200: the body of GET, expanded or not, changes nothing', async (t) => {
    const { id } = await createTask(owner, {
      description: 'x',
      status: 'done',
      due_at: '2026-11-03T09:00:00.000Z',
      assignee_id: assignee.id,
      tag_names: ['stays'],
    })
    await attachFile(owner, id)
    const params = { task_id: id }
    const { task } = await readTask(owner, id)
    for (const expand of ['owner', 'owner,assignee,attachments']) {
      const query = { expand }
      const { body: expanded } = await service.expect('getTask', 200, { token, params, query })
      for (const body of [task, expanded]) {
        t.strictSame((await service.expect('replaceTask', 200, { token, params, body })).body, task)
      }
    }
    const { version: _, ...unversioned } = task
    const edited = {
      ...unversioned,
      title: 'Edited',
      tags: [],
      attachment_count: 7,
      comment_count: 7,
      id: unknownId,
    }
    const { body: after } = await service.expect('replaceTask', 200, { token, params, body: edited })
    const changed = { version: task.version + 1, revision: task.revision + 1, updated_at: after.updated_at }
    t.strictSame(after, { ...task, title: 'Edited', ...changed })
  })

  t.test('400 for malformed read-only fields', async (t) => {
    const task = await createTask(owner)
    for (const [name, value] of [
      ['id', 'x'],
      ['version', '1'],
      ['tags', {}],
      ['tags', [{}]],
      ['created_at', 'yesterday'],
      ['owner', 'ada'],
    ] as const) {
      const request = { token, params: { task_id: task.id }, body: { title: 'x', [name]: value } }
      const { body } = await service.expect('replaceTask', 400, request)
      t.match(pointersOf(body)[0], new RegExp(`^/${name}`))
    }
    const request = { token, params: { task_id: task.id }, body: { title: 'x', color: 'red' } }
    const { body } = await service.expect('replaceTask', 400, request)
    t.notMatch(body.detail, /created_at/, 'only fields with an effect are suggested')
    t.strictSame((await readTask(owner, task.id)).task, task)
  })

  t.test('412 for another version than the current one, with or without If-Match', async (t) => {
    const task = await createTask(owner)
    const put = (version: number, ifMatch?: string) =>
      service.call('replaceTask', {
        token,
        params: { task_id: task.id },
        body: { ...task, title: `Not ${version}`, version },
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
      })
    for (const reply of [
      await put(2),
      await put(2, '*'),
      await put(2, '"1"'),
      await put(1, '"2"'),
      await put(2, '"2"'),
    ])
      t.match(reply, { status: 412, body: { code: 'precondition_failed' } })
    t.strictSame((await readTask(owner, task.id)).task, task)
    t.equal((await put(1, '"2", "1"')).status, 200)
    t.equal((await put(2, '*')).status, 200)
    t.equal((await put(3)).status, 200)
    const replies = await Promise.all(Array.from({ length: 8 }, () => put(4)))
    t.strictSame(countStatuses(replies), { 200: 1, 412: 7 }, 'requests at the same time')
  })
})

t.test('updateTask, specific to PATCH', async (t) => {
  const { owner, assignee } = await peopleOf('patch')
  const { token } = owner
  const full = {
    description: 'x',
    priority: 'high',
    start_at: '2026-11-02T09:00:00.000Z',
    due_at: '2026-11-03T09:00:00.000Z',
    assignee_id: assignee.id,
  }

  t.test('200: omitted fields stay', async (t) => {
    const task = await createTask(owner, full)
    const { body } = await service.expect('updateTask', 200, {
      token,
      params: { task_id: task.id },
      body: { priority: 'low' },
    })
    t.strictSame(body, { ...task, priority: 'low', version: 2, revision: 2, updated_at: body.updated_at })
  })

  t.test('200 for an empty patch, which changes nothing', async (t) => {
    const task = await createTask(owner, full)
    const { body } = await service.expect('updateTask', 200, {
      token,
      params: { task_id: task.id },
      body: {},
    })
    t.strictSame(body, task)
  })

  t.test('400 for null in a field that cannot be null', async (t) => {
    const task = await createTask(owner)
    for (const name of ['title', 'description', 'status', 'priority', 'owner_id']) {
      const request = { token, params: { task_id: task.id }, body: { [name]: null } }
      t.strictSame(pointersOf((await service.expect('updateTask', 400, request)).body), [`/${name}`])
    }
    t.strictSame((await readTask(owner, task.id)).task, task)
  })

  t.test('200: null clears a field', async (t) => {
    for (const name of ['start_at', 'due_at', 'assignee_id']) {
      const task = await createTask(owner, full)
      const { body } = await service.expect('updateTask', 200, {
        token,
        params: { task_id: task.id },
        body: { [name]: null },
      })
      t.strictSame(body, { ...task, [name]: null, version: 2, revision: 2, updated_at: body.updated_at })
    }
  })

  t.test('200 for both media types', async (t) => {
    const task = await createTask(owner)
    for (const type of [
      'application/merge-patch+json',
      'application/json',
      'Application/Merge-Patch+JSON; charset=utf-8',
    ]) {
      const { body } = await service.expect('updateTask', 200, {
        token,
        params: { task_id: task.id },
        body: JSON.stringify({ title: type, due_at: null }),
        headers: { 'content-type': type },
      })
      t.equal(body.title, type)
    }
  })

  t.test('200 for assignees who unassign themselves, who then get 404', async (t) => {
    const task = await createTask(owner, full)
    const request = { token: assignee.token, params: { task_id: task.id } }
    const { body } = await service.expect('updateTask', 200, { ...request, body: { assignee_id: null } })
    t.equal(body.assignee_id, null)
    await service.expect('getTask', 404, request)
  })

  t.test('400 for due before start, with only one of them in the patch', async (t) => {
    const task = await createTask(owner, full)
    const params = { task_id: task.id }
    for (const patch of [{ due_at: '2026-11-02T08:59:59.999Z' }, { start_at: '2026-11-03T09:00:00.001Z' }]) {
      const { body } = await service.expect('updateTask', 400, { token, params, body: patch })
      t.strictSame(pointersOf(body), ['/due_at'])
    }
    t.strictSame((await readTask(owner, task.id)).task, task)
    await service.expect('updateTask', 200, {
      token,
      params,
      body: { due_at: null, start_at: '2026-11-03T09:00:00.001Z' },
    })
  })

  t.test('expect', (t) => testExpectations(t, { owner, assignee }))

  t.test('patches of different fields at the same time are all applied', async (t) => {
    const task = await createTask(owner)
    const patches = [
      { title: 'Together' },
      { description: 'all of it' },
      { status: 'done' },
      { priority: 'urgent' },
      { start_at: '2026-11-02T09:00:00.000Z' },
      { due_at: '2026-11-03T09:00:00.000Z' },
      { assignee_id: assignee.id },
    ]
    const params = { task_id: task.id }
    const responses = await Promise.all(
      patches.map((body) => service.expect('updateTask', 200, { token, params, body })),
    )
    const { task: after } = await readTask(owner, task.id)
    t.match(after, Object.assign({ version: 8 }, ...patches) as object)
    for (const [n, { body }] of responses.entries())
      t.match(body, patches[n], 'each response has its own change')
  })

  t.test('one ETag never has two bodies, even while tags change', async (t) => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const tagIds = await Promise.all(names.map(async (name) => (await createTag(owner, name)).id))
    for (let round = 0; round < 50; round += 1) {
      const { id } = await createTask(owner, { tag_ids: tagIds.slice(3) })
      const bodies = await raceWithTags(owner, id, tagIds)
      for (const [etag, seen] of bodies)
        t.equal(seen.size, 1, `round ${round}, ETag ${etag}: ${[...seen].join(' or ')}`)
    }
  })
})

const testExpectations = async (
  t: Test,
  { owner, assignee }: Record<'owner' | 'assignee', Account>,
): Promise<void> => {
  const { token } = owner
  const [red, blue] = [await createTag(owner, 'expected red'), await createTag(owner, 'expected blue')]
  const parent = await createTask(owner)
  const project = (await service.expect('createProject', 201, { token, body: { name: 'Expected' } })).body
  const section = await service.expect('createSection', 201, {
    token,
    params: { project_id: project.id },
    body: { name: 'Expected' },
  })
  const fields = {
    title: 'Caf\u00e9',
    description: 'x',
    priority: 'high',
    start_at: '2026-11-30T00:00:00.000Z',
    due_at: '2026-12-01T00:00:00.000Z',
    assignee_id: assignee.id,
    parent_id: parent.id,
    recurrence: { rule: 'FREQ=WEEKLY;INTERVAL=2', time_zone: 'Europe/Berlin' },
    metadata: { sprint: '5', ticket: 'A-7' },
    external_source: 'jira',
    external_id: 'A-7',
    tag_ids: [red.id, blue.id],
  }
  const patch = (task_id: string, body: object, more: Call = {}) =>
    service.call('updateTask', { token, params: { task_id }, body, ...more })
  const conflictsOf = async (task_id: string, expect: object) => {
    const { body } = await service.expect('updateTask', 412, {
      token,
      params: { task_id },
      body: { title: 'Never', expect },
    })
    t.equal(body.code, 'precondition_failed')
    return body.conflicts
  }
  const task = await createTask(owner, fields)
  const recurrence = {
    rule: 'FREQ=WEEKLY;INTERVAL=2',
    time_zone: 'Europe/Berlin',
    from: 'schedule',
    month_end: 'last_day',
    missed: 'skip',
    anchor: 'start',
  }

  t.test('200 if it holds after normalization, and without other fields nothing is changed', async (t) => {
    for (const expect of [
      {},
      { ...fields, status: 'todo', owner_id: owner.id, project_id: null, section_id: null, due_on: null },
      { title: '  Cafe\u0301 ' },
      { start_at: '2026-11-30T01:00:00+01:00', start_on: null },
      { owner_id: 'me', assignee_id: assignee.id.toUpperCase(), parent_id: parent.id.toUpperCase() },
      { tag_ids: [blue.id.toUpperCase(), red.id] },
      { metadata: { ticket: 'A-7', unknown: null } },
      { metadata: {} },
      { recurrence },
      { recurrence: { rule: 'RRULE:INTERVAL=2;FREQ=WEEKLY;BYDAY=MO', time_zone: 'Europe/Berlin' } },
    ]) {
      const { status, body } = await patch(task.id, { expect })
      t.equal(status, 200, JSON.stringify(expect))
      t.strictSame(body, task)
    }
    const inSection = await createTask(owner, { project_id: project.id, section_id: section.body.id })
    const expect = { project_id: project.id, section_id: section.body.id, tag_ids: [], recurrence: null }
    t.match(await patch(inSection.id, { title: 'Changed', expect }), {
      status: 200,
      body: { title: 'Changed' },
    })
  })

  t.test('412 with each field that has another value, and nothing is changed', async (t) => {
    for (const [expect, conflicts] of [
      [{ title: 'caf\u00e9' }, [{ field: 'title', current: fields.title }]],
      [{ description: '' }, [{ field: 'description', current: 'x' }]],
      [{ status: 'done', priority: 'high' }, [{ field: 'status', current: 'todo' }]],
      [{ start_at: '2026-11-30T00:00:00.001Z' }, [{ field: 'start_at', current: fields.start_at }]],
      [
        { start_at: null, due_on: '2026-12-01' },
        [
          { field: 'start_at', current: fields.start_at },
          { field: 'due_on', current: null },
        ],
      ],
      [{ owner_id: assignee.id }, [{ field: 'owner_id', current: owner.id }]],
      [{ assignee_id: null }, [{ field: 'assignee_id', current: assignee.id }]],
      [{ project_id: project.id }, [{ field: 'project_id', current: null }]],
      [{ parent_id: null }, [{ field: 'parent_id', current: parent.id }]],
      [{ external_id: null }, [{ field: 'external_id', current: 'A-7' }]],
      [{ tag_ids: [red.id] }, [{ field: 'tag_ids', current: [red.id, blue.id].toSorted() }]],
      [
        { metadata: { sprint: '4', ticket: 'A-7', more: 'x' } },
        [
          { field: 'metadata.sprint', current: '5' },
          { field: 'metadata.more', current: null },
        ],
      ],
      [{ metadata: { sprint: null } }, [{ field: 'metadata.sprint', current: '5' }]],
      [{ recurrence: null }, [{ field: 'recurrence', current: recurrence }]],
      [{ recurrence: { ...recurrence, anchor: 'due' } }, [{ field: 'recurrence', current: recurrence }]],
      [{ recurrence: { rule: recurrence.rule } }, [{ field: 'recurrence', current: recurrence }]],
    ] as const)
      t.strictSame(await conflictsOf(task.id, expect), conflicts, JSON.stringify(expect))
    t.strictSame((await readTask(owner, task.id)).task, task)
  })

  t.test(
    '412 if either If-Match, version or expect does not hold, with the conflicts if that is one',
    async (t) => {
      const conflicts = [{ field: 'title', current: fields.title }]
      const stale = { headers: { 'if-match': '"0"' } }
      const current = { headers: { 'if-match': '"1"' } }
      const expected = { expect: { title: fields.title } }
      const other = { expect: { title: 'Other' } }
      t.match(await patch(task.id, other, current), { status: 412, body: { conflicts } })
      t.match(await patch(task.id, other, stale), { status: 412, body: { conflicts } })
      t.match(await patch(task.id, { ...other, version: 7 }), { status: 412, body: { conflicts } })
      const { status, body } = await patch(task.id, expected, stale)
      t.equal(status, 412)
      t.notOk(Object.hasOwn(body as object, 'conflicts'))
      t.match(await patch(task.id, expected, current), { status: 200 })
    },
  )

  t.test('400 for values and fields that a patch cannot have, in expect', async (t) => {
    for (const [expect, pointers] of [
      [{ title: null, status: 'open' }, ['/expect/title', '/expect/status']],
      [{ start_at: '2026-11-30' }, ['/expect/start_at']],
      [{ nonsense: 1 }, ['/expect/nonsense']],
      [{ version: 1 }, ['/expect/version']],
      [{ id: task.id, created_at: task.created_at }, ['/expect/id', '/expect/created_at']],
      [{ metadata: { 'not a key': 'x' } }, ['/expect/metadata/not a key']],
      [{ recurrence: {} }, ['/expect/recurrence/rule']],
      [{ recurrence: { rule: 'FREQ=NEVER' } }, ['/expect/recurrence/rule']],
      [null, ['/expect']],
    ] as const) {
      const request = { token, params: { task_id: task.id }, body: { expect } }
      const { body } = await service.expect('updateTask', 400, request)
      t.strictSame(pointersOf(body).toSorted(), pointers.toSorted(), JSON.stringify(expect))
    }
    const put = { token, params: { task_id: task.id }, body: { title: 'x', expect: { title: 'x' } } }
    t.strictSame(pointersOf((await service.expect('replaceTask', 400, put)).body), ['/expect'])
  })

  t.test('404, 403 and 422 of the task come before and after it', async () => {
    const body = { owner_id: unknownId, expect: { title: 'Other' } }
    const params = { task_id: task.id }
    const stranger = await service.register('expect-stranger')
    await service.expect('updateTask', 404, { token: stranger.token, params, body })
    await service.expect('updateTask', 403, { token: assignee.token, params, body })
    await service.expect('updateTask', 412, { token, params, body })
    await service.expect('updateTask', 422, { token, params, body: { owner_id: unknownId, expect: {} } })
  })

  t.test('of several writers, those of different fields and one of each field succeed', async (t) => {
    const raced = await createTask(owner)
    const expected = { title: raced.title, priority: 'none', status: 'todo', description: '' } as const
    const values = {
      title: ['a', 'b', 'c'],
      priority: ['low', 'high'],
      status: ['done'],
      description: ['d', 'e'],
    }
    const replies = await Promise.all(
      Object.entries(values).flatMap(([field, wanted]) =>
        wanted.map(async (value) => {
          const expect = Object.fromEntries(Object.entries(expected).filter(([name]) => name === field))
          const { status, body } = await patch(raced.id, { [field]: value, expect })
          return { field, value, status, body: body as { readonly conflicts?: object } }
        }),
      ),
    )
    const { task: after } = await readTask(owner, raced.id)
    for (const field of Object.keys(values)) {
      const own = replies.filter((reply) => reply.field === field)
      const [winner, ...others] = own.filter(({ status }) => status === 200)
      t.strictSame(others, [], field)
      t.match(after, { [field]: winner?.value })
      for (const { status, body } of own.filter((reply) => reply !== winner)) {
        t.equal(status, 412)
        t.strictSame(body.conflicts, [{ field, current: winner?.value }])
      }
    }
    t.equal(after.version, 5)
  })

  t.test('what conflicts show to an administrator alone is audited', async (t) => {
    const auditedBy = async (request: () => Promise<Reply>) => {
      const reply = await request()
      const query = { action: ['task.read_by_admin'], limit: 50 }
      const events = (await service.expect('listAuditEvents', 200, { token: admin.token, query })).body.items
      return events.filter(({ request_id }) => request_id === reply.headers.get('x-request-id'))
    }
    const expect = { title: 'Other' }
    const byAdmin = { token: admin.token }
    const single = { ...byAdmin, params: { task_id: task.id }, body: { expect } }
    const items = [{ task_id: task.id, patch: { assignee_id: admin.id }, expect }]
    const batch = { ...byAdmin, body: { update: items } }
    for (const request of [
      () => service.call('updateTask', single),
      () => service.call('batchTasks', batch),
      () => service.call('batchTasks', { ...byAdmin, body: { update: items, atomic: true } }),
    ])
      t.match(await auditedBy(request), [{ actor_id: admin.id, user_id: owner.id }])
    const own = { token: admin.token, body: { update: [{ task_id: task.id, patch: {} }] } }
    t.strictSame(await auditedBy(() => service.call('batchTasks', own)), [])
  })
}

/** Changes and reads a task while its tags change. Returns the bodies seen with each ETag. */
const raceWithTags = async (
  { token }: Account,
  task_id: string,
  tagIds: readonly string[],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> => {
  const bodies = new Map<string, Set<string>>()
  const params = { task_id }
  const record = (etag: string, body: unknown) =>
    bodies.set(etag, (bodies.get(etag) ?? new Set()).add(JSON.stringify(body)))
  const recordReply = ({ headers, body }: Pick<Reply, 'headers' | 'body'>) =>
    record(headers.get('etag') ?? '', body)
  const read = async () => recordReply(await service.expect('getTask', 200, { token, params }))
  const readList = async () => {
    const { body } = await service.expect('listTasks', 200, { token, query: { limit: 1 } })
    for (const task of body.items) record(`"${task.version}.${task.revision}"`, task)
  }
  const patch = async (title: string) =>
    recordReply(await service.expect('updateTask', 200, { token, params, body: { title } }))
  const put = async (title: string) =>
    recordReply(await service.expect('replaceTask', 200, { token, params, body: { title } }))

  // Writes that wait for the tag changes start before them and finish last, so the final read has the version that they return.
  await Promise.all([
    ...tagIds.map((tag_id, n) =>
      service.call(n < 3 ? 'addTaskTag' : 'removeTaskTag', { token, params: { task_id, tag_id } }),
    ),
    patch('Patched'),
    put('Replaced'),
    readList(),
  ])
  await read()
  return bodies
}

t.test('deleteTask', async (t) => {
  const { owner, assignee } = await peopleOf('delete')
  const { token } = owner
  const request = (task: Task, options: Call = {}): Call => ({
    token,
    params: { task_id: task.id },
    ...options,
  })

  t.test('204 for its owner and administrators', async (t) => {
    for (const account of [owner, admin]) {
      const tag = await createTag(owner, `survives ${account.user.username}`)
      const task = await createTask(owner, { assignee_id: assignee.id, tag_ids: [tag.id] })
      const attach_id = await attachFile(owner, task.id)
      await service.expect('deleteTask', 204, request(task, { token: account.token }))
      for (const { token } of [owner, assignee, admin])
        await service.expect('getTask', 404, request(task, { token }))
      await service.expect('downloadAttachment', 404, { token, params: { attach_id } })
      await service.expect('getTag', 200, { token, params: { tag_id: tag.id } })
      await service.expect('deleteTask', 404, request(task))
      const { body } = await service.expect('listTasks', 200, { token })
      t.notOk(body.items.some(({ id }) => id === task.id))
    }
  })

  t.test('204 for one of several requests at the same time, 404 for the others', async (t) => {
    const task = await createTask(owner)
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => service.call('deleteTask', request(task))),
    )
    t.strictSame(countStatuses(replies), { 204: 1, 404: 7 })
  })
})

t.test(
  'every visible change sets a new revision and updated_at, and what clients write a new version',
  async (t) => {
    const { owner, assignee } = await peopleOf('version')
    const { token } = owner
    const tag = await createTag(owner, 'moving')
    const task = await createTask(owner)
    const link = { token, params: { task_id: task.id, tag_id: tag.id } }
    let attach_id = ''
    let version = 1
    let revision = 1
    let last = task.updated_at

    const expectNewRevision = async (what: string, change: () => Promise<unknown>): Promise<void> => {
      await clockToMove()
      await change()
      const { task: after, etag } = await readTask(owner, task.id)
      revision += 1
      t.match(after, { version, revision }, what)
      t.equal(etag, `"${version}.${revision}"`)
      t.ok(after.updated_at > last, `${what}: updated_at`)
      last = after.updated_at
    }
    const expectNewVersion = async (what: string, change: () => Promise<unknown>): Promise<void> => {
      version += 1
      await expectNewRevision(what, change)
    }
    const expectUnchanged = async (what: string, change: () => Promise<unknown>): Promise<void> => {
      const before = await readTask(owner, task.id)
      await clockToMove()
      await change()
      t.strictSame(await readTask(owner, task.id), before, what)
    }

    await expectNewVersion('a tag is added', () => service.expect('addTaskTag', 204, link))
    await expectUnchanged('a tag is added again', () => service.expect('addTaskTag', 204, link))
    await expectNewVersion('a tag is removed', () => service.expect('removeTaskTag', 204, link))
    await expectUnchanged('a tag is removed again', () => service.expect('removeTaskTag', 404, link))
    await expectNewVersion('a removed tag is added', () => service.expect('addTaskTag', 204, link))
    await expectNewVersion('a tag is deleted', () =>
      service.expect('deleteTag', 204, { token, params: { tag_id: tag.id } }),
    )
    await expectNewRevision('an attachment is added', async () => {
      attach_id = await attachFile(owner, task.id)
    })
    await expectUnchanged('an attachment is rejected', () =>
      service.expect('addTaskAttachment', 413, {
        token,
        params: { task_id: task.id },
        body: fileForm('x'.repeat(1_048_577)),
      }),
    )
    await expectNewRevision('an attachment is deleted', () =>
      service.expect('deleteAttachment', 204, { token, params: { attach_id } }),
    )
    const subtask = await createTask(owner)
    const asSubtask = (parent_id: string | null) => () =>
      service.expect('updateTask', 200, { token, params: { task_id: subtask.id }, body: { parent_id } })
    await expectNewRevision('a subtask is added', asSubtask(task.id))
    await expectNewRevision('a subtask is removed', asSubtask(null))
    const comment = { token, params: { task_id: task.id }, body: { body: 'A comment' } }
    await expectNewRevision('a comment is added', () => service.expect('createComment', 201, comment))
    await expectUnchanged('a reminder is added', () =>
      service.expect('createReminder', 201, { ...comment, body: { at: '2090-01-01T00:00:00Z' } }),
    )
    await expectNewVersion('the assignee is set', () =>
      service.expect('updateTask', 200, {
        token,
        params: { task_id: task.id },
        body: { assignee_id: assignee.id },
      }),
    )
    const theirs = await createTag(assignee, 'theirs')
    const theirLink = { token: assignee.token, params: { task_id: task.id, tag_id: theirs.id } }
    await expectNewVersion('a tag of the assignee is added', () =>
      service.expect('addTaskTag', 204, theirLink),
    )
    const before = await readTask(owner, task.id)
    await service.expect('deleteUser', 204, { token: assignee.token, params: { user_id: assignee.id } })
    const after = await readTask(owner, task.id)
    t.match(after.task, { assignee_id: null, tags: [] }, 'the deleted assignee and their tag are removed')
    t.ok(after.task.version > before.task.version)
    t.not(after.etag, before.etag)
  },
)

const titles = (items: readonly Task[]): string[] => items.map(({ title }) => title)

t.test('listTasks', async (t) => {
  const { owner, assignee, stranger } = await peopleOf('list')
  const [red, blue] = [await createTag(owner, 'red'), await createTag(owner, 'blue')]
  const tasks = {
    plain: await createTask(owner, { title: 'plain' }),
    urgent: await createTask(owner, { title: 'urgent', priority: 'urgent', tag_ids: [red.id] }),
    done: await createTask(owner, { title: 'done', status: 'done', tag_ids: [red.id, blue.id] }),
    given: await createTask(owner, { title: 'given', assignee_id: assignee.id, priority: 'high' }),
    foreign: await createTask(stranger, { title: 'foreign' }),
  }
  const list = async (query: Call['query'] = {}, { token } = owner) =>
    titles((await service.expect('listTasks', 200, { token, query })).body.items)

  t.test('200: own and assigned tasks, newest first', async (t) => {
    const { body, headers } = await service.expect('listTasks', 200, { token: owner.token })
    t.strictSame(body, {
      items: [tasks.given, tasks.done, tasks.urgent, tasks.plain],
      next_cursor: null,
      prev_cursor: null,
      total: null,
    })
    t.equal(headers.get('link'), '</tasks?limit=50>; rel="first"')
    t.strictSame(await list({}, assignee), ['given'])
    t.strictSame(await list({}, stranger), ['foreign'])
  })

  t.test("200: an administrator's own tasks, or everybody's with all=true", async (t) => {
    const manager = await service.register('list-manager')
    await setRole(manager, 'admin')
    const own = await createTask(manager, { title: 'own' })
    await createTask(stranger, { title: 'for the manager', assignee_id: manager.id })
    t.strictSame(await list({}, manager), ['for the manager', 'own'])
    t.strictSame(await list({ all: false, q: 'own' }, manager), ['own'])
    t.strictSame(await list({ assignee_id: assignee.id }, manager), [])
    t.strictSame(await list({ assignee_id: assignee.id, all: true }, manager), ['given'])
    const all = await list({ limit: 200, all: true }, manager)
    for (const title of ['foreign', 'plain', 'own']) t.ok(all.includes(title), title)

    const { token } = manager
    const { body, headers } = await service.expect('listTasks', 200, {
      token,
      query: { all: true, limit: 1 },
    })
    t.match(headers.get('link'), '</tasks?all=true&limit=1>; rel="first"')
    const cursor = body.next_cursor ?? ''
    await service.expect('listTasks', 200, { token, query: { all: true, cursor } })
    await service.expect('listTasks', 400, { token, query: { cursor } })

    const { body: expanded } = await service.expect('listTasks', 200, { token, query: { expand: 'owner' } })
    t.strictSame(
      expanded.items.map((task) => task.owner?.email),
      [stranger.email, manager.email],
      'administrators see email addresses in their own lists, too',
    )
    t.equal(expanded.items[1]?.id, own.id)
  })

  t.test('403 for all=true by other users', async (t) => {
    const { body } = await service.expect('listTasks', 403, { token: owner.token, query: { all: true } })
    t.match(body, { code: 'forbidden', detail: /Only administrators/ })
    t.strictSame(await list({ all: false, q: 'plain' }), ['plain'])
  })

  t.test('200 with filters', async (t) => {
    const cases: readonly (readonly [Call['query'], readonly string[]])[] = [
      [{ status: 'done' }, ['done']],
      [{ status: ['done', 'todo'] }, ['given', 'done', 'urgent', 'plain']],
      [{ status: 'cancelled' }, []],
      [{ priority: 'urgent' }, ['urgent']],
      [{ priority: ['high', 'urgent', 'urgent'] }, ['given', 'urgent']],
      [{ assignee_id: assignee.id }, ['given']],
      [{ assignee_id: [assignee.id.toUpperCase(), unknownId] }, ['given']],
      [{ assignee_id: unknownId }, []],
      [{ tag_id: red.id }, ['done', 'urgent']],
      [{ tag_id: [blue.id, red.id] }, ['done', 'urgent']],
      [{ tag_id: blue.id.toUpperCase() }, ['done']],
      [{ tag_id: unknownId }, []],
      [{ tag_id: red.id, status: 'todo' }, ['urgent']],
      [{ q: 'n', status: ['todo', 'done'], tag_id: [red.id], priority: 'none' }, ['done']],
      ['tag_id=&tag_id='.replaceAll('=', `=${red.id}`), ['done', 'urgent']],
    ]
    for (const [query, expected] of cases) t.strictSame(await list(query), expected, JSON.stringify(query))
  })

  t.test('200: the total counts the visible tasks that match the filter', async (t) => {
    const total = async ({ token }: Account, query: object = {}) =>
      (await service.expect('listTasks', 200, { token, query: { include_total: true, limit: 1, ...query } }))
        .body.total
    t.equal(await total(owner), 4)
    t.equal(await total(owner, { offset: 3 }), 4)
    t.equal(await total(owner, { offset: 100_000 }), 4)
    t.equal(await total(owner, { tag_id: red.id }), 2)
    t.equal(await total(owner, { status: 'cancelled' }), 0)
    t.equal(await total(assignee), 1)
    t.equal(await total(stranger, { tag_id: red.id }), 0)
    t.ok(((await total(admin, { all: true })) ?? 0) >= 5)
    const { body } = await service.expect('listTasks', 200, {
      token: owner.token,
      query: { include_total: false },
    })
    t.equal(body.total, null)
  })

  t.test('400 for invalid filters', async (t) => {
    const cases = [
      ['status=todo&status=open', '/status/1'],
      [Array(11).fill('status=todo').join('&'), '/status'],
      [Array(101).fill(`tag_id=${red.id}`).join('&'), '/tag_id'],
      ['q=a&q=b', '/q'],
      ['status[]=todo', '/status[]'],
      ['Status=todo', '/Status'],
      ['__proto__=1', '/__proto__'],
      ['constructor=1', '/constructor'],
      ['=', '/'],
    ] as const
    for (const [query, pointer] of cases) {
      const { body } = await service.expect('listTasks', 400, { token: owner.token, query })
      t.strictSame(pointersOf(body), [pointer], query.slice(0, 40))
    }
  })
})
