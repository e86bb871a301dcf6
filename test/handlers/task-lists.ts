import t from 'tap'
import { readChanges } from '../fixture/changes.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { pointersOf, type Task, taskActions, unknownId } from '../fixture/tasks.ts'

const service = await startService(t)
const { attachFile, createTag, createTask } = taskActions(service)
const admin = await service.register('admin')

type Query = Readonly<Record<string, string | number | boolean | readonly string[]>>

const listTasks = async ({ token }: Account, query: Call['query'] = {}) =>
  (await service.expect('listTasks', 200, { token, query })).body

const titlesOf = async (account: Account, query: Call['query']): Promise<string[]> =>
  (await listTasks(account, query)).items.map(({ title }) => title)

/** A sequence of numbers from 0 to 1 that is the same in every run (mulberry32). */
const randomFrom = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const statuses = ['todo', 'in_progress', 'done', 'cancelled'] as const
const priorities = ['none', 'low', 'medium', 'high', 'urgent'] as const

const foldText = (text: string): string =>
  text
    .normalize('NFKD')
    .replaceAll(/[\u0300-\u036f]/g, '')
    .toLowerCase()

t.test('combinations of filters and orders leave no prepared statements on the connection', async (t) => {
  // Background jobs may prepare other statements meanwhile.
  const count = async (): Promise<number> => {
    const listStatements = `select count(*)::int as count from pg_prepared_statements where statement like '%.list%'`
    return Number((await service.deps.db.run(listStatements, []))[0]?.count)
  }
  const choices = ['untagged=true', 'overdue=true', 'q=x', 'status=todo', 'has_attachments=true']
  await listTasks(admin, {})
  const before = await count()
  t.ok(before > 0, 'a list without filters is prepared')
  for (let n = 1; n < 32; n += 1)
    await listTasks(admin, ['all=true', ...choices.filter((_, bit) => (n >> bit) % 2 === 1)].join('&'))
  t.ok((await count()) - before < 10)

  const fields = ['created_at', 'due_at', 'completed_at', 'priority', 'title']
  const orders = fields.flatMap((first) =>
    fields.filter((field) => field !== first).map((second) => `${first},-${second}`),
  )
  for (const sort of orders) await listTasks(admin, { sort, limit: 1 })
  t.ok((await count()) - before < 10, 'neither do orders by several fields')
})

