import t from 'tap'
import { loadContract, type OperationId } from '../../src/contract/contract.ts'
import { maxLimit } from '../../src/domain/shared/pages.ts'
import { type Account, type Call, type Reply, startService } from '../fixture/service.ts'
import { pointersOf, taskActions, unknownId } from '../fixture/tasks.ts'

const service = await startService(t)
const { createTag, createTask, readTask } = taskActions(service)
const admin = await service.register('admin')

type ListId = Extract<
  OperationId,
  'listTasks' | 'listUserTasks' | 'listTags' | 'listTaskTags' | 'listTrashedTasks'
>

interface Page {
  readonly items: readonly { readonly id: string }[]
  readonly next_cursor: string | null
  readonly prev_cursor: string | null
  readonly total: number | null
}

interface Listing {
  readonly operation: ListId
  readonly path: string
  readonly params: Readonly<Record<string, string>>
}

/** Fills each list with `count` items that only `owner` and the administrator see. */
const fillLists = async (owner: Account, count: number): Promise<Listing[]> => {
  const numbers = Array.from({ length: count }, (_, n) => n)
  const tag_ids: string[] = []
  for (const n of numbers) tag_ids.push((await createTag(owner, `tag ${n}`)).id)
  for (const n of numbers.slice(1)) await createTask(owner, { title: `task ${n}` })
  const { id } = await createTask(owner, { title: 'task with tags', tag_ids })
  for (const n of numbers) {
    const { id: task_id } = await createTask(owner, { title: `deleted ${n}` })
    await service.expect('deleteTask', 204, { token: owner.token, params: { task_id } })
  }
  return [
    { operation: 'listTasks', path: '/tasks', params: {} },
    { operation: 'listUserTasks', path: `/users/${owner.id}/tasks`, params: { user_id: owner.id } },
    { operation: 'listTags', path: '/tags', params: {} },
    { operation: 'listTaskTags', path: `/tasks/${id}/tags`, params: { task_id: id } },
    { operation: 'listTrashedTasks', path: '/trash', params: {} },
  ]
}

/** Reads a page and its links. */
const readPage = async (
  { operation, params }: Listing,
  { token }: Account,
  query: Call['query'] = {},
): Promise<Page & { readonly links: ReadonlyMap<string, URL> }> => {
  const { body, headers } = await service.expect(operation, 200, { token, params, query })
  return { ...body, links: parseLinks(headers.get('link') ?? '') }
}

/** A strict parser of RFC 8288 §3: comma-separated targets in angle brackets, each with one quoted relation. */
const parseLinks = (header: string): Map<string, URL> => {
  const link = /<(?<target>[^<>\s]*)>\s*;\s*rel="(?<relation>[a-z]+)"\s*(?:,\s*|$)/gy
  const links = new Map<string, URL>()
  let end = 0
  for (const match of header.matchAll(link)) {
    const { target = '', relation = '' } = match.groups ?? {}
    links.set(relation, new URL(target, service.url))
    end = match.index + match[0].length
  }
  if (end !== header.length) throw new Error(`Not a Link header: ${header}`)
  return links
}

const idsOf = ({ items }: Page): string[] => items.map(({ id }) => id)

/** Reads a list from start to end. `between` runs after each page. */
const walk = async (
  list: Listing,
  account: Account,
  query: Readonly<Record<string, string | number>>,
  between: (page: Page) => Promise<unknown> = async () => {},
): Promise<string[]> => {
  const ids: string[] = []
  let cursor: string | null = null
  do {
    const page: Page = await readPage(list, account, { ...query, ...(cursor !== null && { cursor }) })
    ids.push(...idsOf(page))
    cursor = page.next_cursor
    await between(page)
  } while (cursor !== null)
  return ids
}

const count = 53
const owner = await service.register('owner')
const lists = await fillLists(owner, count)
const [tasks, userTasks, , taskTags] = lists as [Listing, Listing, Listing, Listing, Listing]

t.test('the maximum page size of the contract is that of the statements', async (t) => {
  const Limit = { schema: { maximum: maxLimit } }
  t.match(loadContract().document, { components: { parameters: { Limit } } })
})

