import t, { type Test } from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { createClient, type ServerConnection } from '../../src/db/engine/connection.ts'
import { cacheCredentials } from '../../src/auth/credentials.ts'
import { accountActions, startBeside } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { projectActions } from '../fixture/projects.ts'
import { type Account, type Service, startService } from '../fixture/service.ts'

/** Two instances on one database server: credentials that one revokes are refused by the other. */

/** Milliseconds that an instance trusts its cache without a notification. */
const cacheTtl = 5_000

/** Milliseconds; typically 10. It is below the TTL by more than a busy machine takes for a request. */
const maxDelay = 2_000

/** Starts an instance with its own connections. */
const startInstance = async (
  t: Test,
  service: Service,
  options: ServerConnection,
  wrap = (db: Database): Database => db,
) => {
  const db = openDatabase(options)
  t.teardown(() => db.close())
  const wrapped = wrap(db)
  return startBeside(t, { ...service, deps: { ...service.deps, db: wrapped, backgroundDb: wrapped } })
}

interface Change {
  readonly what: string
  /** Makes the change on the first instance. */
  readonly change: () => Promise<unknown>
  /** The token, operation and path of the requests to the second instance. */
  readonly token: string
  readonly operation?: OperationId
  readonly params?: Readonly<Record<string, string>>
  /** Their statuses before and after the change. */
  readonly before?: number
  readonly after: number
}

