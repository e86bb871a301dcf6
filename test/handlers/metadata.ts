import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { type Account, type Reply, startService } from '../fixture/service.ts'
import { pointersOf, taskActions } from '../fixture/tasks.ts'

/** `metadata`, `external_source` and `external_id` of tasks and projects: what other programs keep with them. */

type Problem = components['schemas']['Problem']
type Fields = Readonly<Record<string, unknown>>

const service = await startService(t)
const { createTask } = taskActions(service)
await service.register('admin')
const ada = await service.register('ada')

/** A kind of resource with these fields, and its operations. */
interface Kind {
  readonly create: (account: Account, fields: object) => Promise<Reply>
  readonly patch: (account: Account, id: string, fields: object) => Promise<Reply>
  readonly put: (account: Account, id: string, fields: object) => Promise<Reply>
  readonly filtered: (account: Account, filter: string) => Promise<Reply>
  /** The values after the change that the last event of this type recorded, and before it. */
  readonly recorded: (account: Account, id: string, type: string) => Promise<Fields | undefined>
}

const kinds: Readonly<Record<'tasks' | 'projects', Kind>> = {
  tasks: {
    create: ({ token }, fields) =>
      service.call('createTask', { token, body: { title: 'A task', ...fields } }),
    patch: ({ token }, task_id, body) => service.call('updateTask', { token, params: { task_id }, body }),
    put: ({ token }, task_id, fields) =>
      service.call('replaceTask', { token, params: { task_id }, body: { title: 'A task', ...fields } }),
    filtered: ({ token }, filter) => service.call('listTasks', { token, query: { filter } }),
    recorded: async ({ token }, task_id, type) => {
      const { body } = await service.expect('listTaskEvents', 200, { token, params: { task_id } })
      const event = body.items.find((one) => one.type === `task.${type}`)
      return event && { before: event.before, after: event.after }
    },
  },
  projects: {
    create: ({ token }, fields) =>
      service.call('createProject', { token, body: { name: 'A project', ...fields } }),
    patch: ({ token }, project_id, body) =>
      service.call('updateProject', { token, params: { project_id }, body }),
    put: ({ token }, project_id, fields) =>
      service.call('replaceProject', {
        token,
        params: { project_id },
        body: { name: 'A project', ...fields },
      }),
    filtered: ({ token }, filter) => service.call('listProjects', { token, query: { filter } }),
    recorded: async ({ token }, project_id, type) => {
      const query = { project_id: [project_id], type: [`project.${type}`] }
      const { body } = await service.expect('listEvents', 200, { token, query })
      const [event] = body.items
      return event && { before: event.before, after: event.after }
    },
  },
}

/** What the tests read of a resource, a list or a problem. */
interface Read extends Fields, Pick<Problem, 'errors'> {
  readonly id: string
  readonly items: readonly { readonly id: string }[]
}
const bodyOf = ({ body }: Reply): Read => body as Read

const keys = (count: number): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, '']))
/** 17 keys, with 8,192 bytes in all. */
const largest = {
  ...Object.fromEntries(Array.from({ length: 16 }, (_, n) => [String.fromCharCode(97 + n), 'v'.repeat(500)])),
  z: 'v'.repeat(8_192 - 16 * 501 - 1),
}

/** Metadata that is refused, and the pointer of the problem. */
const refused: readonly (readonly [object | string | number, string])[] = [
  ['text', '/metadata'],
  [['a'], '/metadata'],
  [{ a: 1 }, '/metadata/a'],
  [{ a: ['b'] }, '/metadata/a'],
  [{ a: 'v'.repeat(501) }, '/metadata/a'],
  [{ a: '\u0000' }, '/metadata/a'],
  [{ A: '' }, '/metadata/A'],
  [{ '1a': '' }, '/metadata/1a'],
  [{ _a: '' }, '/metadata/_a'],
  [{ 'a/b~': '' }, '/metadata/a~1b~0'],
  [{ '': '' }, '/metadata/'],
  [{ ['a'.repeat(41)]: '' }, `/metadata/${'a'.repeat(41)}`],
  [keys(51), '/metadata'],
  [{ ...largest, z: `${largest.z}v` }, '/metadata'],
  [{ ...largest, z: 'ü'.repeat(150) }, '/metadata'],
]

