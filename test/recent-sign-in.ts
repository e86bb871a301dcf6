import t from 'tap'
import { operations, prepareOperations } from './fixture/operations.ts'
import { startService } from './fixture/service.ts'

/** Every operation that changes something, in a session that authenticated more than 15 minutes ago. */

const service = await startService(t)
const admin = await service.register('admin')
const { requestTo } = await prepareOperations(service, admin)

const setAuthenticated = (minutesAgo: number) =>
  service.deps.db.run(`update sessions set authenticated_at = now() - $1::int * interval '1 minute'`, [
    minutesAgo,
  ])

for (const operation of operations.filter(({ isOpen, method }) => !isOpen && method !== 'GET')) {
  t.test(operation.id, async (t) => {
    await setAuthenticated(0)
    const request = await requestTo(operation)
    await setAuthenticated(16)
    const { status, body } = await service.call(operation.id, request)
    const code = status === 403 ? (body as { readonly code: string }).code : null
    t.equal(
      code === 'reauthentication_required',
      operation.recentSignIn === 'always',
      `${status}, x-recent-sign-in: ${operation.recentSignIn}`,
    )
  })
}
