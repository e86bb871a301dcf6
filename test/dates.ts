import t from 'tap'
import type { components } from '../generated/openapi.ts'
import { changesToBeKnown } from './fixture/changes.ts'
import { wrapRuns } from '../src/db/engine/wrap-runs.ts'
import { type Account, type Call, startService } from './fixture/service.ts'
import { pointersOf, type Task, taskActions, withoutRequest } from './fixture/tasks.ts'

type TaskPage = components['schemas']['TaskList']

/** The service's clock, for `now` and `overdue`. */
let now = new Date()

const service = await startService(t, { clock: () => now })
const { createTask, readTask } = taskActions(service)
const admin = await service.register('admin')

const moveTo = async ({ id, token }: Account, time_zone: string): Promise<void> => {
  const { body } = await service.expect('updateUser', 200, {
    token,
    params: { user_id: id },
    body: { time_zone },
  })
  if (body.time_zone !== time_zone) throw new Error(`The time zone is ${body.time_zone}`)
}

const registerIn = async (name: string, time_zone: string): Promise<Account> => {
  const account = await service.register(name)
  await moveTo(account, time_zone)
  return account
}

const listTasks = async ({ token }: Account, query: NonNullable<Call['query']>): Promise<readonly Task[]> =>
  (await service.expect('listTasks', 200, { token, query })).body.items

const titlesOf = (tasks: readonly Pick<Task, 'title'>[]): string[] =>
  tasks.map(({ title }) => title).toSorted()

const change = async ({ token }: Account, { id }: Pick<Task, 'id'>, body: object): Promise<Task> =>
  (await service.expect('updateTask', 200, { token, params: { task_id: id }, body })).body

const titled = (dates: object) => ({ title: 'Titled', ...dates })

const datesOf = ({ start_at, start_on, due_at, due_on }: Task) => ({ start_at, start_on, due_at, due_on })
const noDates = { start_at: null, start_on: null, due_at: null, due_on: null }

const shift = (instant: string, milliseconds: number): string =>
  new Date(Date.parse(instant) + milliseconds).toISOString()
const dayBefore = (day: string): string => shift(`${day}T00:00:00.000Z`, -86_400_000).slice(0, 10)

t.test('time_zone of a user', async (t) => {
  t.equal(admin.user.time_zone, 'UTC', 'the default')

  t.test('is case-insensitive, and aliases are kept', async (t) => {
    const spellings = {
      'europe/berlin': 'Europe/Berlin',
      'AMERICA/ARGENTINA/BUENOS_AIRES': 'America/Argentina/Buenos_Aires',
      'Asia/Calcutta': 'Asia/Calcutta',
      'Asia/Kolkata': 'Asia/Kolkata',
      'us/pacific': 'US/Pacific',
      'Etc/GMT+5': 'Etc/GMT+5',
      utc: 'UTC',
    }
    for (const [index, [time_zone, canonical]] of Object.entries(spellings).entries()) {
      const account = {
        username: `zone-${index}`,
        email: `zone-${index}@example.com`,
        password: 'password of zone',
      }
      const { body } = await service.expect('register', 201, { body: { ...account, time_zone } })
      t.equal(body.user.time_zone, canonical)
    }
  })

  t.test('can be created, replaced and changed', async (t) => {
    const { token } = admin
    const fields = { username: 'traveller', email: 'traveller@example.com' }
    const created = await service.expect('createUser', 201, {
      token,
      body: { ...fields, password: 'password of traveller', time_zone: 'Pacific/Kiritimati' },
    })
    t.equal(created.body.time_zone, 'Pacific/Kiritimati')
    const params = { user_id: created.body.id }
    const replacement = { ...fields, display_name: 'Traveller', role: 'member' }
    const kept = await service.expect('replaceUser', 200, { token, params, body: replacement })
    t.equal(kept.body.time_zone, 'Pacific/Kiritimati', 'kept if omitted')
    const body = { ...replacement, time_zone: 'Asia/Tokyo' }
    t.match((await service.expect('replaceUser', 200, { token, params, body })).body, {
      time_zone: 'Asia/Tokyo',
      version: kept.body.version + 1,
    })
    const same = await service.expect('updateUser', 200, { token, params, body: { time_zone: 'asia/tokyo' } })
    t.equal(same.body.version, kept.body.version + 1, 'the same zone changes nothing')
  })

  t.test('400 for an unknown zone', async (t) => {
    const unknown = [
      '',
      'Mars/Olympus',
      'Berlin',
      '+01:00',
      'GMT+1',
      'CEST',
      'Factory',
      'localtime',
      'Europe/',
    ]
    const hostile = [
      "UTC'; --",
      'Europe/Berlin\n',
      '../../etc/passwd',
      'Europe/Berlin[u-ca=hebrew]',
      'x'.repeat(65),
    ]
    for (const time_zone of [...unknown, ...hostile, null, 1]) {
      const { body } = await service.expect('updateUser', 400, {
        token: admin.token,
        params: { user_id: admin.id },
        body: { time_zone },
      })
      t.strictSame(pointersOf(body), ['/time_zone'], String(time_zone))
    }
  })

  t.test('400 for a zone that is unknown to the database', async (t) => {
    // An older copy of the IANA database.
    const inOlderDatabase = (value: unknown) => (value === 'Asia/Tokyo' ? 'Moon/Tranquility' : value)
    const older = await startService(t, {
      db: service.deps.db,
      aroundDatabase: (db) =>
        wrapRuns(db, (run) => (text, values, mode) => run(text, values.map(inOlderDatabase), mode)),
    })
    const time_zone = 'Asia/Tokyo'
    const call = { token: admin.token, params: { user_id: admin.id }, body: { time_zone } }
    const body = { username: 'tokyo', email: 'tokyo@example.com', password: 'correct horse', time_zone }
    for (const refused of [
      await older.expect('updateUser', 400, call),
      await older.expect('createUser', 400, { token: admin.token, body }),
      await older.expect('register', 400, { body }),
    ])
      t.strictSame(pointersOf(refused.body), ['/time_zone'])
    await service.expect('updateUser', 200, call)
    await moveTo(admin, 'UTC')
  })
})