t.test('every filter and order matches a naive implementation', async (t) => {
  const random = randomFrom(7)
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const sometimes = <T>(share: number, value: T): T | null => (random() < share ? value : null)

  const people = [
    await service.register('mixed-a'),
    await service.register('mixed-b'),
    await service.register('mixed-c'),
  ]
  const [reader] = people as [Account, ...Account[]]
  const tags = [
    await createTag(admin, 'mixed one'),
    await createTag(admin, 'mixed two'),
    await createTag(admin, 'mixed three'),
  ]
  const days = ['2026-01-01', '2026-02-01', '2026-02-02', '2030-01-01', '2031-01-01'].map(
    (day) => `${day}T00:00:00.000Z`,
  )
  const words = ['Release', 'notes', 'Éclair', 'review', 'zebra', 'Anchor', 'ångström']

  for (let n = 0; n < 60; n += 1) {
    const start_at = sometimes(0.3, pick(days))
    const task = await createTask(admin, {
      title: `${pick(words)} ${pick(words)}${random() < 0.5 ? '' : ` ${n}`}`,
      description: random() < 0.3 ? pick(words) : '',
      status: pick(statuses),
      priority: pick(priorities),
      start_at,
      due_at: start_at === null ? sometimes(0.6, pick(days)) : null,
      owner_id: pick(people).id,
      assignee_id: sometimes(0.5, pick(people).id),
      tag_ids: tags.filter(() => random() < 0.35).map(({ id }) => id),
    })
    if (random() < 0.15) await attachFile(admin, task.id)
  }
  const all = (await listTasks(admin, { all: true, limit: 200 })).items
  t.equal(all.length, 60)

  const now = new Date().toISOString()
  const isOverdue = ({ due_at, status }: Task): boolean =>
    due_at !== null && due_at < now && (status === 'todo' || status === 'in_progress')
  const matchesText = (q: string, { title, description }: Task): boolean =>
    foldText(title).includes(foldText(q)) ||
    foldText(`${title} ${description}`)
      .split(/[^\p{L}\p{Nd}]+/u)
      .some((word) => word.startsWith(foldText(q)))
  const instants = [...days, ...all.map(({ created_at }) => created_at)]

  /** For each filter, a random value and the predicate that it stands for. */
  const filters: Readonly<Record<string, () => readonly [Query[string], (task: Task) => boolean]>> = {
    status: () => {
      const values = [pick(statuses), pick(statuses)]
      return [values, ({ status }) => values.includes(status)]
    },
    priority: () => {
      const value = pick(priorities)
      return [value, ({ priority }) => priority === value]
    },
    owner_id: () => {
      const { id } = pick(people)
      return [id, ({ owner_id }) => owner_id === id]
    },
    assignee_id: () => {
      const values = [pick(people).id, pick(people).id]
      return [values, ({ assignee_id }) => assignee_id !== null && values.includes(assignee_id)]
    },
    untagged: () => {
      const value = random() < 0.5
      return [value, (task) => (task.tags.length === 0) === value]
    },
    has_attachments: () => {
      const value = random() < 0.5
      return [value, (task) => task.attachment_count > 0 === value]
    },
    overdue: () => {
      const value = random() < 0.5
      return [value, (task) => isOverdue(task) === value]
    },
    q: () => {
      const value = pick(['rel', 'NOTES', 'eclair', 'angstro', 'lease n', 'zebra', 'ew', 'x'])
      return [value, (task) => matchesText(value, task)]
    },
    ...Object.fromEntries(
      (['due', 'created', 'updated', 'completed'] as const).flatMap((field) => [
        [
          `${field}_after`,
          () => {
            const value = pick(instants)
            return [value, (task: Task) => (task[`${field}_at`] ?? '') >= value] as const
          },
        ],
        [
          `${field}_before`,
          () => {
            const value = pick(instants)
            return [value, (task: Task) => (task[`${field}_at`] ?? '9') < value] as const
          },
        ],
      ]),
    ),
  }

  type Key = string | number | null
  const keys: Readonly<Record<string, (task: Task) => Key>> = {
    created_at: ({ created_at }) => created_at,
    updated_at: ({ updated_at }) => updated_at,
    due_at: ({ due_at }) => due_at,
    start_at: ({ start_at }) => start_at,
    completed_at: ({ completed_at }) => completed_at,
    priority: ({ priority }) => priorities.indexOf(priority),
    status: ({ status }) => statuses.indexOf(status),
    title: ({ title }) => foldText(title),
  }
  const compare = (a: Key, b: Key, descending: boolean): number => {
    if (a === b) return 0
    if (a === null) return 1
    if (b === null) return -1
    return a < b === descending ? 1 : -1
  }
  const inOrder = (sort: string) => {
    const fields = sort
      .split(',')
      .map((name) => ({ key: keys[name.replace('-', '')] ?? (() => null), descending: name.startsWith('-') }))
    const last = fields.at(-1)?.descending ?? true
    return (a: Task, b: Task): number => {
      for (const { key, descending } of fields) {
        const difference = compare(key(a), key(b), descending)
        if (difference !== 0) return difference
      }
      return compare(a.id, b.id, last)
    }
  }

  for (let n = 0; n < 50; n += 1) {
    const names = Object.keys(filters).filter(() => random() < (n % 4) * 0.06)
    const chosen = names.map((name) => [name, filters[name]?.() ?? (['', () => true] as const)] as const)
    const order = Object.keys(keys)
      .filter(() => random() < 0.25)
      .slice(0, 3)
    const sort = (order.length === 0 ? ['created_at'] : order)
      .map((name) => (random() < 0.5 ? name : `-${name}`))
      .join(',')
    const wanted = tags.filter(() => random() < 0.3).map(({ id }) => id)
    const tag_match = pick(['any', 'all'])
    const query: Query = {
      ...Object.fromEntries(chosen.map(([name, [value]]) => [name, value])),
      ...(wanted.length > 0 && { tag_id: wanted, tag_match }),
      sort,
    }
    const hasWantedTags = (task: Task): boolean => {
      const has = (id: string): boolean => task.tags.some((tag) => tag.id === id)
      return wanted.length === 0 || (tag_match === 'all' ? wanted.every(has) : wanted.some(has))
    }
    const account = pick([admin, reader])
    const scope = account === admin && { all: true }
    const expected = all
      .filter((task) => account === admin || task.owner_id === reader.id || task.assignee_id === reader.id)
      .filter((task) => chosen.every(([, [, holds]]) => holds(task)) && hasWantedTags(task))
      .toSorted(inOrder(sort))
      .map(({ id }) => id)

    const limit = 10 + Math.floor(random() * 30)
    const pages: string[][] = []
    let page = await listTasks(account, { ...scope, ...query, limit, include_total: true })
    const label = `${n} ${JSON.stringify(query)} ${limit}`
    if (page.total !== expected.length) t.equal(page.total, expected.length, label)
    for (;;) {
      pages.push(page.items.map(({ id }) => id))
      if (page.next_cursor === null) break
      page = await listTasks(account, { ...scope, ...query, limit, cursor: page.next_cursor })
    }
    t.strictSame(pages.flat(), expected, `forwards: ${label}`)

    const back: string[][] = [page.items.map(({ id }) => id)]
    while (page.prev_cursor !== null) {
      page = await listTasks(account, { ...scope, ...query, limit, cursor: page.prev_cursor })
      back.unshift(page.items.map(({ id }) => id))
    }
    t.strictSame(back, pages, `backwards: ${label}`)
  }

  const { id: own } = reader
  const other = people.map(({ id }) => id).find((id) => id !== own) ?? ''
  const ownFilters: readonly (readonly [Query, (task: Task) => boolean])[] = [
    [{ owner_id: own }, ({ owner_id }) => owner_id === own],
    [{ assignee_id: own.toUpperCase() }, ({ assignee_id }) => assignee_id === own],
    [
      { owner_id: [own, other] },
      ({ owner_id, assignee_id }) => owner_id === own || (owner_id === other && assignee_id === own),
    ],
    [
      { owner_id: other, assignee_id: own },
      ({ owner_id, assignee_id }) => owner_id === other && assignee_id === own,
    ],
    [{ filter: 'status:* AND owner_id = me' }, ({ owner_id }) => owner_id === own],
    [{ filter: 'assignee_id = me' }, ({ assignee_id }) => assignee_id === own],
    [{ filter: 'owner_id != me' }, ({ owner_id, assignee_id }) => owner_id !== own && assignee_id === own],
    [
      { filter: 'owner_id = me OR assignee_id = me' },
      ({ owner_id, assignee_id }) => owner_id === own || assignee_id === own,
    ],
  ]
  for (const [query, holds] of ownFilters) {
    const expected = all.filter(holds).map(({ id }) => id)
    const { items } = await listTasks(reader, { ...query, limit: 200 })
    t.strictSame(
      items.map(({ id }) => id),
      expected,
      `by owner or assignee: ${JSON.stringify(query)}`,
    )
  }
})

