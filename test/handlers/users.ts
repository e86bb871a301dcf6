import t from 'tap'
import { passwordHasher } from '../../src/auth/passwords.ts'
import { narrowHasher, whileHashing } from '../fixture/hashing.ts'
import { isInvalid } from '../fixture/refusals.ts'
import {
  type Account,
  type Call,
  fileForm,
  type Service,
  startService,
  testHashing,
} from '../fixture/service.ts'
import { countStatuses } from '../fixture/tasks.ts'

const hasher = passwordHasher({ parameters: testHashing })
let hashes = 0
const service = await startService(t, {
  passwords: {
    ...hasher,
    hash(password) {
      hashes += 1
      return hasher.hash(password)
    },
  },
})
const admin = await service.register('admin')
const ada = await service.register('ada')

const password = 'correct horse battery'
const userNamed = (username: string) => ({ username, email: `${username}@example.com`, password })

/** The path parameter for a user. */
const paramsOf = ({ id }: Pick<Account, 'id'>) => ({ user_id: id })

/** A call as the administrator. */
const byAdmin = (request: Call): Call => ({ token: admin.token, ...request })

const createUser = async (body: object, headers: Readonly<Record<string, string>> = {}) =>
  service.expect('createUser', 201, byAdmin({ body, headers }))

const createAdmin = async (on: Service, by: Account, username: string): Promise<Account> => {
  const account = await on.register(username)
  await on.expect('updateUser', 200, { token: by.token, params: paramsOf(account), body: { role: 'admin' } })
  return account
}

const readUser = async ({ id }: Pick<Account, 'id'>) =>
  (await service.expect('getUser', 200, byAdmin({ params: { user_id: id } }))).body

const countUsers = async (): Promise<number | null> => {
  const query = { include_total: true, limit: 1 }
  return (await service.expect('listUsers', 200, byAdmin({ query }))).body.total
}

t.test('listUsers', async (t) => {
  const list = (token: string, query: NonNullable<Call['query']> = {}) =>
    service.expect('listUsers', 200, { token, query })

  t.test('200: all users, newest first, with the email addresses that the caller can see', async (t) => {
    const newest = await service.register('newest')
    const seen = (await list(newest.token, { limit: 200 })).body.items
    t.strictSame(
      seen.map(({ username }) => username),
      ['newest', 'ada', 'admin'],
    )
    t.strictSame(
      seen.map(({ email }) => email),
      [newest.email, null, null],
    )
    t.strictSame(seen[0], newest.user)
    const all = (await list(admin.token, { limit: 200 })).body
    t.strictSame(all.items, [newest.user, ada.user, admin.user])
    t.equal(all.total, null)
    t.equal(all.next_cursor, null)
  })

  t.test('200 with filters by role and by part of a name', async (t) => {
    const namesOf = async (query: NonNullable<Call['query']>) =>
      (await list(ada.token, query)).body.items.map(({ username }) => username)
    await service.expect('createUser', 201, {
      token: admin.token,
      body: {
        username: 'zoe',
        email: 'zoe@example.com',
        password: 'a long password',
        display_name: 'Zoë Ångström',
      },
    })
    t.strictSame(await namesOf({ role: 'admin' }), ['admin'])
    t.notOk((await namesOf({ role: ['member'] })).includes('admin'))
    t.strictSame(await namesOf({ q: 'ZOE a' }), ['zoe'], 'ignoring case and accents')
    t.strictSame(await namesOf({ q: 'ångs' }), ['zoe'])
    t.strictSame(await namesOf({ q: 'dmi', role: ['admin', 'member'] }), ['admin'])
    t.strictSame(await namesOf({ q: '%' }), [])
    t.strictSame(await namesOf({ q: 'zoe@' }), [], 'email addresses are not searched')
    const { body } = await list(ada.token, { q: 'z', include_total: true })
    t.equal(body.total, 1)
  })
})

