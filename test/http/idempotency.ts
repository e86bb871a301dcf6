import t from 'tap'
import { isInvalid } from '../fixture/refusals.ts'
import { operations, validRequest } from '../fixture/requests.ts'
import { startService } from '../fixture/service.ts'

/** A key is honoured or refused, and never ignored, by every POST of the contract. */

const service = await startService(t)
const admin = await service.register('admin')

for (const operation of operations.filter(({ method }) => method === 'POST')) {
  const { id, takesIdempotencyKey } = operation
  t.test(`${id} ${takesIdempotencyKey ? 'honours' : 'refuses'} an Idempotency-Key`, async (t) => {
    const valid = validRequest(operation, admin.token)
    const headers = { ...valid.headers, 'idempotency-key': `one-for-${id}` }
    const reply = await service.call(id, { ...valid, headers })
    if (takesIdempotencyKey) t.not(reply.status, 400)
    else t.match(reply, isInvalid('/Idempotency-Key'))
  })
}

t.test('what creates and has a Location honours it, or says that it does not', async (t) => {
  const refusing = operations
    .filter(({ method, takesIdempotencyKey }) => method === 'POST' && !takesIdempotencyKey)
    .map(({ id }) => id)
  t.strictSame(refusing.toSorted(), [
    'addTaskTag',
    'changePassword',
    'completeLogin',
    'confirmSecondFactor',
    'createUpload',
    'disableSecondFactor',
    'enrolSecondFactor',
    'forgotPassword',
    'login',
    'logout',
    'reauthenticate',
    'refreshToken',
    'register',
    'resetPassword',
    'restoreTask',
    'undoEmailChange',
  ])
  const { body } = await service.expect('listUsers', 200, { token: admin.token })
  t.notOk(
    body.items.some(({ username }) => username === 'ada'),
    'and what was refused is not there',
  )
})