t.test('q', async (t) => {
  const searcher = await service.register('searcher')
  const texts: Readonly<Record<string, string>> = {
    'Release notes': 'What a client notices',
    'Notes of the meeting': 'release plan, draft',
    'Überprüfung der Straße': '',
    東京タワーの写真: '',
    'Photos 2026': '京都の写真を撮る',
    'snake_case 100% (a) <b>': "it's done: foo-bar",
    ΟΔΟΣ: '',
    'ﬁne print': '',
    'Thai ภาษาไทย': '',
  }
  for (const [title, description] of Object.entries(texts)) await createTask(searcher, { title, description })
  const found = async (q: string) => titlesOf(searcher, { q })

  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['release', ['Release notes', 'Notes of the meeting']],
    ['RELEASE notes', ['Release notes', 'Notes of the meeting']],
    ['notes -plan', ['Release notes']],
    ['"release notes"', ['Release notes']],
    ['"notes release"', []],
    ['client or draft', ['Notes of the meeting', 'Release notes']],
    ['rel', ['Release notes', 'Notes of the meeting']],
    ['"rel"', []],
    ['ease n', ['Release notes']],
    ['eeting', ['Notes of the meeting']],
    ['client', ['Release notes']],
    ['lient', []],
    ['uberprufung', ['Überprüfung der Straße']],
    ['ÜBERPRÜFUNG', ['Überprüfung der Straße']],
    ['prüfung', ['Überprüfung der Straße']],
    ['東京', ['東京タワーの写真']],
    ['タワー', ['東京タワーの写真']],
    ['写真', ['東京タワーの写真', 'Photos 2026']],
    ['撮', ['Photos 2026']],
    ['京写', []],
    ['ภาษา', ['Thai ภาษาไทย']],
    ['ไทย', ['Thai ภาษาไทย']],
    ['οδος', ['ΟΔΟΣ']],
    ['fine', ['ﬁne print']],
    ['foo-bar', ['snake_case 100% (a) <b>']],
    ['100% (', ['snake_case 100% (a) <b>']],
    ['_', ['snake_case 100% (a) <b>']],
    ['%', ['snake_case 100% (a) <b>']],
    ['SNAKE', ['snake_case 100% (a) <b>']],
    ['STRAßE', ['Überprüfung der Straße']],
    ['U\u0308BERPRÜFUNG', ['Überprüfung der Straße']],
    ['x'.repeat(200), []],
    ['\u{1f600}'.repeat(200), []],
    ['%_', []],
    ['\\', []],
    ["it's", ['snake_case 100% (a) <b>']],
    ["'a' | !(b) & <-> :*", ['snake_case 100% (a) <b>']],
    ['-', []],
    ['"', []],
    ['nothing of this', []],
  ]
  for (const [q, expected] of cases) {
    const titles = await found(q)
    t.strictSame(titles.toSorted(), expected.toSorted(), q)
  }

  t.test('the best match comes first, unless sort is given', async (t) => {
    t.strictSame(
      await found('release'),
      ['Release notes', 'Notes of the meeting'],
      'a match in the title ranks higher',
    )
    t.strictSame(await found('meeting or eeting or plan'), ['Notes of the meeting'])
    t.strictSame(await titlesOf(searcher, { q: 'release', sort: 'created_at' }), [
      'Release notes',
      'Notes of the meeting',
    ])
    t.strictSame(await titlesOf(searcher, { q: 'release', sort: '-created_at' }), [
      'Notes of the meeting',
      'Release notes',
    ])
    const ranked = await service.register('ranked')
    for (const number of [1, 2, 3]) {
      await createTask(ranked, { title: `Zebra ${number}` })
      await createTask(ranked, { title: `Animal ${number}`, description: 'zebra, zebra: a zebra' })
    }
    const expected = ['Zebra 3', 'Zebra 2', 'Zebra 1', 'Animal 3', 'Animal 2', 'Animal 1']
    t.strictSame(await titlesOf(ranked, { q: 'zebra' }), expected, 'the newest first in each rank')
    t.strictSame(
      await titlesOf(ranked, { q: 'ebra' }),
      expected.slice(0, 3),
      'parts of words match in titles only',
    )
    t.strictSame(await titlesOf(ranked, { q: 'zebra 2 or animal' }), [
      'Animal 3',
      'Animal 2',
      'Zebra 2',
      'Animal 1',
    ])
    for (const limit of [1, 2, 3, 4]) {
      const pages = [await listTasks(ranked, { q: 'zebra', limit })]
      for (let cursor = pages[0]?.next_cursor; cursor; cursor = pages.at(-1)?.next_cursor)
        pages.push(await listTasks(ranked, { q: 'zebra', limit, cursor }))
      const titles = pages.map(({ items }) => items.map(({ title }) => title))
      t.strictSame(titles.flat(), expected, `in pages of ${limit}`)
      const backwards = []
      for (let cursor = pages.at(-1)?.prev_cursor; cursor;) {
        const page = await listTasks(ranked, { q: 'zebra', limit, cursor })
        backwards.unshift(page.items.map(({ title }) => title))
        cursor = page.prev_cursor
      }
      t.strictSame(backwards, titles.slice(0, -1), `backwards in pages of ${limit}`)
    }
  })

  t.test('a changed description is found at once, with one new version', async (t) => {
    const task = await createTask(searcher, { title: 'Before', description: 'quokka' })
    const params = { task_id: task.id }
    const { body } = await service.expect('updateTask', 200, {
      token: searcher.token,
      params,
      body: { description: 'wombat' },
    })
    t.equal(body.version, 2)
    t.strictSame(await found('quokka'), [])
    t.strictSame(await found('wombat'), ['Before'])
  })

  t.test('the first 8,192 characters of a description are searched, and all of it is stored', async (t) => {
    const writer = await service.register('long-writer')
    const texts = {
      words: Array.from({ length: 13_000 }, (_, n) => n.toString(36)).join(' '),
      pairs: Array.from({ length: 65_536 }, (_, n) => String.fromCharCode(0x4e00 + (n % 20_000))).join(''),
      'one sign that folds to 18': '\ufdfa'.repeat(65_536),
      'accents apart': 'e\u0323'.repeat(32_768),
      'marks parted by invisible characters': 'ﾞ' + '\u0363\u00ad\u1dca\u00ad'.repeat(16_000),
      'control characters': '\u0001'.repeat(65_536),
    }
    for (const [title, description] of Object.entries(texts)) {
      const created = await createTask(writer, { title, description })
      t.equal(created.description, description, title)
    }
    const description = `early ${'x'.repeat(8_186)} late`
    await createTask(writer, { title: 'Both ends', description })
    t.strictSame(await titlesOf(writer, { q: 'early' }), ['Both ends'])
    t.strictSame(await titlesOf(writer, { q: 'late' }), [])
    t.strictSame(await titlesOf(writer, { filter: 'description:"ly xx"' }), ['Both ends'])
    t.strictSame(await titlesOf(writer, { filter: 'description:"x late"' }), [])
    t.strictSame(await titlesOf(writer, { filter: 'description = "*x late"' }), ['Both ends'])
    const items = [{ title: 'Harmless' }, { title: 'Long', description: '\ufdfa'.repeat(65_536) }]
    const { body } = await service.expect('batchTasks', 200, { token: writer.token, body: { create: items } })
    t.strictSame(
      body.create.map(({ status }) => status),
      [201, 201],
    )
  })

  t.test('titles and descriptions of maximum length can be found and sorted', async (t) => {
    const long = { title: '\ufdfa'.repeat(500), description: '写'.repeat(65_536) }
    await createTask(searcher, long)
    await createTask(searcher, { title: 'w'.repeat(500), description: 'many words '.repeat(5_957) })
    t.strictSame(await titlesOf(searcher, { q: 'w'.repeat(200) }), ['w'.repeat(500)])
    const [one] = (await listTasks(searcher, { sort: '-title', limit: 1 })).items
    t.ok(one, 'sorted by a long title')
    const { next_cursor } = await listTasks(searcher, { sort: '-title,due_at,start_at', limit: 1 })
    t.equal(
      (await listTasks(searcher, { sort: '-title,due_at,start_at', limit: 1, cursor: next_cursor ?? '' }))
        .items.length,
      1,
    )
  })
})