t.test('createUser', async (t) => {
  t.test('201 for an administrator: the new user can sign in', async (t) => {
    const body = {
      ...userNamed('grace'),
      display_name: ' Grace Hopper ',
      email: ' GRACE@Example.com',
      role: 'admin',
    }
    const { body: user, headers } = await createUser(body)
    t.match(user, { username: 'grace', display_name: 'Grace Hopper', email: 'grace@example.com' })
    t.match(user, { role: 'admin', version: 1 })
    t.equal(headers.get('location'), `/users/${user.id}`)
    t.equal(headers.get('etag'), '"1"')
    t.equal(headers.get('idempotency-replayed'), null)
    t.strictSame(await readUser(user), user)
    const login = { email: 'grace@example.com', password }
    t.strictSame((await service.expect('login', 200, { body: login })).body.user, user)
    await service.expect('deleteUser', 204, byAdmin({ params: paramsOf(user) }))
  })

  t.test('201 with defaults', async (t) => {
    t.match((await createUser(userNamed('plain'))).body, { display_name: 'plain', role: 'member' })
  })

  t.test('400 for a username or an email address with characters that it must not have', async (t) => {
    const before = await countUsers()
    const invalid = [
      ...['A', 'Ada', 'a b', '.a'].map((username) => ['username', { username }] as const),
      ...['x', 'a@b@c', 'a\u200b@x.io'].map((email) => ['email', { email }] as const),
    ]
    for (const [name, field] of invalid)
      t.match(
        await service.call('createUser', byAdmin({ body: { ...userNamed('never'), ...field } })),
        isInvalid(`/${name}`),
        JSON.stringify(field),
      )
    t.equal(await countUsers(), before)
  })

  t.test('409 for a username or email address that is taken', async (t) => {
    t.match(await service.call('createUser', byAdmin({ body: { ...userNamed('ada'), email: 'x@x.io' } })), {
      status: 409,
      body: { code: 'username_taken', errors: [{ pointer: '/username' }] },
    })
    t.match(
      await service.call(
        'createUser',
        byAdmin({ body: { ...userNamed('never'), email: 'ADA@example.com' } }),
      ),
      {
        status: 409,
        body: { code: 'email_taken', errors: [{ pointer: '/email' }] },
      },
    )
  })

  t.test('429 with Retry-After while too many passwords are hashed, except for a repeat', async (t) => {
    const passwords = narrowHasher()
    const narrow = await startService(t, { db: service.deps.db, passwords })
    const { token } = admin
    const request = { token, body: userNamed('early'), headers: { 'idempotency-key': 'early' } }
    await narrow.expect('createUser', 201, request)
    await whileHashing(passwords, async () => {
      const late = await narrow.call('createUser', { token, body: userNamed('late') })
      t.match(late, { status: 429, body: { code: 'too_many_requests' } })
      t.equal(late.headers.get('retry-after'), '2')
      const replayed = await narrow.expect('createUser', 201, request)
      t.equal(replayed.headers.get('idempotency-replayed'), 'true')
    })
    await narrow.expect('createUser', 201, { token, body: userNamed('late') })
  })
})