t.test('all-day dates of a task', async (t) => {
  const owner = await registerIn('all-day', 'Europe/Berlin')
  const { token } = owner
  const instant = '2026-03-29T10:00:00.000Z'

  t.test('are stored unchanged', async (t) => {
    for (const day of ['0001-01-01', '2024-02-29', '2026-03-29', '9999-12-31']) {
      const task = await createTask(owner, { start_on: day, due_on: day })
      const dates = { ...noDates, start_on: day, due_on: day }
      t.strictSame(datesOf(task), dates)
      t.strictSame(datesOf((await readTask(owner, task.id)).task), dates)
    }
  })

  t.test('replace a time, and are replaced by one', async (t) => {
    const task = await createTask(owner, { start_on: '2026-03-01', due_on: '2026-03-29' })
    const patches: readonly (readonly [object, Partial<Task>])[] = [
      [{ due_at: instant }, { ...noDates, start_on: '2026-03-01', due_at: instant }],
      [
        { due_at: null, due_on: '2026-03-30' },
        { ...noDates, start_on: '2026-03-01', due_on: '2026-03-30' },
      ],
      [{ due_at: null }, { ...noDates, start_on: '2026-03-01', due_on: '2026-03-30' }],
      [{ start_at: instant }, { ...noDates, start_at: instant, due_on: '2026-03-30' }],
      [{ start_on: null }, { ...noDates, start_at: instant, due_on: '2026-03-30' }],
      [
        { start_on: '2026-03-02', due_on: null },
        { ...noDates, start_on: '2026-03-02' },
      ],
    ]
    for (const [patch, dates] of patches) t.strictSame(datesOf(await change(owner, task, patch)), dates)
    const replaced = await service.expect('replaceTask', 200, {
      token,
      params: { task_id: task.id },
      body: { title: 'Replaced', due_at: instant },
    })
    t.strictSame(datesOf(replaced.body), { ...noDates, due_at: instant })
  })

  t.test('400 for invalid or contradictory dates', async (t) => {
    const task = await createTask(owner, { due_on: '2026-03-29' })
    const bad: readonly (readonly [object, readonly string[]])[] = [
      [{ due_on: '2026-03-29', due_at: instant }, ['/due_on']],
      [{ start_on: '2026-03-29', start_at: instant }, ['/start_on']],
      [
        { start_on: '2026-03-01', start_at: instant, due_on: '2026-03-29', due_at: instant },
        ['/start_on', '/due_on'],
      ],
      [{ start_on: '2026-03-29', due_on: '2026-03-28' }, ['/due_on']],
      ...[
        '2026-02-29',
        '2026-13-01',
        '2026-00-10',
        '0000-01-01',
        '2026-3-29',
        '20260329',
        '2026-03-29T00:00:00Z',
        '',
      ].map((day) => [{ due_on: day }, ['/due_on']] as const),
      [{ start_on: 20_260_329 }, ['/start_on']],
    ]
    for (const [dates, pointers] of bad) {
      const params = { task_id: task.id }
      for (const { body } of [
        await service.expect('createTask', 400, { token, body: { title: 'Bad', ...dates } }),
        await service.expect('replaceTask', 400, { token, params, body: { title: 'Bad', ...dates } }),
        await service.expect('updateTask', 400, { token, params, body: dates }),
      ])
        t.strictSame(pointersOf(body), pointers, JSON.stringify(dates))
    }
    t.match((await readTask(owner, task.id)).task, task)
  })

  t.test('a time and a day are compared by days in the time zone of the owner', async (t) => {
    // In Berlin this day ends at 22:00 UTC, and the day before ended at 23:00 UTC.
    const [due_on, last, next] = ['2026-03-29', '2026-03-29T21:59:59.999Z', '2026-03-29T22:00:00.000Z']
    const good: readonly object[] = [
      { start_at: last, due_on },
      { start_on: '2026-03-30', due_at: next },
      { start_on: due_on, due_at: '2026-03-28T23:00:00Z' },
    ]
    const bad: readonly (readonly [Readonly<Record<string, string>>, string])[] = [
      [{ start_at: next, due_on }, '/due_on'],
      [{ start_on: '2026-03-30', due_at: last }, '/due_at'],
      [{ start_on: due_on, due_at: '2026-03-28T22:59:59.999Z' }, '/due_at'],
    ]
    for (const dates of good) await createTask(owner, dates)
    for (const [dates, pointer] of bad) {
      const title = 'Backwards'
      const { body } = await service.expect('createTask', 400, { token, body: { title, ...dates } })
      t.strictSame(pointersOf(body), [pointer], JSON.stringify(dates))
      const task = await createTask(owner)
      const call = { token: admin.token, params: { task_id: task.id } }
      const [[first, value] = [], ...others] = Object.entries(dates)
      await service.expect('updateTask', 200, { ...call, body: { [String(first)]: value } })
      const refused = await service.expect('updateTask', 400, { ...call, body: Object.fromEntries(others) })
      t.strictSame(pointersOf(refused.body), [pointer], 'also for an administrator in another zone')
      await service.expect('replaceTask', 400, { ...call, body: { title, ...dates } })
    }
    const { body } = await service.expect('batchTasks', 200, {
      token,
      body: {
        create: [...good, ...bad.map(([dates]) => dates)].map(titled),
      },
    })
    t.strictSame(
      body.create.map(({ status }) => status),
      [201, 201, 201, 400, 400, 400],
    )
  })

  t.test('after a change of the time zone, 400 only for changes of the dates', async (t) => {
    const mover = await registerIn('mover', 'Pacific/Pago_Pago')
    const task = await createTask(mover, { start_at: '2026-03-30T10:00:00.000Z', due_on: '2026-03-29' })
    await moveTo(mover, 'Pacific/Kiritimati')
    t.equal((await change(mover, task, { title: 'Moved' })).title, 'Moved')
    const { title, description, status, priority } = task
    const body = { title, description, status, priority, ...datesOf(task) }
    await service.expect('replaceTask', 200, { token: mover.token, params: { task_id: task.id }, body })
    const refused = await service.expect('updateTask', 400, {
      token: mover.token,
      params: { task_id: task.id },
      body: { start_at: '2026-03-30T10:00:00.001Z' },
    })
    t.strictSame(pointersOf(refused.body), ['/due_on'])
  })

  t.test('in batches, the change feed, the trash and restored tasks', async (t) => {
    const dates = { ...noDates, start_on: '2026-03-28', due_on: '2026-03-29' }
    const { body } = await service.expect('batchTasks', 200, {
      token,
      body: { create: [{ title: 'Batched', start_on: '2026-03-28', due_on: '2026-03-29' }] },
    })
    const task_id = body.create[0]?.task_id ?? ''
    await changesToBeKnown(service.deps.db)
    const feed = await service.expect('listTaskChanges', 200, { token, query: { limit: 200 } })
    const changed = feed.body.changed.find(({ id }) => id === task_id)
    t.strictSame(changed && datesOf(changed), dates)
    const expanded = await service.expect('getTask', 200, {
      token,
      params: { task_id },
      query: { expand: 'owner' },
    })
    t.strictSame(datesOf(expanded.body), dates)
    t.equal(expanded.body.owner?.time_zone, 'Europe/Berlin')
    await service.expect('deleteTask', 204, { token, params: { task_id } })
    const trashed = await service.expect('getTrashedTask', 200, { token, params: { task_id } })
    t.strictSame(datesOf(trashed.body), dates)
    t.strictSame(
      datesOf((await service.expect('restoreTask', 200, { token, params: { task_id } })).body),
      dates,
    )
    const patched = async (patch: object) => {
      const update = [{ task_id, patch }]
      return (await service.expect('batchTasks', 200, { token, body: { update } })).body.update[0]
    }
    const refused = await patched({ due_at: instant, due_on: '2026-03-29' })
    t.strictSame(refused?.problem && pointersOf(refused.problem), ['/update/0/patch/due_on'])
    t.equal((await patched({ due_at: instant }))?.status, 200)
    const several = [
      { due_on: '2026-03-30' },
      { due_at: instant, start_on: null },
      { start_on: '2026-03-28' },
    ]
    const { body: updated } = await service.expect('batchTasks', 200, {
      token,
      body: { update: several.map((patch) => ({ task_id, patch })) },
    })
    t.strictSame(
      updated.update.map(({ status }) => status),
      [200, 200, 200],
      'several items for one task',
    )
    t.strictSame(datesOf((await readTask(owner, task_id)).task), {
      ...noDates,
      start_on: '2026-03-28',
      due_at: instant,
    })
  })
})

