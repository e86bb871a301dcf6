import t from 'tap'
import { type Account, type Call, startService } from './fixture/service.ts'
import { clockToMove, pointersOf, type Task, taskActions, unknownId } from './fixture/tasks.ts'

const service = await startService(t)
const { attachFile, createTag, createTask } = taskActions(service)
const admin = await service.register('admin')
const owner = await service.register('owner')
const helper = await service.register('helper')
const stranger = await service.register('stranger')

const hour = 3_600_000
const day = 24 * hour
const at = (milliseconds: number): string => new Date(milliseconds).toISOString()
const started = Date.now()

const bug = await createTag(owner, 'Bug')
const release = await createTag(owner, 'release 1.0')
const straße = await createTag(owner, 'Straße')

/** The tasks of `owner`, by their titles. */
const tasks: readonly Task[] = await (async () => {
  const fields: readonly object[] = [
    { title: 'Write the notes', status: 'todo', priority: 'high', due_at: at(started + 2 * day) },
    { title: 'write the tests', status: 'in_progress', priority: 'urgent', assignee_id: helper.id },
    { title: 'Ship it', status: 'done', priority: 'none', tag_ids: [bug.id], due_at: at(started - day) },
    { title: 'Fix the crash', status: 'in_progress', priority: 'low', tag_ids: [bug.id, release.id] },
    { title: 'Say "hello" \\ to 100%_all*', status: 'cancelled', description: 'A word,\nand another' },
    { title: 'Ärger in der Straße', status: 'todo', priority: 'medium', tag_ids: [straße.id] },
    { title: 'Old', start_at: '2020-01-31T00:00:00.000Z', due_at: '2020-02-29T23:59:59.999Z' },
    { title: 'Far', assignee_id: owner.id, due_at: '9999-12-31T23:59:59.999Z', description: 'crash course' },
  ]
  const created: Task[] = []
  for (const one of fields) created.push(await createTask(owner, one))
  const [notes, tests] = created as [Task, Task]
  for (const id of [notes.id, notes.id, tests.id]) await attachFile(owner, id)
  for (const priority of ['low', 'high'])
    await service.expect('updateTask', 200, {
      token: owner.token,
      params: { task_id: notes.id },
      body: { priority },
    })
  const { body } = await service.expect('listTasks', 200, { token: owner.token })
  return body.items
})()
await createTask(stranger, { title: 'Foreign', status: 'in_progress', priority: 'urgent' })

const byTitle = (title: string): Task => {
  const found = tasks.find((task) => task.title.startsWith(title))
  if (found === undefined) throw new Error(`No task ${title}`)
  return found
}

/** The titles of the tasks that match a filter, in order. */
const matching = async (
  filter: string,
  { token }: Account = owner,
  query: object = {},
): Promise<string[]> => {
  const { body } = await service.expect('listTasks', 200, { token, query: { filter, limit: 200, ...query } })
  return body.items.map(({ title }) => title)
}

/** The detail of the 400 for a filter. */
const refusal = async (query: NonNullable<Call['query']>): Promise<string> => {
  const { body } = await service.expect('listTasks', 400, { token: owner.token, query })
  const [error] = body.errors ?? []
  if (error?.pointer !== '/filter' || body.detail !== `filter ${error.detail}.`)
    throw new Error(`The error is not for the filter: ${JSON.stringify(body)}`)
  return error.detail
}

const all = tasks.map(({ title }) => title)
const [far, old, ärger, hello, crash, ship, tests, notes] = all as [
  string,
  string,
  string,
  string,
  string,
  string,
  string,
  string,
]
const without = (...titles: readonly string[]): string[] => all.filter((title) => !titles.includes(title))

t.test('filters of many forms prepare few statements', async (t) => {
  const count = async () => {
    const [row] = await service.deps.db.run('select count(*)::int as count from pg_prepared_statements', [])
    return Number(row?.count)
  }
  const before = await count()
  for (let n = 0; n < 32; n += 1) {
    const forms = Array.from({ length: 5 }, (_, bit) => `title ${(n >> bit) % 2 === 0 ? '=' : '!='} x`)
    await matching(forms.join(' OR '))
  }
  t.ok((await count()) - before < 16)
})

