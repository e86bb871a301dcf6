import Fastify from 'fastify'
import manifest from '../package.json' with { type: 'json' }
import t, { type Test } from 'tap'
import { createAccessTokens } from '../src/auth/access-tokens.ts'
import { newApiToken } from '../src/auth/api-tokens.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import { OutcomeUnknown } from '../src/db/engine/errors.ts'
import { newId } from '../src/db/shared/ids.ts'
import { currentWork } from '../src/concurrency/work.ts'
import { timeLimits } from '../src/http/slow-clients.ts'
import { diskStorage } from '../src/storage/disk.ts'
import { StorageFull, StorageUnavailable } from '../src/storage/storage.ts'
import type { OperationId } from '../src/contract/contract.ts'
import type { components } from '../generated/openapi.ts'
import { accountActions } from './fixture/accounts.ts'
import { createTestDatabase } from './fixture/database.ts'
import { temporaryFolder } from './fixture/process.ts'
import { operations, prepareOperations } from './fixture/operations.ts'
import { type Account, type Call, type Reply, startService } from './fixture/service.ts'

type Schemas = components['schemas']

/** The maximum response time without a database, in milliseconds. */
const deadline = 5_000

const isUnavailable = (t: Test, { status, headers, body }: Reply, method = ''): void => {
  t.equal(status, 503)
  t.ok(Number(headers.get('retry-after')) >= 1)
  t.equal(headers.get('cache-control'), 'no-store')
  if (method === 'HEAD') return
  t.match(body, { code: 'service_unavailable', status: 503, type: '/problems/service_unavailable' })
  t.notMatch(JSON.stringify(body), /select|insert|ECONN|127\.0\.0\.1|postgres|at .*\.ts/i)
}

/** Starts a service that cannot reach its database. */
const startWithoutDatabase = async (t: Test) => {
  const db = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/none' })
  const service = await startService(t, { db })
  t.teardown(() => db.close())
  return service
}

t.test('every operation', async (t) => {
  // Requests without a database mostly wait for it.
  t.jobs = 10
  const withoutDatabase = await startWithoutDatabase(t)
  let isLost = false
  let isOpen = false
  const service = await startService(t, {
    aroundDatabase: (db) => ({
      ...db,
      run: async (...parameters) => {
        const work = currentWork()
        const isAuthentication = !isOpen && work.caller.startsWith('network')
        if (!isLost || isAuthentication) return db.run(...parameters)
        work.sent.push('insert into tasks')
        throw new OutcomeUnknown()
      },
      transaction: async (...parameters) => {
        if (!isLost) return db.transaction(...parameters)
        currentWork().sent.push('commit')
        throw new OutcomeUnknown()
      },
    }),
  })
  const { requestTo } = await prepareOperations(service, await service.register('admin'))
  for (const operation of operations) {
    const { id, method, constantHeaders } = operation
    // An identity provider can be unavailable too, which needs no database.
    const is503 = constantHeaders['503'] !== undefined && id !== 'authorizeOidc'
    const is504 = constantHeaders['504'] !== undefined
    if (!is503 && !is504) continue
    const request = await requestTo(operation)
    if (is503)
      t.test(`503 without a database: ${id}`, { buffered: true }, async (t) => {
        const started = performance.now()
        isUnavailable(t, await withoutDatabase.call(id, request), method)
        t.ok(performance.now() - started < deadline, 'before the deadline')
      })
    if (!is504) continue
    isOpen = operation.isOpen
    isLost = true
    const { status, body, headers } = await service.call(id, request)
    isLost = false
    t.equal(status, 504, `504 if the outcome of the write is unknown: ${id}`)
    t.match(body, { code: 'outcome_unknown', detail: /Idempotency-Key/ })
    t.equal(headers.get('cache-control'), 'no-store')
  }
})

t.test('without a database', async (t) => {
  const service = await startWithoutDatabase(t)
  const tokens = await createAccessTokens(Fastify(), service.deps.secrets, Date.now)
  const issuance = { issuedAt: Date.now(), tokenId: newId(), keyIndex: 0 }
  const token = tokens.issue({ userId: newId(), sessionId: newId() }, issuance)

  t.test('503 for an API token, which cannot be looked up', async (t) => {
    isUnavailable(t, await service.call('listTasks', { token: newApiToken().token }))
  })

  t.test('200 for liveness and the contract', async () => {
    await service.expect('getLiveness', 200)
    await service.expect('getContract', 200)
    await service.expect('getContractJson', 200)
  })

  t.test('401 without a valid token', async () => {
    await service.expect('listTasks', 401)
    await service.expect('listTasks', 401, { token: `${token.slice(0, -4)}AAAA` })
  })
})

