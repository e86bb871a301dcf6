import type { FastifyInstance } from 'fastify'
import { Secret, TOTP } from 'otpauth'
import t, { type Test } from 'tap'
import { buildApp } from '../src/app.ts'
import type { Secrets } from '../src/auth/keys.ts'
import { newId } from '../src/db/shared/ids.ts'
import { jobTimes } from '../src/jobs/registry.ts'
import { eventually } from './fixture/eventually.ts'
import { type Account, createClient, type Service, startService } from './fixture/service.ts'
import { pointersOf } from './fixture/tasks.ts'

/** Rotation of the secret while several instances run on one database. */

const oldSecret = Buffer.from('the secret that is to be replaced')
const newSecret = Buffer.from('the secret that comes in its place')

const service = await startService(t, { secrets: [oldSecret], jobTimes })
const ada = await service.register('ada')

interface Instance {
  readonly expect: Service['expect']
  /** Stops it after all of its requests have completed, as behind a load balancer. */
  stop(): Promise<void>
}

const instanceOf = (app: FastifyInstance, url: string): Instance => {
  const client = createClient(url)
  const calls: Promise<unknown>[] = []
  return {
    expect(...request) {
      const call = client.expect(...request)
      calls.push(call)
      return call
    },
    async stop() {
      await Promise.allSettled(calls)
      await app.close()
    },
  }
}

const startInstance = async (secrets: Secrets): Promise<Instance> => {
  const app = await buildApp({ ...service.deps, secrets })
  return instanceOf(app, await app.listen({ host: '127.0.0.1', port: 0 }))
}

/** Creates an access token, a cursor and idempotency keys with the old secret. */
const makeOld = async () => {
  const { token } = ada
  const creation = { headers: { 'idempotency-key': newId() }, body: { title: 'The second on the list' } }
  const { body: task } = await service.expect('createTask', 201, { token, ...creation })
  await service.expect('createTask', 201, { token, body: { title: 'The first' } })
  const { body: page } = await service.expect('listTasks', 200, { token, query: { limit: 1 } })
  const program = {
    headers: { 'idempotency-key': newId() },
    body: { name: 'program', scopes: ['tasks:read'] },
  }
  const { body: apiToken } = await service.expect('createApiToken', 201, { token, ...program })
  return { token, creation, task, program, apiToken, query: { limit: 1, cursor: page.next_cursor ?? '' } }
}

const old = await makeOld()

const acceptsOld = async (t: Test, { expect }: Pick<Instance, 'expect'>): Promise<void> => {
  const { token, creation, task, program, apiToken, query } = old
  await expect('getCurrentUser', 200, { token })
  const { body: page } = await expect('listTasks', 200, { token, query })
  t.equal(page.items[0]?.id, task.id)
  const { body, headers } = await expect('createTask', 201, { token, ...creation })
  t.equal(body.id, task.id)
  t.equal(headers.get('idempotency-replayed'), 'true')
  const { body: repeated } = await expect('createApiToken', 201, { token, ...program })
  t.strictSame(repeated, apiToken)
}

const refusesOld = async (t: Test, { expect }: Pick<Instance, 'expect'>, token: string): Promise<void> => {
  await expect('getCurrentUser', 401, { token: old.token })
  const { body: problem } = await expect('listTasks', 400, { token, query: old.query })
  t.strictSame(pointersOf(problem), ['/cursor'])
  const { body: reused } = await expect('createTask', 422, { token, ...old.creation })
  t.equal(reused.code, 'idempotency_key_reused', 'nothing is created twice')
}

t.test('tokens, cursors and keys are valid only while their secret is configured', async (t) => {
  const grace = await service.register('grace')
  const { token: gracesToken, password } = grace
  const { body: enrolled } = await service.expect('enrollSecondFactor', 201, {
    token: gracesToken,
    body: { password },
  })
  const secret = Secret.fromBase32(enrolled.secret)
  const codeAt = (timestamp: number): string => TOTP.generate({ secret, timestamp })
  const confirmation = { token: gracesToken, body: { code: codeAt(Date.now()) } }
  await service.expect('confirmSecondFactor', 200, confirmation)
  const sealOf = async () =>
    String((await service.deps.db.run('select secret from second_factors', []))[0]?.secret)
  const before = await sealOf()
  const isFree = async () => (await service.deps.db.run('select from leases', [])).length === 0
  await eventually('the jobs of the earlier instances have finished', isFree)

  const both = await startInstance([newSecret, oldSecret])
  t.teardown(() => both.stop())
  await acceptsOld(t, both)
  const { body } = await both.expect('login', 200, { body: { email: ada.email, password: ada.password } })
  const { access_token: token } = body
  // Therefore all instances must verify with a secret before any of them signs with it.
  await service.expect('getCurrentUser', 401, { token })
  await eventually(
    'the job at the start has resealed the second factor',
    async () => (await sealOf()) !== before,
  )

  const rotated = await startInstance([newSecret])
  t.teardown(() => rotated.stop())
  await rotated.expect('getCurrentUser', 200, { token })
  await refusesOld(t, rotated, token)

  await t.test('a second factor remains valid after its secret is removed', async () => {
    const { body: problem } = await rotated.expect('login', 401, { body: { email: grace.email, password } })
    // The code of the next time step, because the current one was used for the confirmation.
    const answer = { challenge: problem.challenge ?? '', code: codeAt(Date.now() + 30_000) }
    await rotated.expect('completeLogin', 200, { body: answer })
  })
})