t.test('matches of filters', async (t) => {
  const cases: Readonly<Record<string, readonly string[]>> = {
    '': all,
    ' \n\t ': all,
    'status = todo': [far, old, ärger, notes],
    'status=todo': [far, old, ärger, notes],
    '"status" = todo': [far, old, ärger, notes],
    'status : "todo"': [far, old, ärger, notes],
    'status != todo': [hello, crash, ship, tests],
    'NOT status = todo': [hello, crash, ship, tests],
    '-status:todo': [hello, crash, ship, tests],
    'status:*': all,
    // Precedence: OR binds closer than AND, and a space is an AND.
    'status = done OR status = todo AND priority = high': [notes],
    'status = done OR (status = todo AND priority = high)': [ship, notes],
    'status = done OR status = todo priority = high OR priority = none': [far, old, ship, notes],
    'NOT status = todo OR priority = high': [hello, crash, ship, tests, notes],
    'NOT (status = todo OR priority = low)': [hello, ship, tests],
    'NOT(status = todo) AND -(priority = low)': [hello, ship, tests],
    '((((status = done))))': [ship],
    // Ordered enums
    'priority >= high': [tests, notes],
    'priority > high': [tests],
    'priority <= low': [far, old, hello, crash, ship],
    'priority < low': [far, old, hello, ship],
    'priority != none': [ärger, crash, tests, notes],
    'priority < none': [],
    // Texts
    'title = "Ship it"': [ship],
    "title = 'Ship it'": [ship],
    'title = "ship it"': [],
    'title != "Ship it"': without(ship),
    'title = Old': [old],
    'title = "Write*"': [notes],
    'title = Write*': [notes],
    'title = "*the*"': [crash, tests, notes],
    'title = "*it"': [ship],
    'title != "*the*"': without(crash, tests, notes),
    'title = *': all,
    'title:write': [tests, notes],
    'title:"WRITE THE"': [tests, notes],
    'title:straße': [ärger],
    [String.raw`title = "Say \"hello\" \\ to 100%_all\*"`]: [hello],
    [String.raw`title:"100%_all\*"`]: [hello],
    [String.raw`title = "*\*"`]: [hello],
    [String.raw`title = 'Say "hello" \\*'`]: [hello],
    'title:"%"': [hello],
    'title:_all': [hello],
    'description:*': [far, hello],
    '-description:*': without(far, hello),
    'description = ""': without(far, hello),
    'description:"WORD,\nAND"': [hello],
    'description = "A word*"': [hello],
    // Searches
    '"crash"': [far, crash],
    '"the" "crash"': [crash],
    '-"the"': without(crash, tests, notes),
    '"crash" OR "the notes"': [far, crash, notes],
    '"crash" status = in_progress': [crash],
    '"crash AND && status"': [],
    // People
    'assignee_id:*': [far, tests],
    'NOT assignee_id:*': without(far, tests),
    [`assignee_id = ${helper.id}`]: [tests],
    [`assignee_id = "${helper.id.toUpperCase()}"`]: [tests],
    'assignee_id = me': [far],
    'assignee_id:me': [far],
    // A task without a value matches no comparison, and therefore every negated one.
    'assignee_id != me': [tests],
    'NOT assignee_id = me': without(far),
    'NOT (assignee_id = me OR assignee_id != me)': without(far, tests),
    'NOT "NOT_A_WORD"': all,
    'owner_id = me': all,
    [`owner_id != ${unknownId}`]: all,
    [`id = ${byTitle('Ship').id}`]: [ship],
    [`id != ${byTitle('Ship').id}`]: without(ship),
    // Tags
    'tags:bug': [crash, ship],
    'tags:"BUG"': [crash, ship],
    'tags:"release 1.0"': [crash],
    'tags:rel*': [crash],
    'tags:"*1.0"': [crash],
    'tags:STRAßE': [ärger],
    'tags:*': [ärger, crash, ship],
    'NOT tags:*': without(ärger, crash, ship),
    'tags:bug AND -tags:rel*': [ship],
    'tags:bu': [],
    // Times
    'due_at < now': [old, ship],
    'NOT due_at < now': without(old, ship),
    'due_at < now OR NOT due_at:*': without(far, notes),
    'due_at >= now': [far, notes],
    'due_at > now-2d AND due_at < now+2.5d': [ship, notes],
    'due_at < now-1w': [old],
    'due_at < now+60h': [old, ship, notes],
    'due_at < now+1h': [old, ship],
    'due_at < now+90m': [old, ship],
    'due_at < now-90s': [old, ship],
    'due_at = 2020-02-29T23:59:59.999Z': [old],
    'due_at:"2020-02-29T23:59:59.999Z"': [old],
    'due_at != 2020-02-29T23:59:59.999Z': [far, ship, notes],
    'due_at = 2020-03-01T00:59:59.999+01:00': [old],
    'start_at = 2020-01-31': [old],
    'start_at<2020-02-01': [old],
    'start_at <= 2020-01-30': [],
    'completed_at:*': [ship],
    'completed_at <= now': [ship],
    'created_at > now-1h updated_at > now-1h': all,
    'created_at > now': [],
    // Numbers
    'attachment_count > 0': [tests, notes],
    'comment_count = 0': all,
    'attachment_count = 2': [notes],
    'attachment_count > 1.5': [notes],
    'attachment_count >= 1e0': [tests, notes],
    'attachment_count > -1': all,
    'attachment_count < 1e300': all,
    'attachment_count != 0': [tests, notes],
    'attachment_count:*': all,
    'version = 3': [notes],
  }
  for (const [filter, titles] of Object.entries(cases)) {
    t.strictSame(await matching(filter), titles, filter)
  }
})

