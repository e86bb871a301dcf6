import { createHash } from 'node:crypto'
import t from 'tap'
import type { components } from '../../generated/openapi.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import type { ProjectRole } from '../../src/domain/shared/project-roles.ts'
import { noMailer } from '../../src/mail/mailer.ts'
import { accountActions, withoutIds } from '../fixture/accounts.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'
import { projectRows } from '../fixture/project-rows.ts'
import { projectActions } from '../fixture/projects.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Account, type BodyAt, type Reply, type Service, startService } from '../fixture/service.ts'
import { countStatuses, unknownId } from '../fixture/tasks.ts'

type Project = components['schemas']['Project']

const service = await startService(t, { config: { invitationsPerDay: 1_000 } })
const { db } = service.deps
const admin = await service.register('admin')
const { createApiToken, setRole } = accountActions(service, admin)
const { createProject, setMember, removeMember } = projectActions(service)
const manager = await service.register('manager')
const guest = await service.register('guest')

const shared = { db, storage: service.deps.storage }
const closed = await startService(t, { ...shared, config: { registration: 'closed', invitations: 'open' } })
const closedRegistered = await startService(t, { ...shared, config: { registration: 'closed' } })
const off = await startService(t, { ...shared, config: { invitations: 'off' } })

let count = 0
const newAddress = (): string => `invited-${(count += 1)}@example.com`

const newProject = (account: Account = manager): Promise<Project> =>
  createProject(account, `Project ${(count += 1)}`)

const roleOf = async (project_id: string, { token }: Pick<Account, 'token'>): Promise<string | null> => {
  const { status, body } = await service.call('getProject', { token, params: { project_id } })
  return status === 200 ? (body as Project).role : null
}

const create = (
  project_id: string,
  fields: object = {},
  { token }: Pick<Account, 'token'> = manager,
  at: Service = service,
) =>
  at.call('createInvitation', {
    token,
    params: { project_id },
    body: { email: newAddress(), role: 'editor', ...fields },
  })

interface Invited {
  readonly invitation: BodyAt<'createInvitation', 201>
  readonly token: string
}

/** Creates an invitation. Returns it with the token from its mail. */
const invite = async (
  project_id: string,
  fields: { readonly email?: string; readonly role?: ProjectRole } = {},
  { token }: Pick<Account, 'token'> = manager,
): Promise<Invited> => {
  const before = service.invitations.length
  const body = { email: newAddress(), role: 'editor', ...fields }
  const created = await service.expect('createInvitation', 201, { token, params: { project_id }, body })
  const mail = service.invitations[before]
  if (mail === undefined) throw new Error('No mail was sent')
  return { invitation: created.body, token: mail.token }
}

const lookUp = (token: string, at: Service = service) => at.call('lookUpInvitation', { body: { token } })

const accept = (token: string, { token: bearer }: Pick<Account, 'token'> = guest, at: Service = service) =>
  at.call('acceptInvitation', { token: bearer, body: { token } })

const list = async (project_id: string, { token }: Pick<Account, 'token'> = manager) =>
  (await service.expect('listProjectInvitations', 200, { token, params: { project_id } })).body.items

const revoke = ({ id, project_id }: Invited['invitation'], { token }: Pick<Account, 'token'> = manager) =>
  service.call('revokeInvitation', { token, params: { project_id, invitation_id: id } })

const newcomer = (name: string) => ({
  username: name,
  email: `${name}@example.com`,
  password: 'a good password',
})

const isInvalidToken = { status: 422, body: { code: 'invitation_invalid', errors: [{ pointer: '/token' }] } }
const isOff = { status: 403, body: { code: 'invitations_disabled' } }

