import t from 'tap'
import { countInMemory } from '../../src/http/request-counts.ts'

t.test('callers beyond the maximum are counted by their wider network', async (t) => {
  const count = countInMemory(3)
  const countOf = async (caller: string): Promise<number> => (await count('anonymous', caller)).requests
  for (const host of [1, 2, 3]) t.equal(await countOf(`2001:db8:0:${host}::/64`), 1)

  t.equal(await countOf('2001:db8:0:4::/64'), 1)
  t.equal(await countOf('2001:db8:0:5::/64'), 2, 'in the same wider network')
  t.equal(await countOf('2001:db9:0:5::/64'), 1, 'in another wider network')
  t.equal(await countOf('2001:db8:0:1::/64'), 2, 'counted before the maximum')

  t.test('what is taken back is that of the same network', async (t) => {
    const { takeBack } = await count('anonymous', '2001:db8:0:9::/64')
    await takeBack()
    t.equal(await countOf('2001:db8:0:a::/64'), 3)
  })

  const user = '0193a5e0-0000-7000-8000-000000000001'
  t.equal(await countOf(user), 1)
  t.equal(await countOf(user), 2, 'users have their own count')

  const now = performance.now.bind(performance)
  t.intercept(performance, 'now', { value: () => now() + 61_000 })
  t.equal(await countOf('2001:db8:0:6::/64'), 1, 'until the next window')
})