/** Zones, days, and the instants when these days start. */
const starts = [
  // The clocks change on the first day of each pair.
  ['Europe/Berlin', '2026-03-29', '2026-03-28T23:00:00.000Z'],
  ['Europe/Berlin', '2026-03-30', '2026-03-29T22:00:00.000Z'],
  ['Europe/Berlin', '2026-10-25', '2026-10-24T22:00:00.000Z'],
  ['Europe/Berlin', '2026-10-26', '2026-10-25T23:00:00.000Z'],
  ['America/New_York', '2026-03-08', '2026-03-08T05:00:00.000Z'],
  ['America/New_York', '2026-03-09', '2026-03-09T04:00:00.000Z'],
  ['America/New_York', '2026-11-01', '2026-11-01T04:00:00.000Z'],
  ['America/New_York', '2026-11-02', '2026-11-02T05:00:00.000Z'],
  // A change of half an hour.
  ['Australia/Lord_Howe', '2026-04-05', '2026-04-04T13:00:00.000Z'],
  ['Australia/Lord_Howe', '2026-04-06', '2026-04-05T13:30:00.000Z'],
  ['Australia/Lord_Howe', '2026-10-05', '2026-10-04T13:00:00.000Z'],
  // Both sides of the date line.
  ['Pacific/Kiritimati', '2026-06-01', '2026-05-31T10:00:00.000Z'],
  ['Pacific/Pago_Pago', '2026-06-01', '2026-06-01T11:00:00.000Z'],
  // The day starts at 01:00; midnight occurs twice; the day before does not exist.
  ['Africa/Cairo', '2026-04-24', '2026-04-23T22:00:00.000Z'],
  ['America/Havana', '2026-11-01', '2026-11-01T04:00:00.000Z'],
  ['Pacific/Apia', '2011-12-31', '2011-12-30T10:00:00.000Z'],
  ['Asia/Tokyo', '2028-02-29', '2028-02-28T15:00:00.000Z'],
  ['Asia/Tokyo', '2028-03-01', '2028-02-29T15:00:00.000Z'],
] as const