t.test('createInvitation', async (t) => {
  t.test('201: sends a token by mail, and stores only its hash', async (t) => {
    const project = await newProject()
    const { invitation, token } = await invite(project.id, { email: 'Grace@Example.com', role: 'commenter' })
    t.match(token, /^twi_[\w-]{43}$/)
    t.match(service.invitations.at(-1), {
      to: 'grace@example.com',
      projectName: project.name,
      invitedByName: manager.user.display_name,
    })
    t.match(invitation, {
      project_id: project.id,
      email: 'grace@example.com',
      role: 'commenter',
      invited_by: manager.id,
    })
    t.equal(Date.parse(invitation.expires_at) - Date.parse(invitation.created_at), 7 * 86_400_000)
    t.strictSame(await list(project.id), [invitation])
    const stored = await db.run(
      `select hash, invitation::text || (select coalesce(string_agg(body, ''), '') from idempotency_keys) as text
       from invitations invitation where id = $1`,
      [invitation.id],
    )
    t.notMatch(stored[0]?.text, token.slice(4))
    t.strictSame(stored[0]?.hash, createHash('sha256').update(token).digest())
  })

  t.test('201: indistinguishable for addresses with an account, of a member, or unknown', async (t) => {
    const project = await newProject()
    await setMember(manager, project, guest, 'viewer')
    const hidden = new Set(['location', 'content-length', 'date', 'x-request-id'])
    const contentOf = ({ status, headers, body }: Reply): object => {
      const { project_id, role, invited_by, ...own } = body as Invited['invitation']
      const shown = [...headers].filter(([name]) => !hidden.has(name))
      return { status, headers: shown, body: { project_id, role, invited_by }, others: Object.keys(own) }
    }
    const stranger = contentOf(await create(project.id))
    for (const { email } of [admin, guest, manager])
      t.strictSame(contentOf(await create(project.id, { email })), stranger)
  })

  t.test('201: replaces an earlier invitation of the same address', async (t) => {
    const project = await newProject()
    const email = newAddress()
    const first = await invite(project.id, { email, role: 'manager' })
    const second = await invite(project.id, { email: email.toUpperCase(), role: 'viewer' })
    t.match(await accept(first.token), isInvalidToken)
    t.match(await revoke(first.invitation), { status: 404 })
    t.strictSame(await list(project.id), [second.invitation])
    t.match(await accept(second.token), { status: 200, body: { role: 'viewer' } })
  })

  t.test('201: in an archived project', async (t) => {
    const project = await newProject()
    await projectRows(db).setArchived(project.id, true)
    const { token } = await invite(project.id)
    t.match(await accept(token), { status: 200, body: { role: 'editor' } })
  })

  t.test('403: invitations are disabled, or no mailer is configured', async (t) => {
    const project = await newProject()
    t.match(await create(project.id, {}, manager, off), isOff)
    const withoutMail = await startService(t, { ...shared, openMailer: noMailer })
    t.match(await create(project.id, {}, manager, withoutMail), { ...isOff, body: { detail: /mail/ } })
    t.strictSame(await list(project.id), [])
  })

  t.test('429: the daily limit of a user counts revoked and replaced invitations', async (t) => {
    const limited = await startService(t, { ...shared, config: { invitationsPerDay: 3 } })
    const sender = await service.register('sender')
    const send = async (fields: object = {}) => create((await newProject(sender)).id, fields, sender, limited)
    const email = newAddress()
    const first = await send({ email })
    t.equal((await revoke(first.body as Invited['invitation'], sender)).status, 204)
    const { project_id } = first.body as Invited['invitation']
    t.equal((await create(project_id, { email }, sender, limited)).status, 201)
    const replies = await Promise.all([send(), send(), send()])
    t.strictSame(countStatuses(replies), { 201: 1, 429: 2 })
    const refused = replies.find(({ status }) => status === 429)
    t.match(refused, { body: { code: 'too_many_requests' } })
    t.equal(refused?.headers.get('retry-after'), '86400')
    await db.run(
      `update invitation_mails set created_at = created_at - interval '25 hours' where invited_by = $1`,
      [sender.id],
    )
    t.equal((await send()).status, 201)
  })

  t.test('429: five invitations per mailbox and day, from all users', async (t) => {
    const email = newAddress()
    const [user = '', domain = ''] = email.split('@')
    const spellings = [
      [manager, email],
      [admin, ` ${email.toUpperCase()}`],
      [guest, `${user}+a@${domain}`],
      [manager, `i.${user.slice(1)}@${domain}`],
      [admin, email],
    ] as const
    for (const [account, spelling] of spellings)
      await invite((await newProject(account)).id, { email: spelling }, account)
    const before = service.invitations.length
    for (const spelling of [email, `${user}+b@${domain}`, `in.${user.slice(2)}@${domain}`])
      t.match(await create((await newProject()).id, { email: spelling }), { status: 429 }, spelling)
    for (const spelling of [`<${email}>`, `${email}>`, `"${user}"@${domain}`, `${user}(x)@${domain}`])
      t.match(await create((await newProject()).id, { email: spelling }), isInvalid('/email'), spelling)
    t.equal(service.invitations.length, before)
    await db.run(
      `update invitation_mails set created_at = created_at - interval '25 hours' where mailbox = $1`,
      [email],
    )
    t.equal((await create((await newProject()).id, { email })).status, 201)
  })

  t.test('429: concurrent invitations of one mailbox by several users', async (t) => {
    const { db, options } = await openTestDatabase(t)
    const sql = createSqlClient(options, { max: 2 })
    t.teardown(() => sql.end())
    const other = await startService(t, { db })
    const senders = await Promise.all(['a', 'b', 'c'].map(async (name) => other.register(`sender-${name}`)))
    const projects = await Promise.all(
      senders.map(async ({ token }) =>
        other.expect('createProject', 201, { token, body: { name: 'Shared' } }),
      ),
    )
    const email = newAddress()
    const inviteBy = async (sender: number) =>
      create(projects[sender]?.body.id ?? '', { email }, senders[sender], other)
    for (const sender of [0, 1, 2, 0]) t.equal((await inviteBy(sender)).status, 201)
    const allWait = async () => {
      const waiting = await sql`
        select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
      return waiting.length === senders.length
    }
    const { replies } = await sql.begin(async (transaction) => {
      // The emails have been counted when an invitation waits to replace an earlier one.
      await transaction`select from invitations for update`
      const begun = senders.map((_, index) => inviteBy(index))
      await eventually('all have begun', allWait)
      return { replies: begun }
    })
    t.strictSame(countStatuses(await Promise.all(replies)), { 201: 1, 429: 2 })
  })
})

t.test('listProjectInvitations', async (t) => {
  t.test('200: invitations of this project, newest first, for managers and administrators', async (t) => {
    const project = await newProject()
    await invite((await newProject()).id)
    const first = await invite(project.id)
    const second = await invite(project.id, {}, admin)
    const expected = [second.invitation, first.invitation]
    t.strictSame(await list(project.id), expected)
    t.strictSame(await list(project.id, admin), expected)
  })

  t.test('200: only invitations that can be accepted', async (t) => {
    const project = await newProject()
    await setMember(manager, project, guest, 'manager')
    await invite(project.id, {}, guest)
    const expired = await invite(project.id)
    const accepted = await invite(project.id)
    const { invitation } = await invite(project.id)
    await accept(accepted.token, admin)
    await db.run(`update invitations set expires_at = now() - interval '1 ms' where id = $1`, [
      expired.invitation.id,
    ])
    await setMember(manager, project, guest, 'editor')
    t.strictSame(await list(project.id), [invitation])
  })
})

t.test('revokeInvitation', async (t) => {
  t.test('204: by another manager, which invalidates the token', async (t) => {
    const project = await newProject()
    await setMember(manager, project, guest, 'manager')
    const { invitation, token } = await invite(project.id)
    t.match(await revoke(invitation, guest), { status: 204, body: null })
    t.match(await accept(token), isInvalidToken)
    t.strictSame(await list(project.id), [])
    t.match(await revoke(invitation), { status: 404 })
  })

  t.test('404: an unknown invitation, one of another project, or an invisible project', async (t) => {
    const [project, other] = [await newProject(), await newProject()]
    const { invitation, token } = await invite(project.id)
    t.match(await revoke({ ...invitation, id: unknownId }), { status: 404 })
    t.match(await revoke({ ...invitation, project_id: other.id }), { status: 404 })
    t.match(await revoke(invitation, guest), { status: 404 })
    t.equal((await lookUp(token)).status, 200)
  })
})

t.test('lookUpInvitation', async (t) => {
  t.test('200: a preview, any number of times', async (t) => {
    const project = await newProject()
    const { invitation, token } = await invite(project.id, { role: 'viewer' })
    const expected = {
      project_name: project.name,
      role: 'viewer',
      invited_by_name: manager.user.display_name,
      can_register: true,
      expires_at: invitation.expires_at,
    }
    for (let index = 0; index < 2; index += 1)
      t.strictSame((await service.expect('lookUpInvitation', 200, { body: { token } })).body, expected)
    t.match((await lookUp(token, closed)).body, { can_register: true })
    t.match((await lookUp(token, closedRegistered)).body, { can_register: false })
  })

  t.test('403: invitations are disabled', async (t) => {
    const { token } = await invite((await newProject()).id)
    t.match(await lookUp(token, off), isOff)
  })

  t.test('422: expired, revoked, used and unknown tokens are indistinguishable', async (t) => {
    const project = await newProject()
    const [expired, revoked, used, other] = [
      await invite(project.id),
      await invite(project.id),
      await invite(project.id),
      await invite(project.id),
    ]
    await db.run(`update invitations set expires_at = now() - interval '1 ms' where id = $1`, [
      expired.invitation.id,
    ])
    await revoke(revoked.invitation)
    await accept(used.token)
    const unknown = await lookUp(`twi_${'A'.repeat(43)}`)
    t.match(unknown, isInvalidToken)
    const tokens = [
      expired.token,
      revoked.token,
      used.token,
      'x',
      other.token.slice(4),
      ` ${other.token}`,
      other.token.replace('twi_', 'twx_'),
      manager.token,
      manager.refreshToken,
    ]
    for (const token of tokens)
      t.strictSame(withoutIds(await lookUp(token)), withoutIds(unknown), token.slice(0, 10))
    t.equal((await lookUp(other.token)).status, 200)
  })
})

t.test('acceptInvitation', async (t) => {
  t.test('200: returns the project, and grants exactly the role of the invitation', async (t) => {
    for (const role of ['viewer', 'commenter', 'editor', 'manager'] as const) {
      const project = await newProject()
      const { token } = await invite(project.id, { role })
      const { body, headers } = await service.expect('acceptInvitation', 200, {
        token: guest.token,
        body: { token },
      })
      t.match(body, { id: project.id, name: project.name, role, member_count: 2 })
      const read = await service.expect('getProject', 200, {
        token: guest.token,
        params: { project_id: project.id },
      })
      t.strictSame(read.body, body)
      t.equal(read.headers.get('etag'), headers.get('etag'))
      t.strictSame(await list(project.id), [])
    }
    const { body } = await service.expect('getCurrentUser', 200, { token: guest.token })
    t.equal(body.role, 'member')
  })

  t.test('200: a member keeps the higher role, and the token is used up', async (t) => {
    const project = await newProject()
    const steps = [
      ['editor', 'editor'],
      ['viewer', 'editor'],
      ['manager', 'manager'],
      ['editor', 'manager'],
    ] as const
    for (const [role, expected] of steps) {
      const { token } = await invite(project.id, { role })
      t.match(await accept(token), { status: 200, body: { role: expected } })
      t.match(await accept(token), isInvalidToken, 'the token is used up')
    }
    const { token } = await invite(project.id, { role: 'viewer' }, guest)
    t.match(await accept(token, manager), { status: 200, body: { role: 'manager' } })
  })

  t.test('200: the higher role of team and invitation applies', async (t) => {
    const project = await newProject()
    const { newTeam, setTeam, removeTeam } = projectRows(db)
    const team = await newTeam(guest)
    await setTeam(project.id, team, 'editor')
    const { token } = await invite(project.id, { role: 'viewer' })
    t.match(await accept(token), { status: 200, body: { role: 'editor', member_count: 2 } })
    await removeTeam(team)
    t.equal(await roleOf(project.id, guest), 'viewer')
  })

  t.test('200 for one of several concurrent acceptances, 422 for the others', async (t) => {
    const project = await newProject()
    const people = [guest, admin, await service.register('racer'), await service.register('rival')]
    const { token } = await invite(project.id)
    const replies = await Promise.all(people.map((account) => accept(token, account)))
    t.strictSame(countStatuses(replies), { 200: 1, 422: people.length - 1 })
    const { body } = await service.expect('getProject', 200, {
      token: manager.token,
      params: { project_id: project.id },
    })
    t.equal(body.member_count, 2)
  })

  t.test('either a concurrent acceptance or revocation succeeds, not both', async (t) => {
    const project = await newProject()
    for (let index = 0; index < 5; index += 1) {
      const { invitation, token } = await invite(project.id, { role: 'viewer' })
      const [accepted, revoked] = await Promise.all([accept(token), revoke(invitation)])
      t.ok(
        (accepted.status === 200 && revoked.status === 404) ||
          (accepted.status === 422 && revoked.status === 204),
        `${accepted.status} ${revoked.status}`,
      )
    }
  })

  t.test('403: an API token, and if invitations are disabled', async (t) => {
    const { token } = await invite((await newProject()).id)
    const program = await createApiToken(guest, { scopes: ['projects:write'] })
    t.match(await accept(token, program), { status: 403, body: { code: 'insufficient_scope' } })
    t.match(await accept(token, guest, off), isOff)
    t.equal((await accept(token)).status, 200)
  })

  t.test('422: the sender can no longer manage the project', async (t) => {
    const newSender = async (name: string): Promise<Invited & { sender: Account; project: Project }> => {
      const project = await newProject()
      const sender = await service.register(name)
      await setMember(manager, project, sender, 'manager')
      return { ...(await invite(project.id, {}, sender)), sender, project }
    }
    const demoted = await newSender('demoted')
    await setMember(manager, demoted.project, demoted.sender, 'editor')
    t.match(await accept(demoted.token), isInvalidToken)
    await setMember(manager, demoted.project, demoted.sender, 'manager')
    t.equal((await lookUp(demoted.token)).status, 200, 'valid again while the sender is a manager')

    const removed = await newSender('removed')
    await removeMember(manager, removed.project, removed.sender)
    t.match(await accept(removed.token), isInvalidToken)

    const deleted = await newSender('deleted')
    await service.expect('deleteUser', 204, {
      token: deleted.sender.token,
      params: { user_id: deleted.sender.id },
    })
    t.match(await accept(deleted.token), isInvalidToken)

    const project = await newProject()
    const deputy = await service.register('deputy')
    await setRole(deputy, 'admin')
    const { token } = await invite(project.id, {}, deputy)
    t.equal((await lookUp(token)).status, 200)
    await setRole(deputy, 'member')
    t.match(await accept(token), isInvalidToken)
    t.equal(await roleOf(project.id, guest), null)
  })

  t.test('422: the project is in the trash', async (t) => {
    const project = await newProject()
    const { token } = await invite(project.id)
    await db.run('update projects set deleted_at = now() where id = $1', [project.id])
    t.match(await accept(token), isInvalidToken)
    t.match(await lookUp(token), isInvalidToken)
    await db.run('update projects set deleted_at = null where id = $1', [project.id])
    t.match(await accept(token), { status: 200, body: { role: 'editor' } })
  })

  t.test('422: the invitation is older than 7 days', async (t) => {
    const project = await newProject()
    const { invitation, token } = await invite(project.id)
    const age = (time: string) =>
      db.run('update invitations set expires_at = expires_at - $2::text::interval where id = $1', [
        invitation.id,
        time,
      ])
    await age('7 days 1 minute')
    t.match(await accept(token), isInvalidToken)
    await age('-2 minutes')
    t.equal((await accept(token)).status, 200)
  })
})

t.test('register with an invitation', async (t) => {
  const registerAt = (at: Service, name: string, invitation_token: unknown) =>
    at.call('register', { body: { ...newcomer(name), invitation_token } })
  const isInvalidInvitation = {
    status: 422,
    body: { code: 'invitation_invalid', errors: [{ pointer: '/invitation_token' }] },
  }

  t.test('201: joins the project, with registration open or closed, and is no administrator', async (t) => {
    for (const [index, at] of [service, closed].entries()) {
      const project = await newProject()
      const { token } = await invite(project.id, { role: 'commenter' })
      const body = { ...newcomer(`newcomer-${index}`), invitation_token: token }
      const registered = (await at.expect('register', 201, { body })).body
      t.equal(registered.user.role, 'member')
      t.equal(await roleOf(project.id, { token: registered.access_token }), 'commenter')
      t.match(await registerAt(at, `second-${index}`, token), isInvalidInvitation)
    }
  })

  t.test('201 for one of several concurrent registrations, 422 for the others', async (t) => {
    const project = await newProject()
    const { token } = await invite(project.id)
    const names = ['one', 'two', 'three']
    const replies = await Promise.all(names.map((name) => registerAt(closed, `racing-${name}`, token)))
    t.strictSame(countStatuses(replies), { 201: 1, 422: 2 })
    const [row] = await db.run(`select count(*)::int from users where username like 'racing-%'`, [])
    t.equal(row?.count, 1)
  })

  t.test('403: registration closed, even with an invitation; invitations disabled', async (t) => {
    const { token } = await invite((await newProject()).id)
    const isClosed = { status: 403, body: { code: 'registration_closed' } }
    t.match(await registerAt(closedRegistered, 'uninvited', token), isClosed)
    t.match(await closed.call('register', { body: newcomer('uninvited') }), isClosed)
    t.match(await registerAt(off, 'uninvited', token), isOff)
    t.equal((await lookUp(token)).status, 200)
  })

  t.test('409 does not use up the invitation', async (t) => {
    const project = await newProject()
    const { token } = await invite(project.id)
    const taken = { ...newcomer('unlike'), email: guest.email, invitation_token: token }
    t.match(await closed.call('register', { body: taken }), { status: 409, body: { code: 'email_taken' } })
    t.equal((await accept(token)).status, 200)
  })

  t.test('400, 422: an invalid token creates no account', async (t) => {
    for (const at of [service, closed])
      for (const token of [`twi_${'A'.repeat(43)}`, 'x', manager.refreshToken])
        t.match(await registerAt(at, 'never', token), isInvalidInvitation)
    for (const token of ['', 7])
      t.match(await registerAt(closed, 'never', token), isInvalid('/invitation_token'))
    t.match(
      await service.call('login', { body: { email: 'never@example.com', password: 'a good password' } }),
      {
        status: 401,
      },
    )
  })
})

t.test('a job deletes expired invitations, and mails older than a day', async (t) => {
  const project = await newProject()
  const [expired, valid] = [await invite(project.id), await invite(project.id)]
  await db.run(`update invitations set expires_at = now() - interval '1 ms' where id = $1`, [
    expired.invitation.id,
  ])
  await db.run(`update invitation_mails set created_at = now() - interval '1 day' where id = $1`, [
    expired.invitation.id,
  ])
  await runJobs(jobDepsOf(service))
  const ids = [expired.invitation.id, valid.invitation.id]
  const left = await Promise.all(
    ['invitations', 'invitation_mails'].map((table) =>
      db.run(`select id from ${table} where id = any($1::uuid[])`, [`{${ids.join()}}`]),
    ),
  )
  t.strictSame(
    left.flat().map(({ id }) => id),
    [valid.invitation.id, valid.invitation.id],
  )
})