t.test('instances on one server', async (t) => {
  const { db, options } = await openTestDatabase(t)
  const here = await startService(t, { db })
  const there = await startInstance(t, here, options)
  const deaf = await startInstance(t, here, options, (db) => ({ ...db, listen: () => undefined }))
  const sql = createClient(options)
  t.teardown(() => sql.end())
  const admin = await here.register('admin')
  const { createApiToken, setRole, signIn } = accountActions(here, admin)
  const { createProject, setMember } = projectActions(here)

  const bothListen = async (): Promise<boolean> => {
    const rows = await sql`select from pg_stat_activity
      where datname = current_database() and application_name = 'taskwright-listen' and query ilike 'listen%' and state = 'idle'`
    return rows.length === 2
  }
  const cutListeners = () => sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'taskwright-listen'`

  type Instance = Pick<Service, 'call'>

  /** Polls an instance until the status is `after`. Resolves to the milliseconds since the change and since the caching. */
  const measure = async (
    instance: Instance,
    { change, token, operation = 'getCurrentUser', params = {}, before = 200, after }: Change,
  ) => {
    const poll = async (): Promise<number> => (await instance.call(operation, { token, params })).status
    const status = await poll()
    if (status !== before) throw new Error(`The status before the change is ${status}`)
    const cached = performance.now()
    await change()
    const changed = performance.now()
    let polls = 0
    await eventually(`the status is ${after}`, async () => {
      polls += 1
      return (await poll()) === after
    })
    const seen = performance.now()
    return { delay: seen - changed, sinceCached: seen - cached, polls }
  }

  const signOut = (token: string): Change => ({
    what: 'sign-out',
    change: () => here.expect('logout', 204, { token }),
    token,
    after: 401,
  })
  const removeUser = (user: Account) => () =>
    here.expect('deleteUser', 204, { token: admin.token, params: { user_id: user.id } })

  /** Each is made with a new account. */
  const changes: readonly ((user: Account) => Promise<Change>)[] = [
    async ({ token }) => signOut(token),
    async (user) => {
      const { id, token } = await createApiToken(user, { scopes: ['users:read'] })
      const revoke = () => here.expect('revokeApiToken', 204, { token: user.token, params: { token_id: id } })
      return { what: 'revoking an API token', change: revoke, token, after: 401 }
    },
    async (user) => ({
      what: 'promotion to administrator',
      change: () => setRole(user, 'admin'),
      token: user.token,
      operation: 'listAuditEvents',
      before: 403,
      after: 200,
    }),
    async (user) => {
      await setRole(user, 'admin')
      const operation = 'listAuditEvents'
      await eventually(
        'the other instance has cached the role',
        async () => (await there.call(operation, { token: user.token })).status === 200,
      )
      const change = () => setRole(user, 'member')
      return { what: 'demotion to member', change, token: user.token, operation, after: 403 }
    },
    async ({ id, token }) => ({
      what: 'disabling a user',
      change: () =>
        here.expect('updateUser', 200, {
          token: admin.token,
          params: { user_id: id },
          body: { is_disabled: true },
        }),
      token,
      after: 401,
    }),
    async (user) => {
      const { access_token: token } = await signIn(user)
      const body = { current_password: user.password, new_password: 'another good password' }
      const change = () => here.expect('changePassword', 204, { token: user.token, body })
      return { what: 'changing the password in another session', change, token, after: 401 }
    },
    async (user) => {
      const project = await createProject(admin)
      await setMember(admin, project, user, 'viewer')
      const params = { project_id: project.id }
      const change = () =>
        here.expect('removeProjectMember', 204, {
          token: admin.token,
          params: { ...params, user_id: user.id },
        })
      const { token } = user
      return { what: 'removing a member', change, token, operation: 'getProject', params, after: 404 }
    },
    async (user) => ({
      what: 'deleting a user',
      change: removeUser(user),
      token: user.token,
      after: 401,
    }),
  ]

  await eventually('both instances listen', bothListen)

  await t.test('the other instance sees a change before its cache expires', async (t) => {
    for (const [index, prepare] of changes.entries()) {
      const change = await prepare(await here.register(`user${index}`))
      const { delay, sinceCached } = await measure(there, change)
      t.comment(`${change.what}: ${delay.toFixed(1)} ms`)
      t.ok(delay < maxDelay && sinceCached < cacheTtl - 1_000, change.what)
    }
  })

  await t.test('missing notifications, as behind a transaction pooler, are logged', async (t) => {
    const warningsOf = (background: Database): string[] => {
      const warnings: string[] = []
      cacheCredentials(db, { background, log: { warn: (message) => void warnings.push(message) } })
      return warnings
    }
    const own = openDatabase(options)
    t.teardown(() => own.close())
    const { promise: listens, resolve } = Promise.withResolvers<void>()
    const notifiedWarnings = warningsOf({
      ...own,
      listen: (channel, { onNotification, onListening }) =>
        own.listen(channel, {
          onNotification,
          onListening() {
            onListening()
            resolve()
          },
        }),
    })
    await listens
    const silentWarnings = warningsOf({ ...own, listen: (_channel, { onListening }) => onListening() })
    await eventually('a warning is logged', async () => silentWarnings.length > 0)
    t.match(silentWarnings, [/delivers no notifications/])
    t.strictSame(notifiedWarnings, [], 'no warning with notifications')
  })

  await t.test('an instance without notifications trusts its cache for 5 seconds', async (t) => {
    const { token } = await here.register('unheard')
    const { sinceCached, polls } = await measure(deaf, signOut(token))
    t.comment(`${sinceCached.toFixed(0)} ms`)
    t.ok(polls > 1, 'the token was still accepted')
    t.ok(sinceCached < cacheTtl + maxDelay, `${sinceCached} ms`)
  })

  await t.test(
    'a lost listening connection empties the cache, because a change may have been missed',
    async (t) => {
      const { id, token } = await here.register('missed')
      const isAdminThere = async (): Promise<boolean> =>
        (await there.call('listAuditEvents', { token })).status === 200
      const cached = performance.now()
      t.notOk(await isAdminThere())
      await sql`update users set role = 'admin' where id = ${id}`
      t.notOk(await isAdminThere(), 'the change sent no notification')
      await cutListeners()
      await eventually('the role is read again', isAdminThere)
      t.ok(performance.now() - cached < cacheTtl - 1_000)
      await eventually('both instances listen again', bothListen)
    },
  )

  await t.test(
    'without a listening connection, changes are seen before the cache expires, and it reconnects',
    async (t) => {
      for (let round = 0; round < 3; round += 1) {
        const { token } = await here.register(`cut${round}`)
        const { change: signOutHere, ...rest } = signOut(token)
        const change = () => cutListeners().then(signOutHere)
        const { delay } = await measure(there, { ...rest, change })
        t.comment(`${delay.toFixed(0)} ms`)
        t.ok(delay < cacheTtl, `${delay} ms`)
        await eventually('both instances listen again', bothListen)
      }
      const { token } = await here.register('afterwards')
      const { delay } = await measure(there, signOut(token))
      t.ok(delay < maxDelay, 'notified again')
    },
  )
})