t.test('sort', async (t) => {
  const sorter = await service.register('sorter')
  const { token } = sorter
  await createTask(sorter, { title: 'b', priority: 'urgent', due_at: '2026-01-02T00:00:00.000Z' })
  await createTask(sorter, { title: 'A', priority: 'low', status: 'cancelled' })
  await createTask(sorter, { title: 'Ä2', priority: 'high', status: 'done' })
  await createTask(sorter, { title: 'a1', due_at: '2026-01-01T00:00:00.000Z', status: 'in_progress' })

  const cases = [
    ['priority', ['a1', 'A', 'Ä2', 'b']],
    ['-priority', ['b', 'Ä2', 'A', 'a1']],
    ['status', ['b', 'a1', 'Ä2', 'A']],
    ['title', ['A', 'a1', 'Ä2', 'b']],
    ['due_at', ['a1', 'b', 'A', 'Ä2']],
    ['-due_at', ['b', 'a1', 'Ä2', 'A']],
    ['due_at,-priority', ['a1', 'b', 'Ä2', 'A']],
    ['completed_at,title', ['Ä2', 'A', 'a1', 'b']],
  ] as const
  for (const [sort, expected] of cases) t.strictSame(await titlesOf(sorter, { sort }), expected, sort)

  t.test('400 for invalid orders and filters', async (t) => {
    const invalidOrders = [
      'name',
      'Title',
      '',
      '-',
      '--title',
      '+title',
      'title,',
      'title;due_at',
      'title due_at',
      'title,due_at,status,priority',
      'title,-title',
      'relevance',
      'id";--',
      'constructor',
    ]
    for (const sort of invalidOrders) {
      const { body } = await service.expect('listTasks', 400, { token, query: { sort } })
      t.strictSame(pointersOf(body), ['/sort'], sort)
      await service.expect('listUserTasks', 400, { token, params: { user_id: sorter.id }, query: { sort } })
    }
    for (const [query, pointer] of [
      ['completed_after=x&completed_after=y', '/completed_after'],
      ['q=a%00', ''],
    ] as const) {
      const { body } = await service.expect('listTasks', 400, { token, query })
      if (pointer !== '') t.strictSame(pointersOf(body), [pointer], query)
    }
  })

  t.test('400 for the cursor of another order', async (t) => {
    const { next_cursor } = await listTasks(sorter, { sort: 'title', limit: 1 })
    for (const sort of ['-title', 'title,due_at', 'created_at']) {
      const query = { sort, cursor: next_cursor ?? '' }
      t.strictSame(
        pointersOf((await service.expect('listTasks', 400, { token, query })).body),
        ['/cursor'],
        sort,
      )
    }
    await service.expect('listTasks', 400, { token, query: { cursor: next_cursor ?? '' } })
  })
})