t.test('overdue: a day ends in the time zone of the caller', async (t) => {
  const traveller = await service.register('overdue')
  const { body } = await service.expect('batchTasks', 200, {
    token: traveller.token,
    body: {
      create: starts.flatMap(([zone, day]) => [
        { title: `${zone} before`, due_on: dayBefore(day) },
        { title: `${zone} next`, due_on: day },
        { title: `${zone} done`, due_on: dayBefore(day), status: 'done' },
      ]),
    },
  })
  const ids = body.create.map(({ task_id: id }) => id ?? '')
  for (const [index, [zone, day, start]] of starts.entries()) {
    await moveTo(traveller, zone)
    const [task, next, done] = ids.slice(index * 3)
    const overdueAt = async (at: string): Promise<(id: string | undefined) => boolean> => {
      now = new Date(at)
      const filter = `owner_id = me AND (id = ${task} OR id = ${next} OR id = ${done})`
      const query = { overdue: true, filter }
      const overdue = await listTasks(traveller, query)
      const others = await listTasks(traveller, { ...query, overdue: false })
      return (one) => {
        const found = overdue.some(({ id }) => id === one)
        if (found === others.some(({ id }) => id === one))
          throw new Error('The task is in both lists or in neither')
        return found
      }
    }
    const wasOverdue = await overdueAt(shift(start, -1))
    t.equal(wasOverdue(task), false, `${zone} before ${day}`)
    const isOverdue = await overdueAt(start)
    t.equal(isOverdue(task), true, `${zone} on ${day}`)
    t.equal(isOverdue(next), false)
    t.equal(isOverdue(done), false)
  }

  t.test('a task is overdue for one caller before another', async (t) => {
    const west = await registerIn('west', 'Pacific/Pago_Pago')
    const east = await registerIn('east', 'Pacific/Kiritimati')
    await createTask(west, { title: 'Shared', due_on: '2026-06-01', assignee_id: east.id })
    const overdueFor = async (account: Account) => titlesOf(await listTasks(account, { overdue: true }))
    now = new Date('2026-06-01T10:00:00.000Z')
    t.strictSame([await overdueFor(east), await overdueFor(west)], [['Shared'], []])
    now = new Date('2026-06-02T10:59:59.999Z')
    t.strictSame(await overdueFor(west), [])
    now = new Date('2026-06-02T11:00:00.000Z')
    t.strictSame(await overdueFor(west), ['Shared'])
  })

  t.test('a time is overdue in all zones at the same instant', async (t) => {
    const one = await registerIn('one', 'Pacific/Kiritimati')
    await createTask(one, { title: 'Timed', due_at: '2026-06-01T12:00:00.000Z' })
    for (const [at, titles] of [
      ['2026-06-01T12:00:00.000Z', []],
      ['2026-06-01T12:00:00.001Z', ['Timed']],
    ] as const) {
      now = new Date(at)
      t.strictSame(titlesOf(await listTasks(one, { overdue: true })), titles)
    }
  })
})

