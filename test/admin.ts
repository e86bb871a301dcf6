import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { environmentFor } from './fixture/database.ts'
import { entriesOf, recordsOf } from './fixture/exports.ts'
import { browserAt, clientId, publicUrl, returnTo, startIssuer } from './fixture/issuer.ts'
import { freePort } from './fixture/ports.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'

/** `npm run admin`, while the service runs on a database server. */

const operate = (name: string): string =>
  fileURLToPath(new URL(`../scripts/operate/${name}.ts`, import.meta.url))
const program = operate('admin')
const environment = await environmentFor(t)
const password = 'correct horse battery'

t.test('ADMIN_EMAIL creates the first administrator, once', async (t) => {
  const password = 'the first password'
  const environment = {
    ...(await environmentFor(t)),
    ADMIN_EMAIL: 'First@Example.com',
    ADMIN_PASSWORD: password,
  }
  const body = { email: 'first@example.com', password }
  const start = async (
    changes: Readonly<Record<string, string>>,
    use: (client: ReturnType<typeof createClient>) => Promise<void>,
  ) => {
    const service = await startProcess(t, { ...environment, ...changes })
    await use(createClient(service.url))
    t.equal(await service.end('SIGTERM'), 0)
  }
  await start({}, async ({ expect, register }) => {
    const { user } = (await expect('login', 200, { body })).body
    t.match(user, { username: 'admin', role: 'admin', email: 'first@example.com' })
    t.equal((await register('second')).user.role, 'member')
  })
  await start({ ADMIN_PASSWORD: 'another password' }, async ({ expect }) => {
    await expect('login', 200, { body })
    await expect('login', 401, { body: { ...body, password: 'another password' } })
  })
})

/** Runs `npm run admin -- user …`. `input`, a password, is its standard input. */
const admin = (parameters: string, input?: string) =>
  runProcess(environment, program, ['user', ...parameters.split(' ')], input)

const { call, expect, register } = createClient((await startProcess(t, environment)).url)

const signIn = async (email: string, secret: string, status: 200 | 401 = 200) => {
  const answer = await call('login', { body: { email, password: secret } })
  t.equal(answer.status, status, `${email} signs in with ${secret}`)
  return answer.body as { access_token: string; user: { id: string; role: string } }
}

t.test('create, also the first account', async (t) => {
  const created = await admin('create ada Ada@Example.com --admin --display-name Ada', `${password}\n`)
  t.match(created.output, /^Created admin ada \([-0-9a-f]{36}\)$/m)
  t.equal(created.code, 0)
  t.equal((await signIn('ada@example.com', password)).user.role, 'admin')
  const eve = await register('eve')
  t.equal(
    (await signIn(eve.email, eve.password)).user.role,
    'member',
    'the first to register is no administrator',
  )

  const again = await admin('create ada other@example.com', password)
  t.match(again.output, /^admin: .*username/m)
  t.equal(again.code, 1)
  const bad = await admin('create Bob bob', 'short')
  t.match(bad.output, /username must/)
  t.match(bad.output, /email must/)
  t.match(bad.output, /password must have at least/)
  t.equal(bad.code, 1)
})

t.test('list shows all accounts, as text or JSON', async (t) => {
  const { output, code } = await admin('list --json')
  t.equal(code, 0)
  const users = JSON.parse(output.slice(output.indexOf('['))) as { username: string; email: string }[]
  t.match(users, [
    { username: 'eve', role: 'member' },
    { username: 'ada', role: 'admin', email: 'ada@example.com', display_name: 'Ada' },
  ])
  t.match((await admin('list')).output, /^ada\tada@example\.com\tadmin$/m)
})

t.test('set-password ends the sessions', async (t) => {
  const { access_token: token } = await signIn('ada@example.com', password)
  const set = await admin('set-password ADA@example.com', 'another horse battery\r\n')
  t.match(set.output, /^Set the password/m)
  t.equal(set.code, 0)
  await expect('getCurrentUser', 401, { token })
  await signIn('ada@example.com', password, 401)
  await signIn('ada@example.com', 'another horse battery')
  const short = await admin('set-password ada', 'short')
  t.match(short.output, /password must have at least/)
  t.equal(short.code, 1)
})