t.test('createUser with an Idempotency-Key', async (t) => {
  const create = (key: string, body: object, token = admin.token) =>
    service.call('createUser', { token, body, headers: { 'idempotency-key': key } })

  t.test('a repeat gets the first response, without a second hash', async (t) => {
    const first = await create('repeat', userNamed('repeat'))
    t.equal(first.status, 201)
    const before = hashes
    const again = await create('repeat', userNamed('repeat'))
    t.equal(hashes, before)
    t.strictSame(again.body, first.body)
    t.equal(again.status, 201)
    for (const name of ['location', 'etag', 'content-type', 'cache-control']) {
      t.equal(again.headers.get(name), first.headers.get(name), name)
    }
    t.equal(again.headers.get('idempotency-replayed'), 'true')
  })

  t.test('a repeat can have another order of fields and case of the email address', async (t) => {
    const { username, email, password } = userNamed('ordered')
    const first = await create('ordered', { username, email, password })
    const again = await create('ordered', { password, email: email.toUpperCase(), username })
    t.equal(again.headers.get('idempotency-replayed'), 'true')
    t.strictSame(again.body, first.body)
  })

  t.test('a repeat gets the first response even after the user was changed or deleted', async (t) => {
    const { body: user } = await createUser(userNamed('changing'), { 'idempotency-key': 'changing' })
    await service.expect(
      'updateUser',
      200,
      byAdmin({ params: paramsOf(user), body: { display_name: 'Changed' } }),
    )
    t.strictSame((await create('changing', userNamed('changing'))).body, user)
    await service.expect('deleteUser', 204, byAdmin({ params: paramsOf(user) }))
    const before = await countUsers()
    t.match(await create('changing', userNamed('changing')), { status: 201, body: user })
    t.equal(await countUsers(), before)
  })

  t.test('422 for another body, including another password', async (t) => {
    await create('other', userNamed('other'))
    const before = await countUsers()
    for (const body of [
      userNamed('another'),
      { ...userNamed('other'), password: 'another password' },
      { ...userNamed('other'), role: 'admin' },
      { ...userNamed('other'), display_name: 'Other' },
    ]) {
      t.match(await create('other', body), { status: 422, body: { code: 'idempotency_key_reused' } })
    }
    t.equal(await countUsers(), before)
  })

  t.test('20 requests at the same time create one user', async (t) => {
    const before = await countUsers()
    const replies = await Promise.all(Array.from({ length: 20 }, () => create('racing', userNamed('racing'))))
    t.ok(replies.every(({ status }) => status === 201))
    t.equal(new Set(replies.map(({ body }) => JSON.stringify(body))).size, 1)
    t.equal(replies.filter(({ headers }) => headers.get('idempotency-replayed') === null).length, 1)
    t.equal(await countUsers(), (before ?? 0) + 1)
  })

  t.test('one of two bodies with the same key at the same time is accepted', async (t) => {
    const before = await countUsers()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) => create('split', userNamed(`split${index % 2}`))),
    )
    t.strictSame(countStatuses(replies), { 201: 10, 422: 10 })
    t.equal(await countUsers(), (before ?? 0) + 1)
  })

  t.test('an error is not stored', async (t) => {
    const { body: taken } = await createUser(userNamed('occupied'))
    t.match(await create('later', userNamed('occupied')), { status: 409 })
    await service.expect('deleteUser', 204, byAdmin({ params: paramsOf(taken) }))
    const done = await create('later', userNamed('occupied'))
    t.equal(done.status, 201)
    t.equal(done.headers.get('idempotency-replayed'), null)
  })

  t.test('a key can have 255 characters, and every visible ASCII character', async (t) => {
    const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index)).join('')
    for (const [index, key] of ['k'.repeat(255), visible].entries()) {
      t.match(await create(key, userNamed(`key${index}`)), { status: 201 })
      t.equal((await create(key, userNamed(`key${index}`))).headers.get('idempotency-replayed'), 'true')
    }
  })

  t.test('403 for a repeat by a demoted administrator', async (t) => {
    const former = await createAdmin(service, admin, 'former-admin')
    t.match(await create('former', userNamed('by-former'), former.token), { status: 201 })
    await service.expect('updateUser', 200, byAdmin({ params: paramsOf(former), body: { role: 'member' } }))
    t.match(await create('former', userNamed('by-former'), former.token), { status: 403 })
  })
})