t.test('400 for a filter that cannot be read, with the position', async (t) => {
  t.match(
    await refusal({ filter: 'status =' }),
    /^is invalid at character 9: found the end, expected a value/,
  )
  t.match(
    await refusal({ filter: 'prio = high' }),
    /^is invalid at character 1: found prio, expected priority/,
  )
  t.match(await refusal({ filter: 'status eq todo' }), /^is invalid at character 8: found eq, expected =$/)
})

t.test('200 for words and symbols of other languages in quotes, as values, or in q', async (t) => {
  t.strictSame(await matching('', stranger, { q: 'status && todo eq' }), [])
  t.strictSame(await matching(`"<>" OR title = "==" OR tags:eq OR title:'&&'`, stranger), [])
  t.strictSame(await matching("title = don't OR tags:@home OR tags:#x OR title:a/b", stranger), [])
})

t.test('400 for too many levels, comparisons or characters', async (t) => {
  const nested = (depth: number) => `${'('.repeat(depth)}status = done${')'.repeat(depth)}`
  t.strictSame(await matching(nested(20)), [ship])
  t.match(await refusal({ filter: nested(21) }), /at character 21: .*at most 20/)
  t.match(await refusal({ filter: '('.repeat(2_000) }), /at most 20/)
  t.match(await refusal({ filter: `${'NOT ('.repeat(25)}a${')'.repeat(25)}` }), /at most 20/)

  const disjunction = (count: number) => Array(count).fill('status = done').join(' OR ')
  t.strictSame(await matching(disjunction(50)), [ship])
  t.match(await refusal({ filter: disjunction(51) }), /at most 50/)
  t.match(await refusal({ filter: Array(51).fill('a').join(' ') }), /character 101: .*at most 50/)
  t.match(await refusal({ filter: ' -a'.repeat(60) }), /at most 50/)

  const long = (length: number) => `status = done${' '.repeat(length - 13)}`
  t.strictSame(await matching(long(2_000)), [ship])
  t.match(await refusal({ filter: long(2_001) }), /at most 2000 characters/)
  await refusal('filter=a&filter=b')
  const { detail } = (await service.expect('listTasks', 400, { token: owner.token, query: 'filter=a%00' }))
    .body
  t.match(detail, /U\+0000/)
  t.match(await refusal({ filter: 'x'.repeat(1_999) + '!' }), /found !/)
  t.ok((await refusal({ filter: `${'x'.repeat(1_900)} = 1` })).length < 450, 'a long token is abbreviated')
})