t.test('tag_match=all requires every tag', async (t) => {
  const tagger = await service.register('tagger')
  const tags = 'a b c d e f g h i'.split(' ')
  const tag_ids: string[] = []
  for (const name of tags) tag_ids.push((await createTag(tagger, name)).id)
  // Each task lacks the tag in its title; the last one has all tags.
  for (const lacking of tags)
    await createTask(tagger, { title: lacking, tag_ids: tag_ids.filter((_, n) => tags[n] !== lacking) })
  await createTask(tagger, { title: 'none', tag_ids })
  const titlesWith = (ids: readonly string[]) =>
    titlesOf(tagger, { tag_id: ids, tag_match: 'all', sort: 'title' })
  for (let n = 1; n <= tags.length; n += 1)
    t.strictSame(await titlesWith(tag_ids.slice(0, n)), [...tags.slice(n), 'none'], `${n} tags`)
  t.strictSame(await titlesWith([...tag_ids, unknownId]), [])
  t.strictSame(
    (await titlesWith([...tag_ids.slice(0, 1), ...tag_ids.slice(0, 1)])).length,
    9,
    'the same tag twice',
  )
})

t.test('no filter, order or count reveals tasks that the caller cannot see', async (t) => {
  const owner = await service.register('foreign-owner')
  const stranger = await service.register('foreign-stranger')
  const tag = await createTag(owner, 'foreign tag')
  const task = await createTask(owner, {
    title: 'Foreign secret',
    description: 'hidden words',
    due_at: '2026-01-01T00:00:00.000Z',
    priority: 'urgent',
    tag_ids: [tag.id],
  })
  await attachFile(owner, task.id)
  const own = await createTask(stranger, { title: 'own' })
  const queries: readonly Query[] = [
    { owner_id: owner.id },
    { owner_id: [owner.id, unknownId] },
    { tag_id: tag.id },
    { tag_id: tag.id, tag_match: 'all' },
    { untagged: false },
    { has_attachments: true },
    { overdue: true },
    { due_before: '2030-01-01T00:00:00Z' },
    { priority: 'urgent' },
    { q: 'secret' },
    { q: 'hidden' },
    { q: 'ecre' },
  ]
  for (const [index, query] of queries.entries()) {
    for (const sort of [undefined, index % 2 === 0 ? '-due_at' : 'title']) {
      const request = { ...query, ...(sort !== undefined && { sort }), include_total: true }
      const page = await listTasks(stranger, request)
      t.strictSame(
        page,
        { items: [], next_cursor: null, prev_cursor: null, total: 0 },
        JSON.stringify(request),
      )
      t.strictSame((await listTasks(owner, request)).items.length, 1, 'the owner finds it')
      const theirs = await service.expect('listUserTasks', 200, {
        token: stranger.token,
        params: { user_id: owner.id },
        query: request,
      })
      t.equal(theirs.body.total, 0)
    }
  }
  for (const sort of ['title', '-priority', 'due_at', '-updated_at']) {
    const page = await listTasks(stranger, { sort, include_total: true })
    t.strictSame([page.items, page.total], [[own], 1], sort)
  }
  const { body } = await service.expect('listTags', 200, { token: stranger.token, query: { q: 'foreign' } })
  t.strictSame(body.items, [])
})