t.test('make-admin, and the audit events of the commands', async (t) => {
  t.equal((await admin('make-admin eve')).code, 0)
  const { access_token: token, user } = await signIn('ada@example.com', 'another horse battery')
  const { body } = await expect('listAuditEvents', 200, { token, query: { limit: 200 } })
  const shell = body.items.filter(({ request_id }) => request_id === 'shell')
  t.match(
    shell.map(({ action, actor_id, address, session_id }) => [action, actor_id, address, session_id]),
    [
      ['user.role_changed', null, null, null],
      ['password.set', null, null, null],
      ['user.created', null, null, null],
    ],
  )
  t.equal(shell.at(-1)?.user_id, user.id)
})

t.test('disable and enable, but not the last administrator', async (t) => {
  const disabled = await admin('disable eve')
  t.match(disabled.output, /^Disabled eve/m)
  t.match((await admin('list')).output, /^eve\teve@example\.com\tadmin\tdisabled$/m)
  t.equal((await admin('enable eve')).code, 0)
  await admin('disable eve')
  const last = await admin('disable ada')
  t.match(last.output, /last administrator/)
  t.equal(last.code, 1)
  await admin('enable eve')
})

t.test('set-quota sets and resets quotas', async (t) => {
  const set = await admin('set-quota eve --attachment-bytes 1000 --tasks unlimited')
  t.match(set.output, /^Set the quota of eve$/m)
  const quotasOf = async () => {
    const { output } = await admin('list --json')
    const users = JSON.parse(output.slice(output.indexOf('['))) as {
      username: string
      attachment_quota_bytes: number | null
      task_quota: number | null
    }[]
    const eve = users.find(({ username }) => username === 'eve')
    return [eve?.attachment_quota_bytes, eve?.task_quota]
  }
  t.strictSame(await quotasOf(), [1000, 0])
  t.equal((await admin('set-quota eve --attachment-bytes default')).code, 0)
  t.strictSame(await quotasOf(), [null, 0])
  for (const quota of ['many', '0']) {
    const refused = await admin(`set-quota eve --tasks ${quota}`)
    t.match(
      refused.output,
      new RegExp(`^admin: ${quota} is not a quota. Expected a whole number from 1,`, 'm'),
    )
    t.equal(refused.code, 1)
  }
  const tooLarge = await admin('set-quota eve --tasks 2147483648')
  t.match(tooLarge.output, /task_quota must be/)
  t.equal(tooLarge.code, 1)
  t.match((await admin('set-quota eve')).output, /There is no quota to set/)
})

