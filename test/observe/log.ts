import Fastify from 'fastify'
import t from 'tap'
import { withoutMessage } from '../../src/observe/log.ts'

t.test('one message is left out, and what is logged at the same time is not', async (t) => {
  const lines: string[] = []
  const stream = withoutMessage({ write: (line) => void lines.push(line) }, 'Server listening')
  const app = Fastify({ logger: { stream } })
  t.teardown(() => app.close())
  app.addHook('onListen', async () => app.log.info({ path: '/"msg":"Server listening' }, 'a request'))
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.match(
    lines.map((line): unknown => JSON.parse(line)),
    [{ path: '/"msg":"Server listening', msg: 'a request' }],
  )
  t.equal(lines.length, 1)
})
