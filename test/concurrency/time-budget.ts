import t from 'tap'
import { timeBudget } from '../../src/concurrency/time-budget.ts'
import { background } from '../../src/concurrency/work.ts'

const startBudget = () => {
  let now = 0
  const budget = timeBudget(() => now)
  /** Uses a part of each of these seconds, beside another caller who uses little. */
  const use = (caller: string, part: number, seconds: number, other = 0.01): void => {
    for (const end = now + seconds * 1_000; now < end; now += 100) {
      budget.spend(caller, part * 100)
      budget.spend('other', other * 100)
    }
  }
  return { ...budget, use, pass: (seconds: number) => (now += seconds * 1_000) }
}

t.test('who uses less than a fifth of the time is never over the budget', async (t) => {
  const { use, isOverBudget } = startBudget()
  use('a', 0.19, 120)
  t.notOk(isOverBudget('a'))
})

t.test('who uses more is over the budget until it is repaid, and others are not', async (t) => {
  const { use, pass, isOverBudget } = startBudget()
  use('a', 1, 2)
  t.notOk(isOverBudget('a'), 'a burst of two seconds is free')
  use('a', 1, 60)
  t.ok(isOverBudget('a'))
  t.notOk(isOverBudget('other'))
  pass(10)
  t.ok(isOverBudget('a'))
  pass(10)
  t.notOk(isOverBudget('a'))
})

t.test('who is alone is not over the budget before another caller comes', async (t) => {
  const { use, isOverBudget } = startBudget()
  use('a', 1, 60, 0)
  t.notOk(isOverBudget('a'))
  use('a', 1, 3)
  t.ok(isOverBudget('a'))
})

t.test('background jobs are never over their budget', async (t) => {
  const { use, isOverBudget } = startBudget()
  use(background, 1, 60)
  t.notOk(isOverBudget(background))
})
