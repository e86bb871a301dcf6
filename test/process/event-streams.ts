import t from 'tap'
import { environmentFor } from '../fixture/database.ts'
import { openStream } from '../fixture/event-stream.ts'
import { startProcess } from '../fixture/process.ts'
import { createClient } from '../fixture/service.ts'

/** A stream of a service that is killed and restarted under load. */

t.test('a stream that is resumed after each kill misses no event and repeats none', async (t) => {
  const environment = await environmentFor(t)
  const created: string[] = []
  const received: unknown[] = []
  let token = ''
  let after: string | null = null
  for (let life = 0; life < 3; life += 1) {
    const service = await startProcess(t, environment)
    const { call, register } = createClient(service.url)
    if (life === 0) ({ token } = await register('writer'))
    const stream = await openStream(t, service, { token, ...(after !== null && { after }) })
    const write = async (writer: number): Promise<never> => {
      for (let count = 0; ; count += 1) {
        const title = `${life} ${writer} ${count}`
        // A task whose creation was not acknowledged may or may not exist.
        const { status } = await call('createTask', { token, body: { title } })
        if (status === 201) created.push(title)
      }
    }
    const writing = Promise.allSettled([0, 1, 2, 3].map(write))
    while (received.length < (life + 1) * 40) received.push((await stream.next()).data.after.title)
    await service.end('SIGKILL')
    await writing
    await stream.ended
    received.push(...stream.rest().map(({ data }) => data.after.title))
    after = stream.lastId()
  }
  const service = await startProcess(t, environment)
  const stream = await openStream(t, service, { token, ...(after !== null && { after }) })
  await createClient(service.url).expect('createTask', 201, { token, body: { title: 'Last' } })
  for (let title: unknown = null; title !== 'Last';) {
    title = (await stream.next()).data.after.title
    received.push(title)
  }
  t.ok(received.length > 120, `${received.length} tasks`)
  t.equal(new Set(received).size, received.length, 'no duplicates')
  const missing = created.filter((title) => !received.includes(title))
  t.strictSame(missing, [], 'none missing')
  await service.end('SIGTERM')
})
