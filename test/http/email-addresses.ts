import t from 'tap'
import { member, lookUp } from '../../scripts/client/contract-check.ts'
import { operations, prepareOperations, rows } from '../fixture/operations.ts'
import { projectActions } from '../fixture/projects.ts'
import { isInvalid } from '../fixture/refusals.ts'
import { type Reply, startService } from '../fixture/service.ts'

/** An address is one address however it is spelled, wherever a request has one. */

const service = await startService(t)
const admin = await service.register('admin')
const { newWorld } = await prepareOperations(service, admin)
const world = await newWorld()
const { createProject } = projectActions(service)

const schemaOf = (path: string, method: string) => {
  const operation = lookUp(['paths', path, method.toLowerCase()])
  const body = operation && member(operation, 'requestBody', 'content', 'application/json', 'schema')
  return body && member(body, 'properties', 'email')
}

/** The operations whose body has an email address. */
const places = operations.filter(({ path, method }) => schemaOf(path, method) !== undefined)

t.test('every address in a request has the schema EmailAddress', async (t) => {
  t.ok(places.length >= 7)
  for (const { id, path, method } of places)
    t.equal(schemaOf(path, method)?.pointer.at(-1), 'EmailAddress', id)
})

const refused = (address: string): readonly string[] => {
  const [user = '', domain = ''] = address.split('@')
  return [
    `<${address}>`,
    `${address}>`,
    `Owner <${address}>`,
    `${address},${address}`,
    `x:${address};`,
    `"${user}"@${domain}`,
    `${user}(x)@${domain}`,
    `${user}@${domain}.`,
    `${user}%${domain}@localhost`,
    `@localhost:${address}`,
    `${user}\u200b@${domain}`,
    `${user}ë@${domain}`,
    `${user}ß@${domain}`,
    `${address}\r\nBcc: ${address}`,
    `${user}@[127.0.0.1]`,
  ]
}

for (const { id } of places) {
  t.test(
    `${id}: 400 for text that mail programs interpret, and for local parts outside of ASCII`,
    async (t) => {
      const caller = rows[id].caller === 'admin' ? admin : world.owner
      const request = await rows[id].request(world, caller)
      const sent = { token: caller.token, ...request }
      for (const email of refused(world.owner.email)) {
        const body = { ...(request.body as object), email }
        t.match(await service.call(id, { ...sent, body }), isInvalid('/email'), email)
      }
    },
  )
}

t.test('spellings of one address are one account', async (t) => {
  const email = 'zoe@xn--mnchen-3ya.example'
  const password = 'correct horse battery'
  const registration = { username: 'zoe', email: 'Zoe@münchen.example', password }
  const { body: registered } = await service.expect('register', 201, { body: registration })
  t.equal(registered.user.email, email, 'the answer is ASCII')
  const spellings = [
    'zoe@XN--MNCHEN-3YA.example',
    'ＺＯＥ＠MU\u0308NCHEN．EXAMPLE',
    ' zoe@münchen。example\u3000',
  ]
  for (const spelling of spellings) {
    const taken = (reply: Reply): void =>
      void t.match(reply, { status: 409, body: { code: 'email_taken' } }, spelling)
    const user = { username: world.newName(), password, email: spelling }
    taken(await service.call('register', { body: user }))
    taken(await service.call('createUser', { token: admin.token, body: user }))
    const { token, id: user_id } = admin
    taken(await service.call('updateUser', { token, params: { user_id }, body: { email: spelling } }))
    const { body } = await service.expect('login', 200, {
      body: { email: spelling, password },
    })
    t.equal(body.user.email, email)
    const before = service.mails.length
    await service.expect('forgotPassword', 202, { body: { email: spelling } })
    t.strictSame(
      service.mails.slice(before).map(({ to }) => to),
      [email],
    )
  }
})

t.test('invitations of spellings of one address replace each other, and share a limit', async (t) => {
  const { token } = admin
  const { id: project_id } = await createProject(admin)
  const email = 'guest@xn--mnchen-3ya.example'
  const invite = (spelling: string) => {
    const body = { email: spelling, role: 'viewer' }
    return service.call('createInvitation', { token, params: { project_id }, body })
  }
  const before = service.invitations.length
  const spellings = ['guest@münchen.example', email, 'GUEST@MU\u0308NCHEN.example']
  for (const spelling of [...spellings, 'guest@münchen。example', email])
    t.match(await invite(spelling), { status: 201, body: { email } }, spelling)
  for (const spelling of spellings) t.match(await invite(spelling), { status: 429 }, spelling)
  t.strictSame(
    service.invitations.slice(before).map(({ to }) => to),
    Array.from({ length: 5 }, () => email),
  )
  const { body } = await service.expect('listProjectInvitations', 200, { token, params: { project_id } })
  t.strictSame(
    body.items.map((one) => one.email),
    [email],
  )
})