for (const [kind, { create, patch, put, filtered, recorded }] of Object.entries(kinds)) {
  t.test(`metadata of ${kind}`, async (t) => {
    const created = async (fields: object): Promise<Read> => {
      const reply = await create(ada, fields)
      t.equal(reply.status, 201)
      return bodyOf(reply)
    }

    t.test('is empty by default', async (t) => {
      const resource = await created({})
      t.match(resource, { metadata: {}, external_source: null, external_id: null })
      t.match(await recorded(ada, resource.id, 'created'), {
        after: { metadata: undefined, external_id: undefined },
      })
    })

    t.test('can be created, merged, replaced and removed', async (t) => {
      const external = { external_source: 'jira', external_id: 'WEB-12' }
      const { id, ...resource } = await created({ metadata: { a: '1', b: '2' }, ...external })
      t.match(resource, { metadata: { a: '1', b: '2' }, ...external, version: 1 })
      t.match(await recorded(ada, id, 'created'), { after: { metadata: { a: '1', b: '2' }, ...external } })
      /** What is sent, and the metadata and the version after it. */
      const changes: readonly (readonly [object, object, number])[] = [
        [{ a: '3', b: null, c: '' }, { a: '3', c: '' }, 2],
        [{}, { a: '3', c: '' }, 2],
        [{ c: '', none: null }, { a: '3', c: '' }, 2],
        [{ a: null, c: null }, {}, 3],
        [{ constructor: 'x', cafe: 'cafe\u0301' }, { constructor: 'x', cafe: 'caf\u00e9' }, 4],
      ]
      for (const [metadata, after, version] of changes) {
        const reply = await patch(ada, id, { metadata })
        t.equal(reply.status, 200)
        const body = bodyOf(reply)
        t.strictSame({ ...Object(body.metadata) }, after)
        t.match(body, { version, ...external })
      }
      t.strictSame(await recorded(ada, id, 'updated'), {
        before: { metadata: {} },
        after: { metadata: { constructor: 'x', cafe: 'caf\u00e9' } },
      })
      t.match(bodyOf(await put(ada, id, { metadata: { d: '4' }, external_id: '7' })), {
        metadata: { cafe: undefined, d: '4' },
        external_source: null,
        external_id: '7',
        version: 5,
      })
      t.match(bodyOf(await put(ada, id, { metadata: { d: '4' }, external_id: '7' })), { version: 5 })
      t.match(bodyOf(await put(ada, id, {})), { metadata: { d: undefined }, external_id: null, version: 6 })
    })

    t.test('200: the largest values, in any spelling of JSON', async (t) => {
      const { id } = await created({})
      const metadata = Object.fromEntries(
        Array.from({ length: 4 }, (_, n) => [`k${n}`, '\u{1f4c5}'.repeat(500)] as const),
      )
      const body = JSON.stringify({ metadata }).replaceAll(
        /[^ -~]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16)}`,
      )
      const path = `${service.url}/${kind}/${id}`
      const headers = { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' }
      const response = await fetch(path, { method: 'PATCH', headers, body })
      t.equal(response.status, 200)
      t.match(await response.json(), { metadata })
    })

    t.test('400: is bounded', async (t) => {
      const { id } = await created({ metadata: keys(50) })
      t.equal((await put(ada, id, { metadata: largest })).status, 200)
      for (const [metadata, pointer] of refused)
        for (const write of [create, (account: Account, fields: object) => patch(account, id, fields)]) {
          const reply = await write(ada, { metadata })
          t.equal(reply.status, 400)
          t.strictSame(pointersOf(bodyOf(reply)), [pointer])
        }
      for (const [fields, pointer] of [
        [{ external_source: 'x'.repeat(101) }, '/external_source'],
        [{ external_id: 'x'.repeat(501) }, '/external_id'],
        [{ external_id: '' }, '/external_id'],
        [{ metadata: null }, '/metadata'],
      ] as const)
        t.strictSame(pointersOf(bodyOf(await patch(ada, id, fields))), [pointer])
      // The bound is that of the result.
      t.strictSame(pointersOf(bodyOf(await patch(ada, id, { metadata: { y: '' } }))), ['/metadata'])
      t.equal((await patch(ada, id, { metadata: { y: '', a: null } })).status, 200)
      t.equal((await put(ada, id, { metadata: keys(50) })).status, 200)
      t.strictSame(pointersOf(bodyOf(await patch(ada, id, { metadata: { y: '' } }))), ['/metadata'])
      t.equal((await patch(ada, id, { metadata: { y: '', k7: null } })).status, 200)
    })

    t.test('filters lists', async (t) => {
      const account = await service.register(`filters-${kind}`)
      const fields = [
        { metadata: { customer_id: '42', tier: 'gold*' }, external_source: 'jira', external_id: 'WEB-1' },
        { metadata: { customer_id: '43' }, external_source: 'trello', external_id: 'WEB-1' },
        { metadata: { note: 'Two words' } },
        {},
      ]
      const ids: string[] = []
      for (const one of fields) ids.push(bodyOf(await create(account, one)).id)
      const cases: Readonly<Record<string, readonly number[]>> = {
        'metadata.customer_id = "42"': [0],
        'metadata.customer_id:42': [0],
        'metadata.customer_id != 42': [1],
        'NOT metadata.customer_id = 42': [1, 2, 3],
        'metadata:customer_id': [0, 1],
        'metadata.customer_id:*': [0, 1],
        'NOT metadata:customer_id': [2, 3],
        'metadata:*': [0, 1, 2],
        'NOT metadata:*': [3],
        'metadata.note = "Two words"': [2],
        'metadata.note = "two words"': [],
        [String.raw`metadata.tier = "gold\*"`]: [0],
        'external_source = jira': [0],
        'external_id = "WEB-1"': [0, 1],
        'external_id = WEB-1 external_source != jira': [1],
        'external_id:* OR metadata:note': [0, 1, 2],
        'NOT external_id:*': [2, 3],
        'NOT (external_source = jira OR metadata:note)': [1, 3],
        '': [0, 1, 2, 3],
      }
      for (const [filter, found] of Object.entries(cases)) {
        const reply = await filtered(account, filter)
        t.equal(reply.status, 200, filter)
        const items = bodyOf(reply).items
        t.strictSame(
          items.map(({ id }) => ids.indexOf(id)).toSorted((a, b) => a - b),
          found,
          filter,
        )
      }
      for (const filter of ['metadata.customer_id', 'metadata = 42', 'metadata.Key = 1', 'titel = x'])
        t.strictSame(pointersOf(bodyOf(await filtered(account, filter))), ['/filter'], filter)
    })
  })
}

t.test('a batch creates and merges metadata', async (t) => {
  const present = await createTask(ada, { metadata: { a: '1' } })
  const { body } = await service.expect('batchTasks', 200, {
    token: ada.token,
    body: {
      create: [
        { title: 'New', metadata: { b: '2' }, external_id: '1' },
        { title: 'Refused', metadata: { B: '' } },
      ],
      update: [
        { task_id: present.id, patch: { metadata: { a: null, c: '3' } } },
        { task_id: present.id, patch: { metadata: keys(51) } },
      ],
    },
  })
  t.match(body, {
    create: [{ status: 201 }, { status: 400, problem: { errors: [{ pointer: '/create/1/metadata/B' }] } }],
    update: [
      { status: 200 },
      { status: 400, problem: { errors: [{ pointer: '/update/1/patch/metadata' }] } },
    ],
  })
  const { body: after } = await service.expect('getTask', 200, {
    token: ada.token,
    params: { task_id: present.id },
  })
  t.strictSame({ ...after.metadata }, { c: '3' })
})

t.test(
  'the next occurrence of a recurring task keeps the metadata, and is no record of another system',
  async (t) => {
    const task = await createTask(ada, {
      due_on: '2026-11-02',
      recurrence: { rule: 'FREQ=DAILY' },
      metadata: { room: '4' },
      external_source: 'todoist',
      external_id: '77',
    })
    const { body } = await service.expect('updateTask', 200, {
      token: ada.token,
      params: { task_id: task.id },
      body: { status: 'done' },
    })
    t.match(body, { metadata: { room: '4' }, external_id: '77' })
    const next = await service.expect('getTask', 200, {
      token: ada.token,
      params: { task_id: body.occurrence?.next_task_id ?? '' },
    })
    t.match(next.body, { metadata: { room: '4' }, external_source: null, external_id: null })
  },
)