t.test('filters, compared with a naive implementation', async (t) => {
  type Listed = Pick<Task, 'title' | 'priority' | keyof typeof noDates>
  /** A part of a filter, and whether a task matches it. */
  interface Part {
    readonly filter: string
    readonly isMatch: (task: Listed) => boolean
  }
  /** Each user has the same tasks with each of these priorities, so that one request can check as many parts. */
  const priorities = ['none', 'low', 'medium', 'high'] as const
  let owner = await service.register('filters')
  let all: readonly Listed[] = []
  /**
   * Creates a user in a zone with tasks on certain days, at certain times, and without a date. Each has one date, so that a request can
   * check several fields.
   */
  const moveOn = async (zone: string, name: string, days: readonly string[], instants: readonly string[]) => {
    owner = await registerIn(`${zone.replace(/.*\//, '').toLowerCase()}-${name}`, zone)
    all = priorities.flatMap((priority) => {
      const task = (title: string, dates: Partial<Listed>): Listed => ({
        title: `${priority}: ${title}`,
        priority,
        ...noDates,
        ...dates,
      })
      return [
        ...days.flatMap((on) => [task(`start ${on}`, { start_on: on }), task(`due ${on}`, { due_on: on })]),
        ...instants.flatMap((at) => [
          task(`start ${at}`, { start_at: at }),
          task(`due ${at}`, { due_at: at }),
        ]),
        task('no date', {}),
      ]
    })
    await service.expect('batchTasks', 200, { token: owner.token, body: { create: all } })
  }
  /** Checks each part on the tasks of a priority. */
  const check = async (label: string, parts: readonly Part[]): Promise<void> => {
    const filter = parts
      .map((part, index) => `(priority = ${priorities[index]} AND (${part.filter}))`)
      .join(' OR ')
    const expected = all.filter((task) =>
      parts.some(({ isMatch }, index) => task.priority === priorities[index] && isMatch(task)),
    )
    // A list of the caller's own tasks reads one index, and takes half of the processor time.
    const query = { filter: `owner_id = me AND (${filter})`, limit: 200 }
    t.strictSame(titlesOf(await listTasks(owner, query)), titlesOf(expected), `${label}: ${filter}`)
  }

  type Operator = '<' | '<=' | '>' | '>=' | '=' | '!='
  /** How the dates of a task compare with a value, by field. Null without a date. */
  type Orders = Readonly<Record<string, (task: Listed) => number | null>>
  const holds = (order: number | null, operator: Operator): boolean => {
    if (order === null) return false
    return {
      '<': order < 0,
      '<=': order <= 0,
      '>': order > 0,
      '>=': order >= 0,
      '=': order === 0,
      '!=': order !== 0,
    }[operator]
  }
  const partOf = (orders: Orders, operator: Operator, value: string): Part => ({
    filter: Object.keys(orders)
      .map((field) => `${field} ${operator} ${value}`)
      .join(' OR '),
    isMatch: (task) => Object.values(orders).some((orderOf) => holds(orderOf(task), operator)),
  })
  const order = (one: string, other: string): number => (one < other ? -1 : Number(one > other))
  const [firstDay, lastDay] = ['0001-01-01', '9999-12-31']
  const [first, end] = ['0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']

  for (const [zone, day, start] of starts) {
    const [last, next, before] = [shift(start, -1), shift(start, 1), dayBefore(day)]
    await moveOn(zone, day, [before, day], [last, start, next])
    for (const value of [day, last, start]) {
      /** The time is compared with the value: by days, if that is a day. */
      const orderOf = (time: string): number => {
        if (value !== day) return order(time, value)
        if (time < start) return -1
        return time <= next ? 0 : 1
      }
      /** An all-day due date is the end of its day: for the day before, that is `last`. */
      const dueOf = ({ due_at, due_on }: Listed): number | null => {
        if (due_at !== null) return orderOf(due_at)
        if (due_on === null) return null
        if (value === day) return order(due_on, day)
        if (due_on === before) return order(last, value)
        return order(due_on, day) < 0 ? -1 : 1
      }
      const startOf = ({ start_at, start_on }: Listed): number | null => {
        if (start_at !== null) return orderOf(start_at)
        if (start_on === null) return null
        if (value !== day && start_on === day) return order(start, value)
        return order(start_on, day)
      }
      // The day before does not exist in Apia, so it has no last millisecond.
      if (zone === 'Pacific/Apia' && value !== day) continue
      const compared: Orders[] = [{ due: dueOf, start: startOf }]
      if (value === day)
        compared.push({
          due_at: ({ due_at }) => (due_at === null ? null : orderOf(due_at)),
          due_on: ({ due_on }) => (due_on === null ? null : order(due_on, day)),
          start_at: ({ start_at }) => (start_at === null ? null : orderOf(start_at)),
          start_on: ({ start_on }) => (start_on === null ? null : order(start_on, day)),
        })
      const parts = (operators: readonly Operator[], orders: Orders) =>
        operators.map((operator) => partOf(orders, operator, value))
      for (const orders of compared) {
        await check(zone, parts(['<', '<=', '>', '>='], orders))
        // One zone is enough for `=` and `!=`, which are combinations of the others.
        if (zone === 'Europe/Berlin') await check(zone, parts(['=', '!='], orders))
      }
      // Times are compared alike in all zones.
      if (value !== day && zone !== 'Europe/Berlin') continue
      for (const [name, operator] of [
        ['due_before', '<'],
        ['due_after', '>='],
      ] as const) {
        const found = await listTasks(owner, { [name]: value, priority: 'none' })
        const expected = all.filter((task) => task.priority === 'none' && holds(dueOf(task), operator))
        t.strictSame(titlesOf(found), titlesOf(expected), `${zone}: ${name}=${value}`)
      }
    }
    now = new Date(start)
    const yesterday = zone === 'Pacific/Apia' ? '2011-12-29' : before
    await check(zone, [
      // Both are true for the same tasks.
      {
        filter: `(due < now AND NOT due < ${start}) OR (due < ${start} AND NOT due < now)`,
        isMatch: () => false,
      },
      partOf({ due_on: ({ due_on }) => (due_on === null ? null : order(due_on, day)) }, '<', 'now'),
      partOf({ due_on: ({ due_on }) => (due_on === null ? null : order(due_on, yesterday)) }, '=', 'now-1s'),
    ])
  }

  t.test('at the bounds of the calendar', async (t) => {
    await moveOn('UTC', 'bounds', [firstDay, lastDay], [first, end])
    for (const zone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago']) {
      await moveTo(owner, zone)
      await listTasks(owner, { due_before: firstDay, created_after: firstDay, due_after: lastDay })
      const isDated = ({ title }: Listed): boolean => !title.includes('no date')
      const eitherOf = (one: string, other: string, value: string): Part => ({
        filter: ['due', 'start']
          .map((field) => `${field} ${one} ${value} OR ${field} ${other} ${value}`)
          .join(' OR '),
        isMatch: isDated,
      })
      await check(zone, [
        eitherOf('<=', '>', end),
        eitherOf('>=', '<', first),
        { filter: 'due:* OR start:*', isMatch: isDated },
        { filter: 'NOT start:*', isMatch: (task) => task.start_at === null && task.start_on === null },
      ])
      await check(
        zone,
        [firstDay, lastDay].flatMap((day) => [eitherOf('<=', '>', day), eitherOf('>=', '<', day)]),
      )
      for (const day of [firstDay, lastDay]) {
        const filter = `due = ${day} OR start = ${day}`
        const found = titlesOf(await listTasks(owner, { filter, limit: 200 }))
        for (const priority of priorities)
          for (const field of ['due', 'start'])
            t.ok(found.includes(`${priority}: ${field} ${day}`), `${zone}: ${filter}`)
      }
    }
  })

  t.test('400 for an invalid date in a filter', async (t) => {
    for (const filter of [
      'due_on < 2026-03-29T10:00:00Z',
      'due_on = 2026-02-30',
      'due_on = tomorrow',
      'due_on < now+999999999w',
      'due = 0000-01-01',
      'start_on = "2026*"',
    ]) {
      const { body } = await service.expect('listTasks', 400, { token: owner.token, query: { filter } })
      t.strictSame(pointersOf(body), ['/filter'], filter)
    }
  })
})

