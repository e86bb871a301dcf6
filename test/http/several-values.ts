import t from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { type Located, lookUp, member } from '../../scripts/client/contract-check.ts'
import { type Operation, operations, prepareOperations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** Query parameters with several values. */

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))

const nodesIn = (pointer: readonly string[]): readonly Located[] => {
  const list = lookUp(pointer)?.node
  return Object.keys(list ?? {}).flatMap((index) => lookUp([...pointer, index]) ?? [])
}

/** The query parameters of an operation that are arrays, with two values if they take two. */
const arraysOf = ({ path, method }: Operation) =>
  nodesIn(['paths', path, method.toLowerCase(), 'parameters']).flatMap((parameter) => {
    const schema = member(parameter, 'schema')
    if (parameter.node.in !== 'query' || schema?.node.type !== 'array') return []
    const items = member(schema, 'items')?.node ?? {}
    const ids = [newId(), newId()]
    const isEventType = typeof items.pattern === 'string' && !new RegExp(items.pattern, 'u').test(newId())
    const texts = isEventType ? ['task.created', 'task.updated'] : ids
    const values = Array.isArray(items.enum) ? items.enum.map(String) : texts
    return [{ name: String(parameter.node.name), values: values.slice(0, Number(schema.node.maxItems ?? 2)) }]
  })

/** Other transactions move the cursor of the change feed on. */
const withoutCursors = (body: unknown): object => ({
  ...(body as object),
  next_cursor: null,
  prev_cursor: null,
})

for (const operation of operations) {
  const arrays = arraysOf(operation)
  if (arrays.length === 0) continue
  t.test(`${operation.id}: values are repeated or comma-separated`, async (t) => {
    const request = await requestTo(operation, { world: await newWorld() })
    const send = (query: string) => service.call(operation.id, { ...request, query })
    for (const { name, values } of arrays) {
      const [first = '', ...others] = values.slice(0, 2)
      const repeated = await send([first, ...others].map((value) => `${name}=${value}`).join('&'))
      t.not(repeated.status, 400, `${name}: ${JSON.stringify(repeated.body)}`)
      const separated = await send(`${name}=${[first, ...others].join(',')}`)
      t.equal(separated.status, repeated.status, name)
      t.same(withoutCursors(separated.body), withoutCursors(repeated.body), name)
      t.equal((await send(`${name}=${first},`)).status, 400, 'no value is empty')
    }
  })
}

t.test('both forms select the same tasks, and share cursors', async (t) => {
  const { owner, newTask } = await newWorld()
  const { token } = owner
  const [, , second] = [await newTask(), await newTask(), await newTask()]
  const params = { task_id: second.id }
  await service.expect('updateTask', 200, { token, params, body: { status: 'done' } })
  const list = async (query: string) => (await service.expect('listTasks', 200, { token, query })).body
  const page = await list('status=todo,done&limit=1')
  t.equal(page.items[0]?.id, second.id)
  const next = await list(`status=done&status=todo&limit=5&cursor=${page.next_cursor}`)
  t.equal(next.items.length, 2)
  t.equal((await list('status=todo,in_progress&status=done')).items.length, 3)
})