t.test('a list that changes while it is read: no task twice, no unchanged task missing', async (t) => {
  for (const sort of ['title', '-due_at,title', 'priority']) {
    const reader = await service.register(`walker-${sort.length}`)
    const { token } = reader
    const random = randomFrom(sort.length)
    const newTask = () =>
      createTask(reader, {
        title: `t ${Math.floor(random() * 1_000)}`,
        priority: priorities[Math.floor(random() * 5)],
        ...(random() < 0.5 && { due_at: `2026-01-0${1 + Math.floor(random() * 9)}T00:00:00.000Z` }),
      })
    for (let n = 0; n < 40; n += 1) await newTask()
    const before = (await listTasks(reader, { sort, limit: 200 })).items.map(({ id }) => id)
    // The last one stays, because a last page that has become empty has no cursor to return.
    const deleted = before.filter((_, n) => n % 3 === 0 && n < before.length - 1)
    const unchanged = before.filter((id) => !deleted.includes(id))

    const reading = new AbortController()
    const writer = (async () => {
      for (const task_id of deleted) {
        await newTask()
        await service.expect('deleteTask', 204, { token, params: { task_id } })
      }
      for (let n = 0; n < 100 && !reading.signal.aborted; n += 1) await newTask()
    })()
    const forwards: string[] = []
    let page = await listTasks(reader, { sort, limit: 3 })
    for (;;) {
      forwards.push(...page.items.map(({ id }) => id))
      if (page.next_cursor === null) break
      page = await listTasks(reader, { sort, limit: 3, cursor: page.next_cursor })
    }
    const backwards: string[] = page.items.map(({ id }) => id)
    while (page.prev_cursor !== null) {
      page = await listTasks(reader, { sort, limit: 3, cursor: page.prev_cursor })
      backwards.unshift(...page.items.map(({ id }) => id))
    }
    reading.abort()
    await writer
    for (const [way, ids] of Object.entries({ forwards, backwards })) {
      t.equal(new Set(ids).size, ids.length, `${sort}, ${way}: no task is listed twice`)
      t.strictSame(
        ids.filter((id) => unchanged.includes(id)),
        unchanged,
        `${sort}, ${way}: no unchanged task is missing, and the order is kept`,
      )
    }
  }
})