for (const list of lists) {
  const { operation, path, params } = list
  const { token } = owner
  const refused = async (query: string): Promise<string[]> =>
    pointersOf((await service.expect(operation, 400, { token, params, query })).body)

  t.test(operation, async (t) => {
    const everything = idsOf(await readPage(list, owner, { limit: 200 }))

    t.test('pages have 50 items by default', async (t) => {
      const page = await readPage(list, owner)
      t.strictSame(idsOf(page), everything.slice(0, 50))
      t.equal(everything.length, count)
      t.equal(page.total, null)
      t.type(page.next_cursor, 'string')
      const first = page.links.get('first')
      t.equal(first?.pathname, path)
      t.strictSame([...(first?.searchParams ?? [])], [['limit', '50']])
      t.equal(page.links.get('next')?.searchParams.get('cursor'), page.next_cursor)
    })

    t.test('limit: 1 to 200, otherwise 400', async (t) => {
      for (const limit of [1, 52, 53, 200]) {
        const page = await readPage(list, owner, { limit })
        t.strictSame(idsOf(page), everything.slice(0, limit))
        t.equal(page.next_cursor === null, limit >= count, `limit ${limit}`)
        t.equal(page.links.has('next'), limit < count)
      }
      t.equal((await readPage(list, owner, 'limit=007')).items.length, 7)
      const numbers =
        '0 201 -1 -0 1000000000 2147483648 9223372036854775808 NaN Infinity 0x10 1e1 5.0 5,0 1_0'
      const texts = '%2B5 +5 5+ x null %D9%A5 %EF%BC%95'
      const bad = [...`${numbers} ${texts}`.split(' '), '', '9'.repeat(400)]
      for (const limit of bad) t.strictSame(await refused(`limit=${limit}`), ['/limit'], limit.slice(0, 20))
      t.strictSame(await refused('limit=5&limit=5'), ['/limit'])
      t.strictSame(await refused('limit'), ['/limit'])
      t.strictSame(await refused('limit[]=5'), ['/limit[]'])
      t.strictSame(await refused('LIMIT=5'), ['/LIMIT'])
    })

    t.test('offset: 0 to 100,000, otherwise 400', async (t) => {
      for (const offset of [0, 1, 10, 52, 53, 100_000]) {
        const page = await readPage(list, owner, { offset, limit: 10 })
        t.strictSame(idsOf(page), everything.slice(offset, offset + 10))
        t.notOk(page.links.get('first')?.searchParams.has('offset'))
        if (page.next_cursor === null) continue
        const next = page.links.get('next')?.search.slice(1) ?? ''
        t.strictSame(idsOf(await readPage(list, owner, next)), everything.slice(offset + 10, offset + 20))
      }
      for (const offset of [
        '-1',
        '-0',
        '100001',
        '1e9',
        '9223372036854775808',
        'NaN',
        '0x10',
        '%2B5',
        '',
        'x',
      ]) {
        t.strictSame(await refused(`offset=${offset}`), ['/offset'], offset)
      }
      t.strictSame(await refused('offset=1&offset=1'), ['/offset'])
      const { body } = await service.expect(operation, 400, { token, params, query: { offset: 100_001 } })
      t.match(body.detail, /cursor/, 'suggests a cursor')
    })

    t.test('include_total: the total on every page, 400 if not a boolean', async (t) => {
      t.equal((await readPage(list, owner, 'include_total=true')).total, count)
      t.equal((await readPage(list, owner, { include_total: true, limit: 1, offset: 60 })).total, count)
      t.equal((await readPage(list, owner, 'include_total=false')).total, null)
      for (const text of ['1', 'yes', 'TRUE', '', 'null']) {
        t.strictSame(await refused(`include_total=${text}`), ['/include_total'], text)
      }
      const { links } = await readPage(list, owner, { include_total: true, limit: 50 })
      const next = await readPage(list, owner, links.get('next')?.search.slice(1))
      t.equal(next.total, count, 'the next page has the total, too')
      t.strictSame(idsOf(next), everything.slice(50))
    })

    t.test('cursors and Link headers lead through the whole list', async (t) => {
      for (const limit of [1, 7, 53]) t.strictSame(await walk(list, owner, { limit }), everything)
      const ids: string[] = []
      let url: URL | undefined = new URL(`${path}?limit=20`, service.url)
      while (url !== undefined) {
        t.equal(url.pathname, path)
        const page: Awaited<ReturnType<typeof readPage>> = await readPage(list, owner, url.search.slice(1))
        ids.push(...idsOf(page))
        url = page.links.get('next')
        const start = page.links.get('first')?.search.slice(1)
        t.strictSame(idsOf(await readPage(list, owner, start)), everything.slice(0, 20))
      }
      t.strictSame(ids, everything)
    })

    t.test('Link headers lead back to the first page', async (t) => {
      const first = await readPage(list, owner, { limit: 20 })
      t.notOk(first.links.has('prev'), 'the first page has no previous page')
      t.equal(first.prev_cursor, null)
      let page = await readPage(list, owner, { offset: 45, limit: 20 })
      const ids = idsOf(page)
      for (let url = page.links.get('prev'); url !== undefined; url = page.links.get('prev')) {
        t.equal(url.searchParams.get('cursor'), page.prev_cursor)
        const after = ids[0]
        page = await readPage(list, owner, url.search.slice(1))
        ids.unshift(...idsOf(page))
        const next = await readPage(list, owner, page.links.get('next')?.search.slice(1))
        t.equal(idsOf(next)[0], after, 'and forward again')
      }
      t.strictSame(ids, everything)
    })

    t.test('a cursor can be combined with another limit, but not with an offset', async (t) => {
      const { next_cursor } = await readPage(list, owner, { limit: 10 })
      const page = await readPage(list, owner, { cursor: next_cursor ?? '', limit: 3, include_total: true })
      t.strictSame(idsOf(page), everything.slice(10, 13))
      t.equal(page.total, count)
      for (const offset of ['0', '1']) {
        t.strictSame(await refused(`cursor=${next_cursor}&offset=${offset}`), ['/offset'])
      }
    })

    t.test('400 for a cursor that was tampered with', async (t) => {
      const cursor = (await readPage(list, owner, { limit: 10 })).next_cursor ?? ''
      t.match(cursor, /^[\w-]+$/)
      const bytes = Buffer.from(cursor, 'base64url')
      for (const index of bytes.keys()) {
        const flipped = Buffer.from(bytes)
        flipped.writeUInt8(flipped.readUInt8(index) ^ 1, index)
        t.strictSame(await refused(`cursor=${flipped.toString('base64url')}`), ['/cursor'], `byte ${index}`)
      }
      const others = [
        '',
        'x',
        '!',
        'null',
        '0',
        cursor.slice(0, -1),
        cursor.slice(1),
        `${cursor}A`,
        `${cursor}%3D`,
        `${cursor}%20`,
        `%20${cursor}`,
        cursor.toUpperCase(),
        cursor + cursor,
        'A'.repeat(1_025),
        bytes.subarray(0, 1).toString('base64url'),
        bytes.subarray(0, 17).toString('base64url'),
      ]
      for (const other of others)
        t.strictSame(await refused(`cursor=${other}`), ['/cursor'], other.slice(0, 20))
      t.strictSame(await refused(`cursor=${cursor}&cursor=${cursor}`), ['/cursor'])
    })

    t.test('400 for a cursor of another caller', async (t) => {
      const { next_cursor } = await readPage(list, owner, { limit: 10 })
      const query = { cursor: next_cursor ?? '' }
      const { body } = await service.expect(operation, 400, { token: admin.token, params, query })
      t.strictSame(pointersOf(body), ['/cursor'])
    })

    t.test('400 for a cursor of another list', async (t) => {
      for (const other of lists.filter(({ path }) => path !== list.path)) {
        const { next_cursor } = await readPage(other, owner, { limit: 10 })
        t.strictSame(await refused(`cursor=${next_cursor}`), ['/cursor'], other.operation)
      }
    })

    t.test('400 for malformed encodings and unknown parameters', async (t) => {
      for (const query of [
        'limit=%zz',
        'limit=5%',
        'x=%C3%28',
        'limit=5%00',
        '%00=1',
        'x=%ED%A0%80',
        'cursor=%',
      ]) {
        await service.expect(operation, 400, { token, params, query })
      }
      for (const name of ['page', 'sort', 'per_page', 'fields', 'constructor', '__proto__']) {
        t.strictSame(await refused(`${name}=1`), [`/${name}`])
      }
      await service.expect(operation, 401, { params, query: 'limit=%zz' })
    })

    t.test('HEAD has the headers of GET', async (t) => {
      const query = { limit: 5, include_total: true }
      const get = await service.expect(operation, 200, { token, params, query })
      const head = await service.expect(operation, 200, { token, params, query, method: 'HEAD' })
      t.equal(head.body, null)
      for (const name of ['link', 'content-length', 'content-type', 'cache-control']) {
        t.equal(head.headers.get(name), get.headers.get(name), name)
      }
      const refusal = await service.expect(operation, 400, {
        token,
        params,
        query: 'limit=0',
        method: 'HEAD',
      })
      t.equal(refusal.body, null)
    })
  })
}