t.test('getUser', async (t) => {
  const get = (token: string, account: Account, headers: Readonly<Record<string, string>> = {}) =>
    service.expect('getUser', 200, { token, params: paramsOf(account), headers })

  t.test('200: only the user and administrators see the email address', async (t) => {
    const other = await service.register('looker')
    const [self, byTheAdmin, byOther] = await Promise.all(
      [ada, admin, other].map(({ token }) => get(token, ada)),
    )
    t.strictSame(self?.body, ada.user)
    t.strictSame(byTheAdmin?.body, ada.user)
    t.strictSame(byOther?.body, { ...ada.user, email: null })
    t.equal(self?.headers.get('etag'), byTheAdmin?.headers.get('etag'), 'the same body')
    t.not(self?.headers.get('etag'), byOther?.headers.get('etag'), 'another body')
    t.equal(byOther?.headers.get('cache-control'), 'private, no-cache')
  })

  t.test('304 for the ETag of the body that the caller would get', async (t) => {
    const other = await service.register('looker-2')
    const seen = (await get(other.token, ada)).headers.get('etag') ?? ''
    const own = (await get(ada.token, ada)).headers.get('etag') ?? ''
    for (const [{ token }, current, foreign] of [
      [other, seen, own],
      [ada, own, seen],
    ] as const) {
      const params = paramsOf(ada)
      for (const etag of [current, `W/${current}`, '*', `"x", ${current}`, `${foreign},W/${current}`]) {
        const headers = { 'if-none-match': etag }
        const same = await service.expect('getUser', 304, { token, params, headers })
        t.equal(same.body, null)
        t.equal(same.headers.get('etag'), current, etag)
        t.match(await service.call('getUser', { token, params, headers, method: 'HEAD' }), { status: 304 })
      }
      for (const etag of [foreign, '"x"', '', `"x${current.slice(1)}`]) {
        t.equal((await get(token, ada, { 'if-none-match': etag })).body.id, ada.id, etag)
      }
    }
  })
})

const replacement = (username: string, role = 'member') => ({
  username,
  email: `${username}@example.com`,
  display_name: 'Replaced',
  role,
})

t.test('replaceUser', async (t) => {
  const put = (token: string, account: Account, body: object) =>
    service.call('replaceUser', { token, params: paramsOf(account), body })

  t.test('200 for the user and administrators: replaces every field', async (t) => {
    const account = await service.register('put-self')
    const body = {
      ...replacement('put-renamed'),
      email: ' RENAMED@example.com',
      display_name: ' Re\u0301ne\u0301 ',
    }
    const request = { token: account.token, params: paramsOf(account), body }
    const { body: user, headers } = await service.expect('replaceUser', 200, request)
    t.match(user, { username: 'put-renamed', email: 'renamed@example.com', display_name: 'R\u00e9n\u00e9' })
    t.match(user, { id: account.id, role: 'member', version: 2, created_at: account.user.created_at })
    t.ok(user.updated_at >= account.user.updated_at)
    t.equal(headers.get('etag'), '"2"')
    t.strictSame(await readUser(account), user)
    const login = { email: 'renamed@example.com', password: account.password }
    await service.expect('login', 200, { body: login })
    t.match(await service.call('login', { body: { ...login, email: account.email } }), { status: 401 })

    t.match(await put(admin.token, account, replacement('put-by-admin', 'admin')), {
      status: 200,
      body: { username: 'put-by-admin', role: 'admin', version: 3, email: 'put-by-admin@example.com' },
    })
    t.match(await put(admin.token, account, replacement('put-by-admin')), { body: { role: 'member' } })
  })

  t.test('409 for a username or email address that is taken: nothing changes', async (t) => {
    const other = await service.register('put-taker')
    t.match(await put(ada.token, ada, { ...replacement('put-taker'), email: ada.email }), {
      status: 409,
      body: { code: 'username_taken' },
    })
    t.match(await put(ada.token, ada, { ...replacement('ada'), email: other.email.toUpperCase() }), {
      status: 409,
      body: { code: 'email_taken' },
    })
    t.strictSame(await readUser(ada), ada.user)
  })
})