t.test('times and dates in query parameters', async (t) => {
  const owner = await registerIn('parameters', 'Europe/Berlin')
  await createTask(owner, { title: 'Noon', due_at: '2026-03-29T10:00:00.000Z' })
  await createTask(owner, { title: 'Later', due_at: '2026-03-29T10:00:00.001Z' })
  const spellings = [
    '2026-03-29T10:00:00.001Z',
    '2026-03-29t10:00:00.001z',
    '2026-03-29T12:00:00.001%2B02:00',
    '2026-03-29T12:00:00.001%2B0200',
    '2026-03-29T12:00:00.001+02:00',
    '2026-03-29T12:00:00.001+0200',
    '2026-03-29T10:00:00.001%2B0000',
    '2026-03-29T05:00:00.001-0500',
  ]
  for (const spelling of spellings)
    t.strictSame(titlesOf(await listTasks(owner, `due_before=${spelling}`)), ['Noon'], spelling)

  const today = new Date().toISOString().slice(0, 10)
  await moveTo(owner, 'UTC')
  for (const name of ['created', 'updated']) {
    const found = async (query: string) => (await listTasks(owner, query)).length
    t.equal(await found(`${name}_after=${today}`), 2, 'from the start of the day')
    t.equal(await found(`${name}_before=${today}`), 0)
  }
  for (const name of ['created_before', 'created_after', 'updated_after', 'completed_before', 'due_after']) {
    for (const value of [
      '2026-02-30',
      '2026-3-1',
      '2026-03',
      '2026-03-29T10:00',
      '2026-03-29 10:00:00Z',
      'today',
      '',
      '2026-03-29T10:00:00+2500',
    ]) {
      const { body } = await service.expect('listTasks', 400, {
        token: owner.token,
        query: { [name]: value },
      })
      t.strictSame(pointersOf(body), [`/${name}`], `${name}=${value}`)
    }
  }

  t.test('of the audit log', async (t) => {
    const { token } = admin
    const count = async (query: string) =>
      (await service.expect('listAuditEvents', 200, { token, query })).body.items.length
    t.ok((await count(`created_after=${today}`)) > 0)
    t.equal(await count(`created_before=${dayBefore(today)}`), 0)
    t.ok((await count(`created_after=${today}T00:00:00+0000`)) > 0)
  })
})

t.test('polling by updated_after misses no change of the same millisecond', async (t) => {
  const owner = await service.register('poller')
  const first = await createTask(owner, { title: 'First' })
  await createTask(owner, { title: 'Second' })
  const { db } = service.deps
  await db.run('alter table tasks disable trigger user', [])
  const last = shift(first.updated_at, 60_000)
  await db.run('update tasks set updated_at = $1 where owner_id = $2', [last, owner.id])
  await db.run('alter table tasks enable trigger user', [])
  t.strictSame(titlesOf(await listTasks(owner, { updated_after: last })), ['First', 'Second'])
  t.strictSame(await listTasks(owner, { updated_before: last }), [])
})