t.test('values are never executed as SQL', async (t) => {
  const attempts = [
    `'; drop table tasks; --`,
    `') or true --`,
    `" OR "1"="1`,
    '$1',
    '${filter_0}',
    `{"a":1}`,
    `\\'; select pg_sleep(10); --`,
    `%' or title like '%`,
    '\u202e; --',
  ]
  const quote = (text: string) => `"${text.replaceAll(/["\\*]/g, String.raw`\$&`)}"`
  for (const attempt of attempts) {
    const { id } = await createTask(helper, { title: attempt })
    for (const filter of [`title = ${quote(attempt)}`, `title:${quote(attempt)}`]) {
      t.strictSame(await matching(filter, helper), [attempt.trim()], filter)
    }
    for (const filter of [`description = ${quote(attempt)}`, `tags:${quote(attempt)}`]) {
      t.strictSame(await matching(filter, helper), [], filter)
    }
    for (const field of ['status', 'due_at', 'version', 'id']) {
      t.match(await refusal({ filter: `${field} = ${quote(attempt)}` }), /expected/)
    }
    t.match(await refusal({ filter: `${quote(attempt)} = 1` }), /expected one of id/)
    await service.expect('deleteTask', 204, { token: helper.token, params: { task_id: id } })
  }
  t.strictSame(await matching(''), all, 'the tasks are unchanged')
})

t.test('a filter matches only tasks that the caller can see', async (t) => {
  const everything = [
    '',
    'title:*',
    'status:* OR status = done',
    'NOT title = x',
    `owner_id = ${owner.id} OR title:*`,
  ]
  for (const filter of everything) {
    t.strictSame(await matching(filter, stranger), ['Foreign'], filter)
    t.strictSame(await matching(filter, helper), [tests], filter)
    const query = { filter, include_total: true, limit: 1 }
    const { body } = await service.expect('listTasks', 200, { token: stranger.token, query })
    t.equal(body.total, 1, filter)
  }
  t.strictSame(await matching('title:*', admin, { all: true }), ['Foreign', ...all])
  t.strictSame(await matching(`owner_id = ${owner.id}`, stranger), [])
  t.strictSame(await matching('tags:bug', stranger), [])
  t.strictSame(await matching('owner_id = me', stranger), ['Foreign'])
})

t.test('filters combine with other parameters, and work in listUserTasks', async (t) => {
  t.strictSame(await matching('priority >= high', owner, { status: 'todo' }), [notes])
  t.strictSame(await matching('status = todo OR status = done', owner, { tag_id: bug.id }), [ship])
  const list = async (filter: string, user: Account, { token }: Account) => {
    const query = { filter, include_total: true }
    const { body } = await service.expect('listUserTasks', 200, {
      token,
      params: { user_id: user.id },
      query,
    })
    t.equal(body.total, body.items.length)
    return body.items.map(({ title }) => title)
  }
  t.strictSame(await list('priority >= high', owner, owner), [tests, notes])
  t.strictSame(await list('priority >= high', helper, owner), [tests])
  t.strictSame(await list('priority >= high', owner, helper), [tests])
  t.strictSame(await list('assignee_id = me', helper, owner), [], 'me is the caller')
  t.strictSame(await list('priority >= high', owner, stranger), [])
  const params = { user_id: owner.id }
  const { body } = await service.expect('listUserTasks', 400, {
    token: owner.token,
    params,
    query: { filter: '=' },
  })
  t.strictSame(pointersOf(body), ['/filter'])
})