t.test('updateUser', async (t) => {
  const patch = (token: string, account: Account, body: object) =>
    service.call('updateUser', { token, params: paramsOf(account), body })

  t.test('200: changes the given fields only, in both media types', async (t) => {
    const account = await service.register('patched')
    const changed = await patch(account.token, account, { display_name: ' Amazing Grace ' })
    t.match(changed, { status: 200, body: { display_name: 'Amazing Grace', version: 2 } })
    t.equal(changed.headers.get('etag'), '"2"')
    const merge = { 'content-type': 'application/merge-patch+json' }
    const request = byAdmin({ params: paramsOf(account), body: { email: 'NEW@example.com' }, headers: merge })
    const { body } = await service.expect('updateUser', 200, request)
    t.match(body, {
      email: 'new@example.com',
      display_name: 'Amazing Grace',
      username: 'patched',
      version: 3,
    })
    t.strictSame(await readUser(account), body)
  })

  t.test('200 without a new version when nothing changes', async (t) => {
    for (const body of [{}, { display_name: 'ada' }, { email: 'ADA@example.com' }, { role: 'member' }]) {
      const same = await patch(ada.token, ada, body)
      t.equal(same.status, 200)
      t.strictSame(same.body, ada.user, JSON.stringify(body))
      t.equal(same.headers.get('etag'), '"1"')
    }
  })

  t.test('200 for changes of different fields at the same time: all are applied', async (t) => {
    const account = await service.register('shared-patch')
    const replies = await Promise.all([
      patch(account.token, account, { display_name: 'Both' }),
      patch(admin.token, account, { role: 'admin' }),
      patch(account.token, account, { username: 'both' }),
    ])
    t.strictSame(countStatuses(replies), { 200: 3 })
    t.match(await readUser(account), { display_name: 'Both', role: 'admin', username: 'both', version: 4 })
    await patch(admin.token, account, { role: 'member' })
  })

  t.test('200 for one of several requests with the same ETag, 412 for the others', async (t) => {
    const account = await service.register('contended')
    const replies = await Promise.all(
      Array.from({ length: 5 }, (_, index) =>
        service.call('updateUser', {
          token: account.token,
          params: paramsOf(account),
          body: { display_name: `Name ${index}` },
          headers: { 'if-match': '"1"' },
        }),
      ),
    )
    t.strictSame(countStatuses(replies), { 200: 1, 412: 4 })
    t.equal((await readUser(account)).version, 2)
  })

  t.test('400 for null: nothing changes', async (t) => {
    for (const name of ['username', 'email', 'display_name', 'role'])
      t.match(await patch(ada.token, ada, { display_name: 'Never', [name]: null }), isInvalid(`/${name}`))
    t.strictSame(await readUser(ada), ada.user)
  })

  t.test('409 for a username or email address that is taken: nothing changes', async (t) => {
    t.match(await patch(ada.token, ada, { username: 'admin', display_name: 'Never' }), {
      status: 409,
      body: { code: 'username_taken', errors: [{ pointer: '/username' }] },
    })
    t.match(await patch(ada.token, ada, { email: ' Admin@Example.com' }), {
      status: 409,
      body: { code: 'email_taken', errors: [{ pointer: '/email' }] },
    })
    t.strictSame(await readUser(ada), ada.user)
  })
})

t.test('deleteUser', async (t) => {
  t.test('204 for the user and administrators, then 404', async (t) => {
    for (const name of ['del-self', 'del-by-admin']) {
      const account = await service.register(name)
      const { token } = name === 'del-self' ? account : admin
      await service.expect('deleteUser', 204, { token, params: paramsOf(account) })
      t.match(await service.call('getUser', byAdmin({ params: paramsOf(account) })), { status: 404 })
      t.match(
        await service.call('deleteUser', byAdmin({ params: paramsOf(account) })),
        { status: 404 },
        'repeated',
      )
      t.match(await service.call('getCurrentUser', { token: account.token }), { status: 401 })
      await service.register(name)
    }
  })
})