t.test('a refresh repeated at an instance with another active secret gets the same pair', async (t) => {
  const before = await startInstance([oldSecret, newSecret])
  const after = await startInstance([newSecret, oldSecret])
  t.teardown(() => Promise.all([before.stop(), after.stop()]))
  for (const [first, second] of [
    [before, after],
    [after, before],
  ] as const) {
    const { body } = await first.expect('login', 200, {
      body: { email: ada.email, password: ada.password },
    })
    const refresh = { body: { refresh_token: body.refresh_token } }
    const pairOf = async ({ expect }: Instance) => {
      const { access_token, refresh_token } = (await expect('refreshToken', 200, refresh)).body
      return { access_token, refresh_token }
    }
    const pair = await pairOf(first)
    t.strictSame(await pairOf(second), pair)
    for (const { expect } of [first, second])
      await expect('getCurrentUser', 200, { token: pair.access_token })
    await second.expect('refreshToken', 200, { body: { refresh_token: pair.refresh_token } })
  }
})

t.test('no request fails during a rolling rotation under load', async (t) => {
  const instances = [instanceOf(service.app, service.url), await startInstance([oldSecret])]
  t.teardown(() => Promise.all(instances.map((instance) => instance.stop())))
  const people = [await service.register('worker-0'), await service.register('worker-1')]
  const rounds = people.map(() => 0)
  const rotated = new AbortController()

  /** Repeats a sequence of requests, each at another instance than the one before. */
  const work = async (person: Account, worker: number): Promise<void> => {
    let { token, refreshToken } = person
    let steps = worker
    const expect: Service['expect'] = (...request) => {
      steps += 1
      const instance = instances[steps % instances.length]
      if (instance === undefined) throw new Error('There is no instance')
      return instance.expect(...request)
    }
    await expect('createTask', 201, { token, body: { title: 'The last on every list' } })
    while (!rotated.signal.aborted) {
      const creation = { token, headers: { 'idempotency-key': newId() }, body: { title: 'Once' } }
      const { body: task } = await expect('createTask', 201, creation)
      const { body: repeated } = await expect('createTask', 201, creation)
      t.equal(repeated.id, task.id)
      const { body: page } = await expect('listTasks', 200, { token, query: { limit: 1 } })
      const query = { limit: 1, cursor: page.next_cursor ?? '' }
      const { body: nextPage } = await expect('listTasks', 200, { token, query })
      t.not(nextPage.items[0]?.id, task.id)
      const { body } = await expect('refreshToken', 200, { body: { refresh_token: refreshToken } })
      await expect('getCurrentUser', 200, { token })
      token = body.access_token
      refreshToken = body.refresh_token
      await expect('getCurrentUser', 200, { token })
      rounds[worker] = (rounds[worker] ?? 0) + 1
    }
  }

  /** Waits for two rounds, because the first may have started before the call. */
  const twoRounds = async (): Promise<void> => {
    const started = [...rounds]
    await eventually('two rounds of every worker', async () =>
      rounds.every((count, worker) => count >= (started[worker] ?? 0) + 2),
    )
  }

  const replaceAll = async (secrets: Secrets): Promise<void> => {
    for (const [index, replaced] of instances.entries()) {
      instances[index] = await startInstance(secrets)
      await replaced.stop()
      await twoRounds()
    }
  }

  const rotate = async (): Promise<void> => {
    await replaceAll([oldSecret, newSecret])
    await replaceAll([newSecret, oldSecret])
    for (const instance of instances) await acceptsOld(t, instance)
    await replaceAll([newSecret])
    rotated.abort()
  }

  await Promise.all([rotate(), ...people.map(work)])
  for (const instance of instances) await instance.expect('getCurrentUser', 401, { token: old.token })
})