t.test('credentials are forgotten if the outcome of a change is unknown', async (t) => {
  let isLost = false
  const service = await startService(t, {
    aroundDatabase: (db) => ({
      ...db,
      transaction: async (...parameters) => {
        const result = await db.transaction(...parameters)
        if (!isLost) return result
        currentWork().sent.push('commit')
        throw new OutcomeUnknown()
      },
    }),
  })
  const admin = await service.register('admin')
  const { createApiToken, statusOf } = accountActions(service, admin)

  /** Changes that end the access of a token: their request for an account, and the token if it is not that of its session. */
  const changes: readonly {
    readonly operation: OperationId
    readonly request: (user: Account, apiToken: Schemas['ApiTokenWithSecret']) => Call
    readonly endsApiToken?: boolean
  }[] = [
    { operation: 'logout', request: ({ token }) => ({ token }) },
    { operation: 'logout', request: ({ token }) => ({ token, query: { everywhere: true } }) },
    {
      operation: 'revokeApiToken',
      request: ({ token }, { id }) => ({ token, params: { token_id: id } }),
      endsApiToken: true,
    },
    {
      operation: 'setUserPassword',
      request: ({ id }) => ({
        token: admin.token,
        params: { user_id: id },
        body: { password: 'another good password', reset_second_factor: false },
      }),
    },
    {
      operation: 'updateUser',
      request: ({ id }) => ({ token: admin.token, params: { user_id: id }, body: { is_disabled: true } }),
      endsApiToken: true,
    },
    {
      operation: 'deleteUser',
      request: ({ id }) => ({ token: admin.token, params: { user_id: id } }),
      endsApiToken: true,
    },
  ]
  for (const [index, { operation, request, endsApiToken = false }] of changes.entries()) {
    const user = await service.register(`user${index}`)
    const apiToken = await createApiToken(user, { scopes: ['users:read'] })
    const token = endsApiToken ? apiToken.token : user.token
    t.equal(await statusOf(token), 200, 'the credential is cached')
    isLost = true
    const { status } = await service.call(operation, request(user, apiToken))
    isLost = false
    t.equal(status, 504, operation)
    t.equal(await statusOf(token), 401, `${operation} has taken effect`)
  }
})

t.test('503 after the database of a running service is lost', async (t) => {
  const database = await createTestDatabase()
  const db = openDatabase(database.options)
  const service = await startService(t, { db })
  t.teardown(() => db.close())
  const { token } = await service.register('ada')
  await service.expect('createTask', 201, { token, body: { title: 'Kept' } })
  await database.close()

  const replies = await Promise.all([
    service.call('getReadiness'),
    service.call('listTasks', { token }),
    service.call('createTask', { token, body: { title: 'Lost' } }),
  ])
  for (const reply of replies) isUnavailable(t, reply)
  const signIn = { email: 'ada@example.com', password: 'password of ada' }
  const { status } = await service.call('login', { body: signIn })
  // A sign-in first counts the attempt, which may have been sent on a session that was lost.
  t.ok(status === 503 || status === 504, String(status))
  await service.expect('getLiveness', 200)
})

t.test('readiness checks are cached', async (t) => {
  const hour = 3_600_000
  const disk = await diskStorage(await temporaryFolder(t))
  let checks = 0
  const service = await startService(t, {
    timeLimits: { ...timeLimits, readiness: hour },
    storage: {
      ...disk,
      check: () => {
        checks += 1
        return disk.check()
      },
    },
  })
  const read = () => service.expect('getReadiness', 200)
  await Promise.all(Array.from({ length: 20 }, read))
  const { body } = await read()
  t.equal(checks, 1)
  t.equal(body.version, manifest.version)
  const now = performance.now.bind(performance)
  t.intercept(performance, 'now', { value: () => now() + hour })
  await read()
  t.equal(checks, 2)
})

t.test('readiness is degraded without the file storage', async (t) => {
  const disk = await diskStorage(await temporaryFolder(t))
  let fault: Error | null = null
  const service = await startService(t, {
    storage: {
      ...disk,
      check: async () => {
        if (fault !== null) throw fault
        await disk.check()
      },
    },
  })
  const degraded = async () => (await service.expect('getReadiness', 200)).body.degraded
  t.strictSame(await degraded(), [])
  for (const error of [new StorageUnavailable(), new StorageFull()]) {
    fault = error
    t.strictSame(await degraded(), ['attachments'], 'still 200')
  }
  fault = null
  t.strictSame(await degraded(), [])
})