t.test('the effects of deleting a user', async (t) => {
  const leaver = await service.register('leaver')
  const friend = await service.register('friend')
  const createTask = async ({ token }: Account, body: object) =>
    (await service.expect('createTask', 201, { token, body })).body
  const createTag = async ({ token }: Account, name: string) =>
    (await service.expect('createTag', 201, { token, body: { name } })).body
  const readTask = async (task: { readonly id: string }) =>
    (await service.expect('getTask', 200, { token: friend.token, params: { task_id: task.id } })).body
  const attach = async ({ token }: Account, task: { readonly id: string }) =>
    (
      await service.expect('addTaskAttachment', 201, {
        token,
        params: { task_id: task.id },
        body: fileForm('x'),
      })
    ).body

  const own = await createTask(leaver, { title: 'own', assignee_id: friend.id })
  const ownFile = await attach(leaver, own)
  const ownTag = await createTag(leaver, 'own')
  const assigned = await createTask(friend, { title: 'assigned', assignee_id: leaver.id })
  const tagged = await createTask(friend, { title: 'tagged', assignee_id: leaver.id })
  const friendsTag = await createTag(friend, 'friends')
  for (const tag of [ownTag, friendsTag]) {
    const { token } = tag === ownTag ? leaver : friend
    await service.expect('addTaskTag', 204, { token, params: { task_id: tagged.id, tag_id: tag.id } })
  }
  const attached = await createTask(friend, { title: 'attached', assignee_id: leaver.id })
  const kept = await attach(leaver, attached)
  for (const task of [tagged, attached]) {
    const request = { token: friend.token, params: { task_id: task.id }, body: { assignee_id: null } }
    await service.expect('updateTask', 200, request)
  }
  const untouched = await createTask(friend, { title: 'untouched' })
  const [assignedBefore, taggedBefore] = [await readTask(assigned), await readTask(tagged)]
  t.same(
    taggedBefore.tags.map(({ name }) => name),
    ['friends', 'own'],
  )

  await service.expect('deleteUser', 204, { token: leaver.token, params: paramsOf(leaver) })

  t.test('deletes their tasks with the files, and their tags', async (t) => {
    for (const { token } of [admin, friend]) {
      t.match(await service.call('getTask', { token, params: { task_id: own.id } }), { status: 404 })
      t.match(await service.call('downloadAttachment', { token, params: { attach_id: ownFile.id } }), {
        status: 404,
      })
      t.match(await service.call('getTag', { token, params: { tag_id: ownTag.id } }), { status: 404 })
    }
    const { body } = await service.expect('listTasks', 200, { token: friend.token })
    t.strictSame(
      body.items.map(({ title }) => title),
      ['untouched', 'attached', 'tagged', 'assigned'],
    )
  })

  t.test('ends their sessions', async (t) => {
    t.match(await service.call('getCurrentUser', { token: leaver.token }), { status: 401 })
    const request = { body: { refresh_token: leaver.refreshToken } }
    t.match(await service.call('refreshToken', request), { status: 401 })
  })

  t.test("unassigns them from others' tasks, with a new version", async (t) => {
    const after = await readTask(assigned)
    t.match(after, { assignee_id: null, version: assignedBefore.version + 1 })
    t.ok(after.updated_at >= assignedBefore.updated_at)
    const unassigned = { task_id: assigned.id }
    const { headers } = await service.expect('getTask', 200, { token: friend.token, params: unassigned })
    t.equal(headers.get('etag'), `"${after.version}.${after.revision}"`)
  })

  t.test("removes their tags from others' tasks, with a new version", async (t) => {
    const after = await readTask(tagged)
    t.strictSame(after.tags, [friendsTag])
    t.equal(after.version, taggedBefore.version + 1)
    t.ok(after.updated_at >= taggedBefore.updated_at)
  })

  t.test("keeps their files on others' tasks, without uploaded_by", async (t) => {
    const { body } = await service.expect('listTaskAttachments', 200, {
      token: friend.token,
      params: { task_id: attached.id },
    })
    t.strictSame(body.items, [{ ...kept, uploaded_by: null }])
    t.equal((await readTask(attached)).attachment_count, 1)
    const file = await service.call('downloadAttachment', {
      token: friend.token,
      params: { attach_id: kept.id },
    })
    t.match(file, { status: 200, body: Buffer.from('x') })
  })

  t.test('leaves other tasks and users unchanged', async (t) => {
    t.strictSame(await readTask(untouched), untouched)
    t.strictSame(await readUser(friend), friend.user)
  })
})