/** Reads all pages of a list by its cursors. */
const readPages = async (
  account: Account,
  query: Readonly<Record<string, string | number>>,
  from: 'next_cursor' | 'prev_cursor' = 'next_cursor',
  cursor?: string,
) => {
  const pages = []
  let at: string | null | undefined = cursor
  do {
    const page = await listTasks(account, { ...query, ...(at && { cursor: at }) })
    pages.push(page)
    at = page[from]
  } while (at)
  return pages
}

const titlesIn = (pages: readonly { readonly items: readonly Task[] }[]): string[] =>
  pages.flatMap(({ items }) => items.map(({ title }) => title))

t.test('a page ends after about 1 MiB of JSON', async (t) => {
  const writer = await service.register('long-pages')
  const numbers = Array.from({ length: 12 }, (_, n) => String(n).padStart(2, '0'))
  // JSON escapes each of these characters to six bytes.
  for (const title of numbers) await createTask(writer, { title, description: '\u0001'.repeat(65_536) })
  const size = (page: object): number => JSON.stringify(page).length
  const pages = await readPages(writer, { sort: 'title', limit: 200 })
  t.strictSame(titlesIn(pages), numbers)
  t.strictSame(
    pages.map(({ items }) => items.length),
    [3, 3, 3, 3],
  )
  t.ok(pages.every((page) => size(page) < 1_600_000))
  const last = pages.at(-1)?.prev_cursor ?? ''
  const back = await readPages(writer, { sort: 'title', limit: 200 }, 'prev_cursor', last)
  t.strictSame(titlesIn(back.toReversed()), numbers.slice(0, 9))
  t.ok(back.every((page) => size(page) < 1_600_000))

  const changes = await readChanges(service, writer, { limit: 200 })
  t.equal(changes.changed.length, 3)
  t.ok(changes.has_more)
  const seen = changes.changed.map(({ title }) => title)
  for (let since = changes.next_cursor, more = true; more;) {
    const { body } = await service.expect('listTaskChanges', 200, {
      token: writer.token,
      query: { limit: 200, since },
    })
    seen.push(...body.changed.map(({ title }) => title))
    ;({ next_cursor: since, has_more: more } = body)
  }
  t.strictSame(seen.toSorted(), numbers)

  for (const { id } of pages.flatMap(({ items }) => items))
    await service.expect('deleteTask', 204, { token: writer.token, params: { task_id: id } })
  const { body: trash } = await service.expect('listTrashedTasks', 200, {
    token: writer.token,
    query: { limit: 200 },
  })
  t.equal(trash.items.length, 3)
  t.ok(trash.next_cursor)
})

