import t from 'tap'
import { operations, prepareOperations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** Request bodies, independent of the operation. */

const service = await startService(t)
const { newWorld, requestTo } = await prepareOperations(service, await service.register('admin'))
const json = { 'content-type': 'application/json' }

/** No parser reads a body of the other methods. */
const withoutBody = operations.filter(
  ({ method, mediaTypes }) => mediaTypes.length === 0 && ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method),
)

for (const operation of withoutBody) {
  t.test(`${operation.id}: {} and null are accepted as no body`, async (t) => {
    const world = await newWorld()
    for (const body of ['{"a":1}', '[]', '""', 'false', '{}{}', 'x']) {
      const request = await requestTo(operation, { world })
      const refused = await service.call(operation.id, {
        ...request,
        body,
        headers: { ...request.headers, ...json },
      })
      t.match(refused, { status: 400, body: { detail: 'This operation does not accept a body.' } }, body)
    }
    for (const body of [' { }\n', 'null']) {
      const request = await requestTo(operation)
      const { status } = await service.call(operation.id, {
        ...request,
        body,
        headers: { ...request.headers, ...json },
      })
      t.ok(status < 300, `${body}: ${status}`)
    }
  })
}