t.test('the last administrator', async (t) => {
  const guarded = await startService(t)
  const first = await guarded.register('first')
  const second = await guarded.register('second')

  const setRole = (by: Account, account: Account, role: string) =>
    guarded.call('updateUser', { token: by.token, params: paramsOf(account), body: { role } })
  const remove = (by: Account, account: Account) =>
    guarded.call('deleteUser', { token: by.token, params: paramsOf(account) })
  const demoteByPut = (by: Account, account: Account) =>
    guarded.call('replaceUser', {
      token: by.token,
      params: paramsOf(account),
      body: replacement(account.user.username),
    })
  const demote = (by: Account, account: Account) => setRole(by, account, 'member')
  const disable = (by: Account, account: Account) =>
    guarded.call('updateUser', { token: by.token, params: paramsOf(account), body: { is_disabled: true } })

  const countAdmins = async (token: string): Promise<number> => {
    const { body } = await guarded.expect('listUsers', 200, { token, query: { limit: 200 } })
    return body.items.filter(({ role, is_disabled }) => role === 'admin' && !is_disabled).length
  }

  t.test('409 for deletion, and demotion by PATCH and PUT: nothing changes', async (t) => {
    const isLast = { status: 409, body: { code: 'last_admin' } }
    for (const change of [remove, demote, demoteByPut]) t.match(await change(first, first), isLast)
    const body = { role: 'member', display_name: 'Never' }
    t.match(await guarded.call('updateUser', { token: first.token, params: paramsOf(first), body }), isLast)
    const { body: user } = await guarded.expect('getCurrentUser', 200, { token: first.token })
    t.strictSame(user, first.user)
    t.match(await setRole(first, first, 'admin'), { status: 200 }, 'the same role is no change')
  })

  t.test('can be demoted once there is another administrator', async (t) => {
    t.match(await setRole(first, second, 'admin'), { status: 200 })
    t.match(await demote(first, first), { status: 200 })
    t.match(await demote(first, second), { status: 403 }, 'the caller is a member now')
    t.match(await remove(second, second), { status: 409 })
    t.match(await setRole(second, first, 'admin'), { status: 200 })
    t.match(await demote(first, second), { status: 200 })
  })

  // Opens the connections that a race needs.
  const warmUp = () =>
    Promise.all(Array.from({ length: 20 }, () => guarded.expect('listUsers', 200, { token: second.token })))

  const races: readonly [string, typeof remove, typeof remove][] = [
    ['delete', remove, remove],
    ['demote', demote, demote],
    ['replace', demoteByPut, demoteByPut],
    ['disable', disable, disable],
    ['demote and disable', demote, disable],
    ['delete and demote', remove, demote],
  ]
  for (const [name, one, another] of races) {
    t.test(`one of two administrators who ${name} each other at the same time is left`, async (t) => {
      await warmUp()
      for (let round = 0; round < 8; round += 1) {
        const [left, right] = [
          await createAdmin(guarded, first, `${name.replaceAll(' ', '-')}-left${round}`),
          await createAdmin(guarded, first, `${name.replaceAll(' ', '-')}-right${round}`),
        ]
        t.match(await demote(left, first), { status: 200 })
        const replies = await Promise.all([0, 1, 2].flatMap(() => [one(left, right), another(right, left)]))
        t.ok(replies.every(({ status }) => [200, 204, 401, 403, 404, 409].includes(status)))
        t.equal(await countAdmins(second.token), 1)
        const winner = replies.findIndex(({ status }) => status < 300) % 2 === 0 ? left : right
        t.match(await setRole(winner, first, 'admin'), { status: 200 })
        t.match(await demote(first, winner), { status: 200 })
      }
    })
  }

  t.test('one of two administrators who resign at the same time is left', async (t) => {
    await warmUp()
    for (const [round, [one, another]] of (
      [
        [remove, remove],
        [demote, demote],
        [demote, remove],
      ] as const
    ).entries()) {
      const left = await createAdmin(guarded, first, `leaving-left${round}`)
      const right = await createAdmin(guarded, first, `leaving-right${round}`)
      t.match(await demote(left, first), { status: 200 })
      const replies = await Promise.all([one(left, left), another(right, right)])
      t.equal(countStatuses(replies)[409], 1)
      t.equal(await countAdmins(second.token), 1)
      const stayed = replies[0].status === 409 ? left : right
      t.match(await setRole(stayed, first, 'admin'), { status: 200 })
      t.match(await demote(first, stayed), { status: 200 })
    }
  })
})