t.test('pages', async (t) => {
  const first = async (filter: string) =>
    await service.expect('listTasks', 200, { token: owner.token, query: { filter, limit: 3 } })

  t.test('continue with the filter', async (t) => {
    const filter = 'NOT status = done AND -title:"&= %"'
    const { body, headers } = await first(filter)
    t.strictSame(
      body.items.map(({ title }) => title),
      [far, old, ärger],
    )
    const cursor = body.next_cursor ?? ''
    t.strictSame(await matching(filter, owner, { cursor }), [hello, crash, tests, notes])
    const next = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? ''
    const query = new URL(next, service.url).search.slice(1)
    const { body: page } = await service.expect('listTasks', 200, { token: owner.token, query })
    t.strictSame(
      page.items.map(({ title }) => title),
      [hello, crash, tests],
    )
  })

  t.test('400 for a cursor with another filter', async (t) => {
    const { body } = await first('NOT status = done')
    const cursor = body.next_cursor ?? ''
    for (const query of [
      { cursor },
      { cursor, filter: 'NOT status = todo' },
      { cursor, filter: 'NOT  status = done' },
    ]) {
      const { body: problem } = await service.expect('listTasks', 400, { token: owner.token, query })
      t.strictSame(pointersOf(problem), ['/cursor'])
    }
  })

  t.test('share the `now` of the first page', async (t) => {
    const filter = 'created_at <= now AND updated_at <= now+0s'
    const query = { filter, sort: 'created_at', limit: 3 }
    const { body } = await service.expect('listTasks', 200, { token: owner.token, query })
    await clockToMove()
    const later = await createTask(owner, { title: 'Later' })
    const seen = body.items.map(({ title }) => title)
    let cursor = body.next_cursor
    while (cursor !== null) {
      const page = { ...query, cursor }
      const { body } = await service.expect('listTasks', 200, { token: owner.token, query: page })
      seen.push(...body.items.map(({ title }) => title))
      cursor = body.next_cursor
    }
    t.strictSame(seen, all.toReversed())
    t.ok((await matching(filter)).includes('Later'), 'a new list has its own now')
    await service.expect('deleteTask', 204, { token: owner.token, params: { task_id: later.id } })
  })
})

/** A seeded pseudorandom generator (mulberry32). */
const randomFrom = (seed: number) => {
  let state = seed
  return (count: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count
  }
}

interface Sample {
  readonly text: string
  readonly holds: (task: Task) => boolean
}