t.test('export writes what a user sees, or a project that they manage, to a new file', async (t) => {
  const folder = await temporaryFolder(t)
  const to = join(folder, 'eve.zip')
  const exportTo = (file: string, ...parameters: readonly string[]) =>
    runProcess(environment, program, ['export', ...parameters, '--to', file])
  await admin('set-password eve', password)
  const { access_token: token } = await signIn('eve@example.com', password)
  const create = async (body: object) => (await expect('createTask', 201, { token, body })).body.id
  const project = (await expect('createProject', 201, { token, body: { name: 'Website' } })).body.id
  const own = await create({ title: 'Of Eve' })
  const shared = await create({ title: 'In the project', project_id: project })
  await expect('createReminder', 201, {
    token,
    params: { task_id: own },
    body: { at: '2090-01-01T00:00:00Z' },
  })
  const upload = { token, params: { task_id: own }, body: fileForm('the content of a file') }
  await expect('addTaskAttachment', 201, upload)
  const ids = { own, shared, project }

  const done = await exportTo(to, 'EVE@example.com')
  t.match(done.output, /^Exported 5 records of EVE@example\.com to .*eve\.zip$/m)
  t.equal(done.code, 0)
  t.equal((await stat(to)).mode & 0o777, 0o600)
  t.strictSame(await readdir(folder), ['eve.zip'], 'nothing else is left')
  const entries = await entriesOf(await readFile(to))
  const tasks = recordsOf(entries).tasks ?? []
  t.strictSame(new Set(tasks.map(({ id }) => id)), new Set([ids.own, ids.shared]))
  t.ok(
    tasks.every(({ reminders }) => Array.isArray(reminders) && reminders.length === 0),
    'no reminders',
  )
  const file = [...entries].find(([name]) => name.startsWith('files/'))
  t.equal(String(file?.[1]), 'the content of a file')

  const before = await readFile(to)
  const again = await exportTo(to, 'eve')
  t.match(again.output, /^admin: .*eve\.zip exists already, and is not overwritten$/m)
  t.equal(again.code, 1)
  t.same(await readFile(to), before)

  const website = join(folder, 'website.zip')
  t.equal((await exportTo(website, 'eve', '--project', ids.project)).code, 0)
  const projectTasks = recordsOf(await entriesOf(await readFile(website))).tasks ?? []
  t.strictSame(
    projectTasks.map(({ id }) => id),
    [ids.shared],
  )

  for (const [reason, ...parameters] of [
    [/project_id must/, 'eve', '--project', 'x'],
    [/The resource does not exist/, 'ada', '--project', ids.project],
  ] as const) {
    const refused = await exportTo(join(folder, 'refused.zip'), ...parameters)
    t.match(refused.output, reason)
    t.equal(refused.code, 1)
  }
  t.match((await runProcess(environment, program, ['export', 'eve'])).output, /--to <file> is missing/)
  t.strictSame((await readdir(folder)).toSorted(), ['eve.zip', 'website.zip'], 'a refused one leaves no file')

  const ada = await signIn('ada@example.com', 'another horse battery')
  const { body } = await expect('listAuditEvents', 200, { token: ada.access_token, query: { limit: 200 } })
  const audited = body.items.filter(({ action }) => action.startsWith('export.'))
  t.match(
    audited.map(({ action, actor_id, request_id }) => [action, actor_id, request_id]),
    ['downloaded', 'requested', 'downloaded', 'requested'].map((what) => [`export.${what}`, null, 'shell']),
  )
  t.ok(audited.every(({ user_id }) => user_id !== ada.user.id))
})