t.test('listUserTasks', async (t) => {
  const owner = await service.register('tasks-owner')
  const helper = await service.register('tasks-helper')
  const stranger = await service.register('tasks-stranger')
  const createTask = async ({ token }: Account, body: object) =>
    (await service.expect('createTask', 201, { token, body })).body
  const { body: tag } = await service.expect('createTag', 201, {
    token: owner.token,
    body: { name: 'chosen' },
  })
  const own = await createTask(owner, { title: 'Own', priority: 'high' })
  const ownHelped = await createTask(owner, {
    title: 'Own, helped',
    assignee_id: helper.id,
    status: 'done',
    tag_ids: [tag.id],
  })
  const helped = await createTask(helper, { title: 'Helped by the owner', assignee_id: owner.id })
  const helpersOwn = await createTask(helper, { title: 'Apart' })
  const both = await createTask(owner, { title: 'Both', assignee_id: owner.id })
  const strangers = await createTask(stranger, { title: 'Shared', assignee_id: helper.id })
  const list = async ({ token }: Account, user: Account, query: NonNullable<Call['query']> = {}) =>
    (await service.expect('listUserTasks', 200, { token, params: paramsOf(user), query })).body

  t.test("200: the user's own and assigned tasks that the caller can see", async (t) => {
    t.strictSame((await list(owner, owner)).items, [both, helped, ownHelped, own])
    t.strictSame((await list(admin, owner)).items, [both, helped, ownHelped, own])
    t.strictSame((await list(helper, owner)).items, [helped, ownHelped])
    t.strictSame((await list(owner, helper)).items, [helped, ownHelped])
    t.strictSame((await list(helper, helper)).items, [strangers, helpersOwn, helped, ownHelped])
    t.strictSame((await list(stranger, helper)).items, [strangers])
    t.strictSame((await list(owner, admin)).items, [])
    t.strictSame(await list(stranger, owner, { include_total: true }), {
      items: [],
      next_cursor: null,
      prev_cursor: null,
      total: 0,
    })
    const { body, headers } = await service.expect(
      'listUserTasks',
      200,
      byAdmin({ params: paramsOf(helper), query: { include_total: true } }),
    )
    const items = [strangers, helpersOwn, helped, ownHelped]
    t.strictSame(body, { items, next_cursor: null, prev_cursor: null, total: 4 })
    const path = `/users/${helper.id}/tasks`
    t.equal(headers.get('link'), `<${path}?limit=50&include_total=true>; rel="first"`)
  })

  t.test('200 with filters', async (t) => {
    t.strictSame((await list(owner, owner, { status: ['done', 'in_progress'] })).items, [ownHelped])
    t.strictSame((await list(owner, owner, { priority: 'high' })).items, [own])
    t.strictSame((await list(owner, owner, { assignee_id: [owner.id, helper.id] })).items, [
      both,
      helped,
      ownHelped,
    ])
    t.strictSame((await list(owner, owner, { tag_id: tag.id })).items, [ownHelped])
    t.strictSame((await list(owner, owner, { q: 'OWN', sort: '-created_at' })).items, [
      helped,
      ownHelped,
      own,
    ])
    t.strictSame((await list(owner, owner, { q: 'own,', status: 'done' })).items, [ownHelped])
    t.strictSame((await list(owner, owner, { q: '%' })).items, [])
    t.strictSame(
      (await list(owner, owner, { q: 'O', assignee_id: owner.id })).items,
      [helped, both],
      'the start of a word ranks first',
    )
  })
})