t.test('sort=due: the order does not depend on the time zone', async (t) => {
  const owner = await service.register('sorter')
  const inOrder = [
    { title: '0', due_at: '2026-03-28T23:59:59.998Z' },
    { title: '1', due_on: '2026-03-28' },
    { title: '2', due_at: '2026-03-29T00:00:00.000Z' },
    { title: '3', due_at: '2026-03-29T23:59:59.998Z' },
    { title: '4', due_on: '2026-03-29' },
    { title: '5', due_at: '2026-03-30T00:00:00.000Z' },
    { title: '6' },
  ]
  await service.expect('batchTasks', 200, { token: owner.token, body: { create: inOrder.toReversed() } })
  const { token } = owner
  const zones = ['Pacific/Kiritimati', 'Pacific/Pago_Pago', 'Europe/Berlin']

  const walk = async (sort: string): Promise<string[]> => {
    const titles: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      await moveTo(owner, zones[titles.length % zones.length] ?? 'UTC')
      const query = { sort, limit: 1, due_before: '2030-01-01', ...(cursor !== '' && { cursor }) }
      const page: TaskPage = (await service.expect('listTasks', 200, { token, query })).body
      titles.push(...titlesOf(page.items))
      cursor = page.next_cursor
    }
    return titles
  }
  for (const name of ['due', 'due,title', 'due_at,-title']) {
    t.strictSame(await walk(name), ['0', '1', '2', '3', '4', '5'], name)
    t.strictSame(await walk(`-${name}`), ['5', '4', '3', '2', '1', '0'], `-${name}`)
  }
  const titles = async (sort: string) => (await listTasks(owner, { sort })).map(({ title }) => title)
  t.strictSame(await titles('due'), ['0', '1', '2', '3', '4', '5', '6'], 'tasks without a due date are last')
  t.strictSame(await titles('-due'), ['5', '4', '3', '2', '1', '0', '6'])
  t.strictSame(await titles('due_at'), await titles('due'), 'due_at is another name of it')
  const { body } = await service.expect('listTasks', 400, { token, query: { sort: 'due,-due_at' } })
  t.strictSame(pointersOf(body), ['/sort'], 'due and due_at are the same field')

  await createTask(owner, { title: 'all day', start_on: '2026-03-29' })
  await createTask(owner, { title: 'before', start_at: '2026-03-28T23:59:59.999Z' })
  await createTask(owner, { title: 'after', start_at: '2026-03-29T00:00:00.001Z' })
  for (const name of ['start', 'start_at'])
    t.strictSame(
      (await titles(name)).slice(0, 3),
      ['before', 'all day', 'after'],
      'an all-day start is the start of the day',
    )
})

t.test('400 for a date has an example of a valid one', async (t) => {
  const { token } = admin
  const body = { title: 'x', due_on: '2026-02-29' }
  const problem = (await service.expect('createTask', 400, { token, body })).body
  t.match(withoutRequest(problem), {
    detail: 'due_on must be a date of the years 0001 to 9999, such as 2026-11-02.',
  })
})

