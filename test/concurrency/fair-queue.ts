import t from 'tap'
import { fairQueue } from '../../src/concurrency/fair-queue.ts'
import { background, type Work } from '../../src/concurrency/work.ts'

const workOf = (caller: string, isAbandoned = () => false): Work => ({ caller, isAbandoned, sent: [] })

const queueOf = (options: Partial<Parameters<typeof fairQueue>[0]> = {}) => {
  const started: string[] = []
  const ends: (() => void)[] = []
  const queue = fairQueue({
    concurrency: 3,
    share: 2,
    maxWaiting: 4,
    maxWaitingInAll: 100,
    maxWait: 60_000,
    refuse: (reason) => new Error(reason),
    ...options,
  })
  const run = (principal: string, work = workOf(principal)) =>
    queue.run(work, () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      started.push(principal)
      ends.push(resolve)
      return promise
    })
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const endFirst = async (): Promise<void> => {
    await settle()
    ends.shift()?.()
    await settle()
  }
  const endAll = async (): Promise<void> => {
    await settle()
    while (ends.length > 0) await endFirst()
  }
  return { queue, run, started, settle, endFirst, endAll }
}

t.test('a principal is limited to its share, and waiting principals take turns', async (t) => {
  const { queue, run, started, settle, endFirst, endAll } = queueOf()
  const all = ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map((principal) => run(principal))
  await settle()
  t.strictSame(started, ['a', 'a', 'b'])
  await endFirst()
  t.equal(queue.pending(), 6)
  await endAll()
  await Promise.all(all)
  t.strictSame(started, ['a', 'a', 'b', 'b', 'c', 'a', 'a'])
  t.equal(queue.pending(), 0)
})

t.test('background jobs can use all slots', async (t) => {
  const { run, started, settle, endAll } = queueOf()
  const all = Array.from({ length: 4 }, () => run(background))
  await settle()
  t.equal(started.length, 3)
  await endAll()
  await Promise.all(all)
})

t.test(
  'calls beyond the maximum of a principal are refused; those of others and of started work are not',
  async (t) => {
    const { run, started, settle, endAll } = queueOf()
    const all = Array.from({ length: 6 }, () => run('a'))
    await t.rejects(run('a'), /caller_busy/)
    const other = run('b')
    await settle()
    t.equal(started.at(-1), 'b')
    const writing = run('a', { ...workOf('a'), sent: ['insert into tasks'] })
    await endAll()
    await Promise.all([...all, other, writing])
  },
)

t.test('abandoned calls are not started', async (t) => {
  const { run, started, endAll } = queueOf({ concurrency: 1 })
  let isAbandoned = false
  const first = run('a')
  const dropped = t.rejects(
    run(
      'b',
      workOf('b', () => isAbandoned),
    ),
    /abandoned/,
  )
  isAbandoned = true
  await endAll()
  await Promise.all([first, dropped])
  t.strictSame(started, ['a'])
  await t.rejects(
    run(
      'b',
      workOf('b', () => true),
    ),
    /abandoned/,
  )
})

t.test('calls that wait too long are refused', async (t) => {
  const { queue, run, endAll } = queueOf({ concurrency: 1, maxWait: 20 })
  const first = run('a')
  await t.rejects(run('b'), /late/)
  t.equal(queue.pending(), 1)
  await endAll()
  await first
})

t.test('calls of a principal over its budget are refused as its own when they wait too long', async (t) => {
  const { run, endAll } = queueOf({ isOverBudget: (caller) => caller === 'a', maxWait: 20 })
  const first = run('a')
  await t.rejects(run('a'), /caller_busy/)
  await endAll()
  await first
})

t.test('calls beyond the total maximum are refused', async (t) => {
  const { run, endAll } = queueOf({ concurrency: 1, maxWaitingInAll: 2 })
  const all = [run('a'), run('b'), run('c')]
  await t.rejects(run('d'), /busy/)
  await endAll()
  await Promise.all(all)
})

t.test('a principal over its budget has one slot, behind the others', async (t) => {
  const over = new Set(['a'])
  const { run, started, settle, endFirst, endAll } = queueOf({ isOverBudget: (caller) => over.has(caller) })
  const all = ['b', 'a', 'a', 'a', 'b', 'b', 'c', 'b'].map((principal) => run(principal))
  await settle()
  t.strictSame(started, ['b', 'a', 'b'])
  await endFirst()
  await endFirst()
  t.strictSame(started.slice(3), ['c', 'b'], 'though a came first')
  over.clear()
  await endFirst()
  t.strictSame(started.slice(5), ['a'])
  await endAll()
  await Promise.all(all)
})

t.test('principals over their budgets leave half of the slots to the others', async (t) => {
  const { run, started, settle, endAll } = queueOf({
    concurrency: 4,
    isOverBudget: (caller) => caller !== 'other',
  })
  const all = ['a', 'b', 'c', 'd', 'other'].map((principal) => run(principal))
  await settle()
  t.strictSame(started, ['a', 'b', 'other'])
  await endAll()
  await Promise.all(all)
})

t.test('a principal that is no longer over its budget has its slots again', async (t) => {
  const over = new Set(['a'])
  const { run, started, settle, endFirst, endAll } = queueOf({ isOverBudget: (caller) => over.has(caller) })
  const all = ['a', 'a', 'a', 'a'].map((principal) => run(principal))
  await settle()
  t.equal(started.length, 1)
  over.clear()
  await endFirst()
  t.equal(started.length, 3)
  await endAll()
  await Promise.all(all)
})

t.test('an abandoned call does not end the share of a call that came right after it', async (t) => {
  const { run, started, settle, endFirst, endAll } = queueOf({ concurrency: 2, share: 1 })
  let isAbandoned = false
  const first = run('b')
  const other = run('c')
  const dropped = t.rejects(
    run(
      'a',
      workOf('a', () => isAbandoned),
    ),
    /abandoned/,
  )
  isAbandoned = true
  const next = first.then(() => run('a'))
  await endFirst()
  await dropped
  await endFirst()
  const second = run('a')
  await settle()
  t.strictSame(started, ['b', 'c', 'a'])
  await endAll()
  await Promise.all([other, next, second])
})
