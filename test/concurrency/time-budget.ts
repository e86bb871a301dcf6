import t from 'tap'
import { timeBudget } from '../../src/concurrency/time-budget.ts'
import { background } from '../../src/concurrency/work.ts'

const startBudget = () => {
  let now = 0
  const budget = timeBudget(() => now)
  /** Uses a part of each of these seconds. */
  const use = (caller: string, part: number, seconds: number): void => {
    for (const end = now + seconds * 1_000; now < end; now += 100)
      budget.spend({ caller, isUser: true }, part * 100)
  }
  return { ...budget, use, pass: (seconds: number) => (now += seconds * 1_000) }
}

t.test('who uses less than a fifth of the time is never over the budget', async (t) => {
  const { use, isOverBudget } = startBudget()
  use('a', 0.19, 120)
  use('b', 0.01, 1)
  t.notOk(isOverBudget('a'))
})

t.test('who uses more is over the budget until it is repaid, and others are not', async (t) => {
  const { use, pass, isOverBudget } = startBudget()
  use('b', 0.01, 1)
  use('a', 1, 2)
  t.notOk(isOverBudget('a'), 'a burst of two seconds is free')
  use('a', 1, 60)
  use('b', 0.01, 1)
  t.ok(isOverBudget('a'))
  t.notOk(isOverBudget('b'))
  pass(8)
  t.ok(isOverBudget('a'))
  pass(10)
  use('b', 0.01, 1)
  t.notOk(isOverBudget('a'))
})

t.test('who is alone is not over the budget before another user comes', async (t) => {
  const { use, spend, pass, isOverBudget } = startBudget()
  use('a', 1, 60)
  spend({ caller: 'network', isUser: false }, 100)
  t.notOk(isOverBudget('a'), 'a session is looked up before its user is known')
  use('b', 0.01, 1)
  t.ok(isOverBudget('a'))
  use('a', 1, 9)
  t.ok(isOverBudget('a'))
  pass(1)
  t.notOk(isOverBudget('a'), 'the other one has gone')
})

t.test('who is not signed in has a budget too', async (t) => {
  const { use, spend, isOverBudget } = startBudget()
  for (let second = 0; second < 60; second += 1) spend({ caller: 'network', isUser: false }, 1_000)
  t.notOk(isOverBudget('network'))
  use('a', 0.01, 1)
  t.ok(isOverBudget('network'))
})

t.test('background jobs are never over their budget', async (t) => {
  const { use, isOverBudget } = startBudget()
  use(background, 1, 60)
  t.notOk(isOverBudget(background))
})