/** The cursor after three of the tasks that match `query`. */
const cursorOf = async (query: string): Promise<string> => {
  const { next_cursor } = await readPage(tasks, owner, `${query}&limit=3`)
  if (next_cursor === null) throw new Error(`Fewer than four tasks match ${query}`)
  return next_cursor
}

t.test('a cursor works with other expansions and with equivalent filters', async (t) => {
  const [someId, otherId] = [unknownId, owner.id]
  for (const [query, same] of [
    ['status=todo', 'status=todo&expand=owner,attachments'],
    ['expand=owner&status=todo', 'status=todo'],
    ['expand=owner,attachments', 'expand=attachments,owner'],
    ['status=todo&include_total=true', 'status=todo&include_total=false'],
    ['status=todo&status=done', 'status=done&status=todo'],
    ['status=todo', 'status=todo&status=todo'],
    [`owner_id=${someId}&owner_id=${otherId}`, `owner_id=${otherId}&owner_id=${someId}`],
    [`owner_id=${otherId}`, `owner_id=${otherId.toUpperCase()}`],
    ['created_after=2020-01-01T00:00:00Z', 'created_after=2020-01-01t01:00:00.000%2B01:00'],
    ['status=todo&all=false', 'status=todo'],
    ['status=todo', 'tag_match=any&status=todo'],
    ['q=t%C3%A2sk', 'q=ta%CC%82sk'],
  ] as const) {
    const cursor = await cursorOf(query)
    const expected = await readPage(tasks, owner, `${query}&cursor=${cursor}`)
    const page = await readPage(tasks, owner, `${same}&cursor=${cursor}`)
    t.strictSame(idsOf(page), idsOf(expected), `${query} and ${same}`)
    t.ok(page.items.length > 0)
  }
})

