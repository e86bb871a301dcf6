import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { operations, validRequest } from '../fixture/requests.ts'
import { type Call, startService } from '../fixture/service.ts'

/** Every operation of the contract, with a second request within the minute where there may be but one. */

const service = await startService(t, {
  config: {
    rateLimit: 'on',
    rateLimitSignIn: 1,
    rateLimitRefresh: 1,
    rateLimitApi: 1,
    rateLimitUpload: 1,
    rateLimitAnonymous: 1,
    trustProxy: ['127.0.0.1'],
  },
})

const unlimited: readonly OperationId[] = ['getLiveness', 'getReadiness']

/** What is counted otherwise than by user, or by network when nobody signs in. */
const countedAs: Partial<Record<OperationId, readonly string[]>> = {
  register: ['sign_in'],
  login: ['sign_in'],
  completeLogin: ['sign_in'],
  forgotPassword: ['sign_in'],
  resetPassword: ['sign_in'],
  undoEmailChange: ['sign_in'],
  refreshToken: ['refresh'],
  addTaskAttachment: ['api', 'upload'],
  createUpload: ['api', 'upload'],
  getUploadOffset: ['resume'],
}

t.test('every operation documents a limit, but for health', async (t) => {
  const without = operations.filter(({ constantHeaders }) => constantHeaders['429'] === undefined)
  t.same(
    without.map(({ id }) => id),
    unlimited,
  )
})

for (const [index, operation] of operations.entries()) {
  const { id, isOpen } = operation
  const headers = { 'x-forwarded-for': `192.0.2.${index}` }

  /** The account's name and address, and the session, are used for this operation alone. */
  const signedIn = async (): Promise<string> => {
    const body = { username: `u${index}`, email: `u${index}@example.com`, password: 'a good password' }
    const { access_token: token } = (await service.expect('register', 201, { body, headers })).body
    await service.expect('getCurrentUser', 200, { token, headers })
    return token
  }

  t.test(id, async (t) => {
    const token = isOpen ? '' : await signedIn()
    const valid = validRequest(operation, token)
    const request: Call = { ...valid, headers: { ...valid.headers, ...headers } }

    if (unlimited.includes(id)) {
      const replies = await Promise.all(Array.from({ length: 5 }, () => service.call(id, request)))
      for (const reply of replies) {
        t.equal(reply.status, 200)
        t.notMatch([...reply.headers.keys()].join(), 'ratelimit')
      }
      return
    }

    const policies = countedAs[id] ?? [isOpen ? 'anonymous' : 'api']
    const policy = policies.map((name) => `"${name}";q=1;w=60`).join(', ')
    // A session has made a request that counts already.
    if (!policies.includes('api')) {
      const first = await service.call(id, request)
      t.not(first.status, 429)
      t.equal(first.headers.get('ratelimit-policy'), policy)
    }
    const second = await service.call(id, request)
    t.equal(second.status, 429)
    t.match(second.headers.get('retry-after'), /^([1-9]|[1-5]\d|60)$/)
    t.equal(second.headers.get('ratelimit-policy'), policy)
    const left = policies.map((name) => `"${name}";r=0;t=\\d+`).join(', ')
    t.match(second.headers.get('ratelimit'), new RegExp(`^${left}$`))
    if (operation.method !== 'HEAD') t.match(second.body, { status: 429, code: 'too_many_requests' })
  })
}