t.test('each task is in the list of exactly one day', async (t) => {
  /** Zones and days. The clocks change on these days, where they do. */
  const cases = [
    ['UTC', '2026-06-01'],
    ['Europe/Berlin', '2026-03-29'],
    ['Europe/Berlin', '2026-10-25'],
    ['America/New_York', '2026-11-01'],
    ['Australia/Lord_Howe', '2026-04-05'],
    ['Asia/Kathmandu', '2026-06-01'],
    ['Pacific/Kiritimati', '2026-06-01'],
    ['Pacific/Pago_Pago', '2026-06-01'],
    // No midnight; midnight twice; a day that does not exist; a day that is interrupted by the end of the one before.
    ['Africa/Cairo', '2026-04-24'],
    ['America/Havana', '2026-11-01'],
    ['Pacific/Apia', '2011-12-30'],
    ['America/St_Johns', '2006-10-29'],
  ] as const
  const minute = 60_000
  const dayAfter = (day: string): string => shift(`${day}T00:00:00.000Z`, 86_400_000).slice(0, 10)

  interface Start {
    readonly at: string
    readonly day: string
    readonly before: string
  }

  /** When days start in a zone, from two days before a day to two days after it, by looking at each minute. */
  const startsAround = (zone: string, middle: string): readonly Start[] => {
    const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
    const noon = Date.parse(`${middle}T12:00:00Z`)
    const found: Start[] = []
    let before = format.format(noon - 2 * 1_440 * minute)
    for (let at = noon - 2 * 1_440 * minute; at <= noon + 2 * 1_440 * minute; at += minute) {
      const day = format.format(at)
      if (day <= before) continue
      found.push({ at: new Date(at).toISOString(), day, before })
      before = day
    }
    return found
  }

  /** Ways of saying `on this day`. A time or a day is in all of them or in none. */
  const onDay = (name: string, day: string): string[] => [
    `${name} = ${day}`,
    `(${name} >= ${day} AND ${name} < ${dayAfter(day)})`,
    `(${name} > ${dayBefore(day)} AND ${name} <= ${day})`,
    `(${name}:* AND NOT ${name} != ${day})`,
  ]
  const allOf = (filters: readonly string[]): string => `(${filters.join(' AND ')})`
  const someOf = (filters: readonly string[]): string => `(${filters.join(' OR ')})`
  // All times are compared alike: one zone is enough for the other fields.
  const otherTimes = ['created', 'updated', 'completed']
  const { db } = service.deps
  for (const [zone, day] of cases) {
    const owner = await registerIn(`${zone.replace(/.*\//, '').toLowerCase()}-days-${day}`, zone)
    const { token } = owner
    const days = [dayBefore(day), day, dayAfter(day)]
    /** Times, and their days. */
    const instants = startsAround(zone, day).flatMap(
      ({ at, day: started, before }) =>
        [
          [shift(at, -1), before],
          [at, started],
          [shift(at, 1), started],
        ] as const,
    )
    const create = [
      ...instants.flatMap(([at]) => [
        { title: `start ${at}`, start_at: at },
        { title: `due ${at}`, due_at: at, status: 'done' },
      ]),
      ...days.flatMap((on) => [
        { title: `start ${on}`, start_on: on },
        { title: `due ${on}`, due_on: on },
      ]),
    ]
    await service.expect('batchTasks', 200, { token, body: { create } })
    await db.run('alter table tasks disable trigger user', [])
    await db.run(
      `update tasks set created_at = due_at, updated_at = due_at, completed_at = due_at
        where owner_id = $1 and due_at is not null`,
      [owner.id],
    )
    await db.run('alter table tasks enable trigger user', [])

    const found = async (query: object): Promise<string[]> => {
      const { body } = await service.expect('listTasks', 200, {
        token,
        query: { ...query, limit: 200, include_total: true },
      })
      t.equal(body.total, body.items.length)
      return titlesOf(body.items)
    }
    for (const on of days) {
      const times = instants.flatMap(([at, local]) => (local === on ? [at] : [])).toSorted()
      const due = [...times, on].map((date) => `due ${date}`).toSorted()
      const timed = times.map((at) => `due ${at}`)
      // If the tasks that match all ways of saying it are those that match any of them, they match each.
      const check = async (all: string, some: string, titles: readonly string[]): Promise<void> => {
        for (const filter of [all, some])
          t.strictSame(await found({ filter: `owner_id = me AND ${filter}` }), titles, `${zone}: ${filter}`)
      }
      const all = (name: string): string => allOf(onDay(name, on))
      const some = (name: string): string => someOf(onDay(name, on))
      // A task has one date, so a request can check both kinds of dates.
      const dates = ['start', 'due']
      await check(
        someOf(dates.map((name) => allOf([all(name), someOf([all(`${name}_at`), all(`${name}_on`)])]))),
        someOf(dates.flatMap((name) => [some(name), some(`${name}_at`), some(`${name}_on`)])),
        [...due, ...due.map((title) => title.replace('due', 'start'))],
      )
      if (zone === 'Europe/Berlin') {
        const names = otherTimes.map((name) => `${name}_at`)
        await check(allOf(names.map(all)), someOf(names.map(some)), timed)
      }
      for (const name of zone === 'Europe/Berlin' ? ['due', ...otherTimes] : ['due'])
        t.strictSame(
          await found({ [`${name}_after`]: on, [`${name}_before`]: dayAfter(on) }),
          name === 'due' ? due : timed,
          `${zone}: ${name} on ${on}`,
        )
    }
    if (day !== '2026-03-29') continue
    // Ranges between times have no task twice either.
    const times = instants.map(([at]) => at)
    for (const name of ['due', ...otherTimes])
      for (const [index, from] of times.slice(0, -1).entries()) {
        const titles = await found({ [`${name}_after`]: from, [`${name}_before`]: times[index + 1] })
        t.strictSame(
          titles.filter((title) => times.some((at) => title === `due ${at}`)),
          [`due ${from}`],
          `${name} from ${from}`,
        )
      }
  }

  t.test('and each event, and each audit event', async (t) => {
    const zone = 'Europe/Berlin'
    await moveTo(admin, zone)
    const starts = startsAround(zone, '2026-03-29')
    const { token } = admin
    for (const [table, operation] of [
      ['events', 'listEvents'],
      ['audit_events', 'listAuditEvents'],
    ] as const) {
      const start = starts[1]?.at ?? ''
      for (const [offset, expected] of [
        [-1, [1, 0]],
        [0, [0, 1]],
        [1, [0, 1]],
      ] as const) {
        const task = await createTask(admin, { title: 'An event' })
        const [row] = await db.run(
          `update ${table} set created_at = $1 where id = (select id from ${table} order by created_at desc, id desc limit 1)
            returning id::text`,
          [shift(start, offset)],
        )
        const counts = []
        for (const { day } of starts.slice(0, 2)) {
          const query = { created_after: day, created_before: dayAfter(day), limit: 200 }
          const { body } = await service.expect(operation, 200, {
            token,
            query: operation === 'listEvents' ? { ...query, all: true } : query,
          })
          counts.push(body.items.filter(({ id }) => id === row?.id).length)
        }
        t.strictSame(counts, expected, `${operation} of ${task.title} at ${offset}`)
      }
    }
    await moveTo(admin, 'UTC')
  })
})