t.test('a cursor works with an id in upper case in the path', async (t) => {
  const upper = { ...userTasks, params: { user_id: owner.id.toUpperCase() } }
  const page = await readPage(upper, owner, { limit: 3 })
  t.equal(page.links.get('next')?.pathname, userTasks.path, 'links have the id in lower case')
  const following = await readPage(userTasks, owner, { cursor: page.next_cursor ?? '', limit: 3 })
  t.equal(following.items.length, 3)
  t.notOk(idsOf(following).some((id) => idsOf(page).includes(id)))
})

t.test('400 for a cursor names the parameters that differ', async (t) => {
  const detailOf = async (query: string, caller = owner, operation: ListId = 'listTasks') => {
    const { body } = await service.expect(operation, 400, { token: caller.token, query })
    t.strictSame(pointersOf(body), ['/cursor'])
    t.equal(body.code, 'invalid_request')
    return body.errors?.[0]?.detail
  }
  const cursor = await cursorOf('status=todo&q=task&sort=title')
  for (const [query, names] of [
    ['status=todo&q=task', 'sort'],
    ['status=todo&q=task&sort=-title', 'sort'],
    ['status=todo&q=tasks&sort=title', 'q'],
    ['sort=title', 'q, status'],
    ['status=todo&status=done&q=task&sort=title&overdue=false', 'overdue, status'],
    ['', 'q, sort, status'],
  ] as const) {
    t.equal(await detailOf(`${query}&cursor=${cursor}`), `was issued with other values of: ${names}`, query)
  }
  t.equal(
    await detailOf(`status=todo&q=task&sort=title&cursor=${cursor}`, admin),
    'was issued to another user',
  )
  t.equal(await detailOf(`cursor=${cursor}`, owner, 'listTags'), 'was issued for another list')
  t.equal(await detailOf('cursor=AAAA'), 'is not a cursor of this service')

  const { body } = await service.expect('listTaskChanges', 200, { token: admin.token, query: { all: true } })
  const since = async (account: Account, text: string) => {
    const query = { since: text }
    const refusal = await service.expect('listTaskChanges', 400, { token: account.token, query })
    t.strictSame(pointersOf(refusal.body), ['/since'])
    return refusal.body.errors?.[0]?.detail
  }
  t.equal(await since(admin, body.next_cursor), 'was issued with other values of: all')
  t.equal(await since(owner, body.next_cursor), 'was issued to another user')
  t.equal(await since(owner, cursor), 'was issued for another list')
  const query = { since: body.next_cursor, all: true, limit: 1 }
  await service.expect('listTaskChanges', 200, { token: admin.token, query })
})