t.test('import reads a file for a user, and gives comments to their authors', async (t) => {
  const folder = await temporaryFolder(t)
  const file = join(folder, 'board.json')
  const comment = (author: string) => ({
    id: `by-${author}`,
    type: 'commentCard',
    date: '2026-02-01T10:00:00.000Z',
    idMemberCreator: author,
    data: { text: `By ${author}`, card: { id: 'card' } },
  })
  const board = {
    id: '65a0000000000000000000b0',
    name: 'Board',
    members: ['m1', 'm2', 'm3'].map((id) => ({ id, fullName: `Member ${id}`, username: id })),
    lists: [{ id: 'list', name: 'First', pos: 1 }],
    cards: [{ id: 'card', name: 'Card', idList: 'list', pos: 1, idMembers: ['m1'] }],
    actions: ['m1', 'm2', 'm3'].map(comment),
  }
  await writeFile(file, JSON.stringify(board))
  await writeFile(join(folder, 'notes.bin'), Uint8Array.of(0, 1, 2, 3))
  const run = (...parameters: readonly string[]) =>
    runProcess(environment, program, ['import', ...parameters])
  const refused = async (reason: RegExp, ...parameters: readonly string[]) => {
    const { code, output } = await run(...parameters)
    t.match(output, reason)
    t.equal(code, 1)
  }

  await refused(/^admin: There is no user nobody$/m, 'create', 'nobody', file)
  await refused(
    /^admin: .*missing\.json cannot be read: ENOENT/m,
    'create',
    'eve',
    join(folder, 'missing.json'),
  )
  await refused(
    /^admin: The import [-0-9a-f]{36} has failed: unknown_format$/m,
    'create',
    'eve',
    join(folder, 'notes.bin'),
  )
  const created = await run('create', 'eve', file, '--format', 'trello')
  t.equal(created.code, 0)
  t.match(created.output, /board\.json has the format trello$/m)
  t.match(created.output, /^projects\t1$[^]*^tasks\t1$[^]*^comments\t3$[^]*^refused\t0$/m)
  t.match(created.output, /^user\tm2\tm2\tMember m2$/m)
  const [, id = ''] = /import run eve ([-0-9a-f]{36})$/m.exec(created.output) ?? []

  await refused(/^admin: The file has no user m9$/m, 'run', 'eve', id, '--author', 'm9=ada')
  await refused(
    /^admin: m1 is not a mapping\. Expected <source id>=<user>$/m,
    'run',
    'eve',
    id,
    '--user',
    'm1',
  )
  const done = await run('run', 'eve', id, '--user', 'm1=ada', '--author', 'm2=EVE@example.com')
  t.match(done.output, /^Imported board\.json for eve$[^]*^created\t6$/m)
  t.equal(done.code, 0)

  const ada = await signIn('ada@example.com', 'another horse battery')
  const { access_token: token, user: eve } = await signIn('eve@example.com', password)
  const { items: tasks } = (await expect('listTasks', 200, { token, query: { q: 'Card' } })).body
  const [{ id: task_id, owner_id, assignee_id } = { id: '', owner_id: '', assignee_id: null }] = tasks
  t.strictSame([owner_id, assignee_id], [eve.id, ada.user.id])
  const { items } = (await expect('listTaskComments', 200, { token, params: { task_id } })).body
  t.strictSame(
    new Set(items.map(({ body, author_id, author_name }) => [body, author_id, author_name].join())),
    new Set([`By m1,${ada.user.id},`, `By m2,${eve.id},`, 'By m3,,Member m3']),
  )
  const found = (await expect('getImport', 200, { token, params: { import_id: id } })).body
  t.match(found, { status: 'finished', file_name: 'board.json', users: [{ source_id: 'm1' }] })
  const audited = await expect('listAuditEvents', 200, {
    token: ada.access_token,
    query: { action: ['import.created', 'import.run'], limit: 200 },
  })
  t.strictSame(
    audited.body.items.map(({ action, actor_id, user_id, request_id }) => [
      action,
      actor_id,
      user_id,
      request_id,
    ]),
    ['run', 'created', 'created'].map((what) => [`import.${what}`, null, eve.id, 'shell']),
  )
})