t.test('random filters match the same tasks as a reference implementation', async (t) => {
  const seed = 20_261_121
  const random = randomFrom(seed)
  const pick = <const T>(from: readonly [T, ...T[]]): T => from[random(from.length)] ?? from[0]
  const some = <T>(max: number, make: () => T): T[] => Array.from({ length: 1 + random(max) }, make)

  const orders: Readonly<Record<string, (left: number, right: number) => boolean>> = {
    '=': (left, right) => left === right,
    '!=': (left, right) => left !== right,
    '<': (left, right) => left < right,
    '<=': (left, right) => left <= right,
    '>': (left, right) => left > right,
    '>=': (left, right) => left >= right,
    ':': (left, right) => left === right,
  }
  const statuses = ['todo', 'in_progress', 'done', 'cancelled'] as const
  const priorities = ['none', 'low', 'medium', 'high', 'urgent'] as const
  const instants = ['start_at', 'due_at', 'completed_at', 'created_at', 'updated_at'] as const
  const numbers = ['attachment_count', 'comment_count', 'version'] as const
  const people = [owner.id, helper.id, unknownId] as const
  const operator = () => pick(['=', '!=', '<', '<=', '>', '>=', ':'])
  const equality = () => pick(['=', '!=', ':'])
  const compare = (name: string, left: number | null, right: number) =>
    left !== null && (orders[name]?.(left, right) ?? false)
  const milliseconds = (text: string | null) => (text === null ? null : Date.parse(text))

  const comparisons: readonly [() => Sample, ...(() => Sample)[]] = [
    () => {
      const [name, value] = [equality(), pick(statuses)]
      const rank = statuses.indexOf(value)
      return {
        text: `status ${name} ${value}`,
        holds: (task) => compare(name, statuses.indexOf(task.status), rank),
      }
    },
    () => {
      const [name, value] = [operator(), pick(priorities)]
      const rank = priorities.indexOf(value)
      const holds = (task: Task) => compare(name, priorities.indexOf(task.priority), rank)
      return { text: `priority${name}${value}`, holds }
    },
    () => {
      const [field, name, value] = [pick(instants), operator(), pick(tasks as [Task, ...Task[]])]
      const instant = value[pick(instants)] ?? '2026-01-31T00:00:00Z'
      const holds = (task: Task) => compare(name, milliseconds(task[field]), Date.parse(instant))
      return { text: `${field} ${name} ${pick([instant, `"${instant}"`])}`, holds }
    },
    () => {
      const field = pick([...instants, 'assignee_id', 'description', 'title', 'status'])
      return { text: `${field}:*`, holds: (task) => task[field] !== null && task[field] !== '' }
    },
    () => {
      const [field, name, value] = [pick(['owner_id', 'assignee_id']), equality(), pick(people)]
      const holds = (task: Task) => task[field] !== null && (task[field] === value) !== (name === '!=')
      return { text: `${field} ${name} ${value === owner.id ? 'me' : value}`, holds }
    },
    () => {
      const [field, name, value] = [pick(numbers), operator(), random(4) - 1]
      return { text: `${field} ${name} ${value}`, holds: (task) => compare(name, task[field], value) }
    },
    () => {
      const name = pick(['bug', 'BUG', 'release 1.0', 'none'])
      const holds = (task: Task) => task.tags.some((tag) => tag.name.toLowerCase() === name.toLowerCase())
      return { text: `tags:"${name}"`, holds }
    },
    () => {
      const [field, part] = [pick(['title', 'description']), pick(['the', 'CRASH', '_', 'e'])]
      return {
        text: `${field}:${part}`,
        holds: (task) => task[field].toLowerCase().includes(part.toLowerCase()),
      }
    },
    () => {
      const [start, name] = [pick(['w', 'W', 'Fix ', '']), pick(['=', '!='])]
      return {
        text: `title ${name} "${start}*"`,
        holds: (task) => task.title.startsWith(start) !== (name === '!='),
      }
    },
  ]

  const joined = (by: ' OR ' | ' ' | ' AND ', samples: readonly Sample[]): Sample => ({
    text: samples.map(({ text }) => text).join(by),
    holds: (task) => samples[by === ' OR ' ? 'some' : 'every'](({ holds }) => holds(task)),
  })
  const composite = ({ text, holds }: Sample): Sample => ({ text: `(${text})`, holds })
  const term = (depth: number): Sample => {
    const isComposite = depth > 0 && random(3) === 0
    const { text, holds } = isComposite ? composite(expression(depth - 1)) : pick(comparisons)()
    const sign = pick(['', '', 'NOT ', '-'])
    return { text: `${sign}${text}`, holds: (task) => holds(task) !== (sign !== '') }
  }
  // As in the grammar of AIP-160.
  const factor = (depth: number) =>
    joined(
      ' OR ',
      some(3, () => term(depth)),
    )
  const sequence = (depth: number) =>
    joined(
      ' ',
      some(2, () => factor(depth)),
    )
  const expression = (depth: number): Sample =>
    joined(
      ' AND ',
      some(2, () => sequence(depth)),
    )

  let found = 0
  for (let n = 0; n < 80; n += 1) {
    const { text, holds } = expression(2)
    // Skips filters near the length limit.
    if (text.length > 1_000) continue
    const titles = tasks.filter(holds).map(({ title }) => title)
    found += titles.length
    t.strictSame(await matching(text), titles, `${seed}, ${n}: ${text}`)
  }
  t.ok(found > 80 && found < 80 * tasks.length - 80, `${found} found: neither all nor nothing`)
})