t.test('a cursor is bound to its filters', async (t) => {
  const { token } = owner
  const query = 'status=todo&priority=none&q=Task%20&limit=10'
  const page = await readPage(tasks, owner, query)
  const cursor = page.next_cursor ?? ''
  t.ok(cursor)

  t.test('links repeat the filters', async (t) => {
    for (const link of page.links.values()) {
      const { searchParams } = link
      t.strictSame(
        ['status', 'priority', 'q', 'limit'].map((name) => searchParams.getAll(name)),
        [['todo'], ['none'], ['Task '], ['10']],
      )
    }
    const repeated = await readPage(tasks, owner, 'status=todo&status=done&limit=1')
    t.strictSame(repeated.links.get('next')?.searchParams.getAll('status'), ['todo', 'done'])
  })

  t.test('the same filters in any order lead to the next page', async (t) => {
    const next = await readPage(tasks, owner, `${query}&cursor=${cursor}`)
    t.equal(next.items.length, 10)
    const reordered = await readPage(
      tasks,
      owner,
      `cursor=${cursor}&q=Task+&limit=10&priority=none&status=todo`,
    )
    t.strictSame(idsOf(reordered), idsOf(next))
    t.notOk(idsOf(next).some((id) => idsOf(page).includes(id)))
  })

  t.test('400 for other filters', async (t) => {
    const others = [
      '',
      'status=todo&priority=none',
      'status=done&priority=none&q=Task+',
      'status=todo&status=done&priority=none&q=Task+',
      'status=todo&priority=none&q=Task',
      `status=todo&priority=none&q=Task+&tag_id=${unknownId}`,
    ]
    for (const other of others) {
      const { body } = await service.expect('listTasks', 400, { token, query: `${other}&cursor=${cursor}` })
      t.strictSame(pointersOf(body), ['/cursor'], other)
    }
  })
})