t.test('oidc unlink', async (t) => {
  const [issuer, other] = [await startIssuer(), await startIssuer()]
  const folder = await temporaryFolder(t)
  const file = join(folder, 'oidc.json')
  const providers = [
    { id: 'mock', issuer: issuer.url, client_id: clientId },
    { id: 'other', issuer: other.url, client_id: clientId },
  ]
  await writeFile(file, JSON.stringify({ providers, return_to: [returnTo] }))
  const port = await freePort()
  // The service logs PUBLIC_URL.
  const client = createClient(`http://127.0.0.1:${port}`)
  const environment = {
    ...(await environmentFor(t)),
    OIDC_CONFIG: file,
    OIDC_CREATE: 'always',
    PORT: String(port),
    PUBLIC_URL: publicUrl,
  }
  const unlink = (parameters: string) =>
    runProcess(environment, program, ['oidc', 'unlink', ...parameters.split(' ')])
  await startProcess(t, environment)

  const { password: firstPassword } = await client.register('first')

  /** Signs in with an identity, and links another one. */
  issuer.claims = { sub: 'ada', email: 'ada@example.com', email_verified: true, preferred_username: 'ada' }
  other.claims = { sub: 'ada-elsewhere' }
  const body = await browserAt(client).code()
  const { access_token: token } = (await client.expect('exchangeOidcCode', 200, { body })).body
  await client.expect('linkIdentity', 201, { token, body: await browserAt(client, 'other').code('link') })
  const exchange = await browserAt(client, 'other').code()
  const elsewhere = (await client.expect('exchangeOidcCode', 200, { body: exchange })).body
  t.equal(elsewhere.user.username, 'ada')
  const ada = { token, elsewhere: elsewhere.access_token }

  const one = await unlink('ada other')
  t.match(one.output, `Unlinked the identity of ${other.url} from ada, and ended its sessions`)
  t.notMatch(one.output, /no way to sign in/)
  t.equal(one.code, 0)
  await client.expect('getCurrentUser', 200, { token: ada.token })
  await client.expect('getCurrentUser', 401, { token: ada.elsewhere })

  const none = await unlink('ada other')
  t.match(none.output, /^admin: ada has no identity of other$/m)
  t.equal(none.code, 1)
  t.match((await unlink('ada elsewhere')).output, /^admin: OIDC_CONFIG has no provider elsewhere$/m)

  const all = await unlink('ADA@example.com')
  t.match(all.output, `Unlinked the identity of ${issuer.url} from ADA@example.com, and ended its sessions`)
  t.match(all.output, /^ADA@example\.com has no way to sign in now/m)
  t.equal(all.code, 0)
  await client.expect('getCurrentUser', 401, { token: ada.token })
  const credentials = { username: 'first', password: firstPassword }
  const { access_token: again } = (await client.expect('login', 200, { body: credentials })).body
  const events = (await client.expect('listAuditEvents', 200, { token: again })).body.items
  t.match(
    events.flatMap(({ action, actor_id, request_id }) =>
      action === 'identity.unlinked' ? [[actor_id, request_id]] : [],
    ),
    [
      [null, 'shell'],
      [null, 'shell'],
    ],
  )
  t.match((await unlink('ada')).output, /^admin: ada has no identity$/m)
  const wrong = await unlink('ada other mock')
  t.match(wrong.output, /^admin: "oidc unlink" takes <user> \[<provider>\], not 3 arguments$/m)
  t.equal(wrong.code, 2)
})

t.test('help is printed with exit code 0', async (t) => {
  for (const args of [
    ['help'],
    ['-h'],
    ['--help'],
    ['user', 'create', '--help'],
    ['storage', 'check', '--help'],
  ]) {
    const { code, output } = await runProcess(environment, program, args)
    t.equal(code, 0, args.join(' '))
    t.match(output, /^Usage: npm run --silent admin/)
  }
  for (const [command, name] of [
    ['backup', 'backup'],
    ['carry-over', 'carry-over'],
    ['doctor', 'doctor'],
    ['migrate-to', 'migrate:to'],
    ['restore', 'restore'],
  ] as const) {
    const { code, output } = await runProcess({}, operate(command), ['--help'])
    t.equal(code, 0, command)
    t.match(output, `Usage: npm run ${name}`)
  }
})

t.test('exit code 1 for refused commands, 2 for wrong usage', async (t) => {
  const nobody = await admin('make-admin nobody')
  t.match(nobody.output, /^admin: There is no user nobody$/m)
  t.equal(nobody.code, 1)
  const factor = await admin('reset-second-factor ada')
  t.match(factor.output, /^admin: ada has no second factor$/m)
  t.equal(factor.code, 1)
  for (const wrong of ['create ada', 'list --admin', 'set-password ada secret', 'nothing']) {
    const { code, output } = await admin(wrong)
    t.equal(code, 2, wrong)
    t.match(output, /^Usage: /)
  }
  t.match((await admin('nothing')).output, /^admin: There is no command "user nothing"$/m)
  t.match(
    (await admin('create ada')).output,
    /^admin: "user create" takes <username> <email>, not 1 arguments$/m,
  )
  t.match((await admin('list --admin')).output, /^admin: "user list" has no option --admin$/m)
})