t.test('a search examines a bounded amount of text per page, and its pages have all results', async (t) => {
  const writer = await service.register('long-texts')
  const numbers = Array.from({ length: 26 }, (_, n) => String(n).padStart(2, '0'))
  // A long run of one character, so that the search compares the part at every position.
  const text = 'a'.repeat(8_000)
  const hasPart = (title: string): boolean => Number(title) % 13 === 12
  for (const title of numbers)
    await createTask(writer, { title, description: hasPart(title) ? `${text}b` : text })
  const part = `${'a'.repeat(400)}b`
  const matching = numbers.filter(hasPart)
  for (const filter of [
    `description:"${part}"`,
    `description = "*${part}"`,
    `NOT (NOT description:"${part}")`,
    `description:"${part}" OR tags:"none"`,
    `status = todo AND description:"${part}"`,
  ]) {
    const query = { filter, sort: 'title', limit: 2 }
    const pages = await readPages(writer, query)
    t.strictSame(titlesIn(pages), matching, filter.slice(0, 20))
    t.ok(pages.length > 2, `${pages.length} pages`)
    const last = pages.at(-1)?.prev_cursor ?? ''
    const back = await readPages(writer, query, 'prev_cursor', last)
    t.ok(
      [...titlesIn(back.toReversed()), ...titlesIn(pages.slice(-1))].join().endsWith(matching.join()),
      'backwards',
    )
    t.equal((await listTasks(writer, { ...query, include_total: true })).total, null)
  }
  const { total, items } = await listTasks(writer, { q: 'zebra', include_total: true })
  t.strictSame([total, items], [0, []], 'an index finds that there are none')
})