t.test('a list that changes while it is read', async (t) => {
  t.test('every task that stays is listed once', async (t) => {
    const reader = await service.register('reader')
    const { token } = reader
    const before: string[] = []
    for (let n = 0; n < 30; n += 1) before.unshift((await createTask(reader, { title: `task ${n}` })).id)
    const remove = (task_id: string) => service.expect('deleteTask', 204, { token, params: { task_id } })
    const removed = new Set<string>()
    const seen: string[] = []

    const ids = await walk(tasks, reader, { limit: 4 }, async (page) => {
      seen.push(...idsOf(page))
      const last = seen.at(-1)
      const unseen = before.filter((id) => !seen.includes(id) && !removed.has(id))
      // The row of the cursor, the next one, and one further on.
      for (const id of [last, unseen[0], unseen[5]]) {
        if (id === undefined || removed.has(id)) continue
        removed.add(id)
        await remove(id)
      }
      await createTask(reader, { title: 'newer' })
      const kept = before.find((id) => !removed.has(id)) ?? ''
      await service.expect('updateTask', 200, {
        token,
        params: { task_id: kept },
        body: { title: `${seen.length}` },
      })
    })

    t.equal(new Set(ids).size, ids.length, 'no duplicates')
    t.strictSame(
      before.filter((id) => !ids.includes(id) && !removed.has(id)),
      [],
      'none is missing',
    )
    t.strictSame(
      ids,
      before.filter((id) => ids.includes(id)),
      'no new tasks, and in order',
    )
    t.ok(removed.size >= 12)
  })

  t.test('the same with concurrent writers', async (t) => {
    const reader = await service.register('busy-reader')
    const before: string[] = []
    for (let n = 0; n < 25; n += 1) before.unshift((await createTask(reader)).id)
    const writing = Array.from({ length: 25 }, () => createTask(reader, { title: 'beside' }))
    const ids = await walk(tasks, reader, { limit: 3 })
    const added = await Promise.all(writing)
    t.equal(new Set(ids).size, ids.length)
    t.strictSame(
      ids.filter((id) => before.includes(id)),
      before,
    )
    const after = await walk(tasks, reader, { limit: 200 })
    t.strictSame(new Set(after), new Set([...before, ...added.map(({ id }) => id)]))
  })

  t.test('cursors separate tasks of the same millisecond', async (t) => {
    const reader = await service.register('burst')
    const made = await Promise.all(Array.from({ length: 40 }, () => createTask(reader)))
    const ids = await walk(tasks, reader, { limit: 1 })
    t.strictSame(ids.toSorted(), made.map(({ id }) => id).toSorted())
    const pages = await walk(tasks, reader, { limit: 9 })
    t.strictSame(pages, ids)
    const order = made.toSorted((a, b) => compare(b.created_at, a.created_at) || compare(b.id, a.id))
    t.strictSame(
      ids,
      order.map(({ id }) => id),
    )
  })

  t.test('tags that are removed during the reading are still listed once', async (t) => {
    const { task } = await readTask(owner, taskTags.params.task_id ?? '')
    const removed: string[] = []
    const ids = await walk(taskTags, owner, { limit: 20 }, async (page) => {
      const tag_id = page.items.at(-1)?.id ?? ''
      removed.push(tag_id)
      await service.expect('removeTaskTag', 204, { token: owner.token, params: { task_id: task.id, tag_id } })
    })
    t.strictSame(ids.toSorted(), task.tags.map(({ id }) => id).toSorted())
    t.equal(removed.length, 3)
  })
})

t.test('links that exceed the header limit are omitted', async (t) => {
  const relationsOf = async (length: number, query: object = {}) => {
    const filter = `NOT title:"${'語'.repeat(length)}"`
    const page = await readPage(tasks, owner, { filter, limit: 20, ...query })
    t.strictSame(idsOf(page).length, 20)
    return { cursor: page.next_cursor ?? '', relations: [...page.links.keys()] }
  }
  for (const [length, relations] of [
    [10, ['first', 'prev', 'next']],
    [350, ['prev', 'next']],
    [700, ['next']],
    [1_900, []],
  ] as const) {
    const { cursor } = await relationsOf(length)
    t.strictSame((await relationsOf(length, { cursor })).relations, relations, `${length} characters`)
  }
})

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

t.test("an administrator reads another user's lists, a member does not", async (t) => {
  const stranger = await service.register('stranger')
  for (const list of [tasks, userTasks]) {
    const page = await readPage(list, stranger, { include_total: true })
    t.strictSame(page.items, [])
    t.equal(page.total, 0)
    t.equal(page.next_cursor, null)
    t.strictSame([...page.links.keys()], ['first'])
  }
  const all = await readPage(userTasks, admin, { include_total: true })
  t.equal(all.total, count)
  const { status }: Reply = await service.call('listTaskTags', {
    token: stranger.token,
    params: taskTags.params,
  })
  t.equal(status, 404)
})
