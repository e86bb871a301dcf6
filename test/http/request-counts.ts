import t from 'tap'
import { countInMemory } from '../../src/http/request-counts.ts'

t.test('callers beyond the bound share the count of their wider network', async (t) => {
  const count = countInMemory(3)
  const countOf = async (caller: string): Promise<number> => (await count('anonymous', caller)).requests
  for (const host of [1, 2, 3]) t.equal(await countOf(`2001:db8:0:${host}::/64`), 1)

  t.equal(await countOf('2001:db8:0:4::/64'), 1)
  t.equal(await countOf('2001:db8:0:5::/64'), 2, 'a new network')
  t.equal(await countOf('2001:db9:0:5::/64'), 1, 'not one of another wide network')
  t.equal(await countOf('2001:db8:0:1::/64'), 2, 'nor one that was counted before')

  const user = '0193a5e0-0000-7000-8000-000000000001'
  t.equal(await countOf(user), 1)
  t.equal(await countOf(user), 2, 'nor a user')

  const now = performance.now.bind(performance)
  t.intercept(performance, 'now', { value: () => now() + 61_000 })
  t.equal(await countOf('2001:db8:0:6::/64'), 1, 'until the next window')
})
