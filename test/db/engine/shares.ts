import t from 'tap'
import { openTestDatabase } from '../../fixture/database.ts'
import { startService } from '../../fixture/service.ts'

t.test('a member who keeps the database busy does not delay other members', async (t) => {
  const { db } = await openTestDatabase(t)
  const service = await startService(t, { db })
  const busy = await service.register('busy')
  const other = await service.register('other')
  await db.run(
    `create function take_long() returns trigger language plpgsql as
       'begin if new.owner_id = ''${busy.id}'' then perform pg_sleep(0.1); end if; return null; end'`,
    [],
  )
  await db.run('create trigger take_long after insert on tasks for each row execute function take_long()', [])
  for (const { token } of [busy, other]) await service.expect('getCurrentUser', 200, { token })

  let completed = 0
  const create = ({ token }: typeof busy) =>
    service.expect('createTask', 201, { token, body: { title: 'x' } })
  const slow = Array.from({ length: 40 }, () => create(busy).then(() => (completed += 1)))
  await Promise.race(slow)
  await create(other)
  t.ok(completed < 20, `${completed} of 40 statements were first`)
  await Promise.all(slow)
})

t.test('429 for a member with too many waiting requests, but not for others', async (t) => {
  const { db } = await openTestDatabase(t)
  const service = await startService(t, { db })
  const busy = await service.register('busy')
  const other = await service.register('other')
  for (const { token } of [busy, other]) await service.expect('getCurrentUser', 200, { token })
  const held = Array.from({ length: 10 }, () => db.run('select pg_sleep(3)', []).catch(() => undefined))
  const calls = Array.from({ length: 220 }, () => service.call('getCurrentUser', busy))
  const fine = service.call('getCurrentUser', other)
  const replies = await Promise.all(calls)
  const refused = replies.filter(({ status }) => status === 429)
  t.ok(refused.length > 0)
  t.match(refused[0]?.body, { code: 'too_many_requests', detail: /waiting for the database/ })
  t.equal((await fine).status, 200)
  await Promise.all(held)
})
