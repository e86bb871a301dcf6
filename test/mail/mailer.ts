import Fastify, { type FastifyBaseLogger } from 'fastify'
import { Writable } from 'node:stream'
import t, { type Test } from 'tap'
import type { SmtpServer } from '../../src/config/values.ts'
import { canonicalEmail } from '../../src/domain/accounts/email-address.ts'
import { loggingMailer, noMailer, type OpenMailer } from '../../src/mail/mailer.ts'
import { smtpMailer } from '../../src/mail/smtp.ts'
import { eventually } from '../fixture/eventually.ts'
import { freePort } from '../fixture/ports.ts'
import { startMailServer } from '../fixture/smtp.ts'

const token = 'twx_0b4dYxq0vmDPhyRtn8l3cS6GTDZ4T1aPMu7rhW1Zk9E'
const from = { name: 'Tâches, Inc.', address: 'tasks@example.com' }
const publicUrl = 'https://tasks.example.com/api'
const auth = { user: 'taskwright', pass: 'hunter2' }

/** A logger like the service's, and its output. */
const openLog = (): { readonly log: FastifyBaseLogger; readonly written: () => string } => {
  const chunks: string[] = []
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk.toString())
      done()
    },
  })
  const { log } = Fastify({ logger: { level: 'trace', stream } })
  return { log, written: () => chunks.join('') }
}

const open = (openMailer: OpenMailer) => {
  const { log, written } = openLog()
  return { mailer: openMailer(log), written }
}

/** A mailer for the server on that port of loopback. */
const openSmtp = (
  port: number,
  { server, ...options }: { server?: Partial<SmtpServer>; maxPending?: number; closeTime?: number } = {},
) =>
  open(
    smtpMailer({
      server: { host: '127.0.0.1', port, tls: 'none', auth: null, ...server },
      from,
      publicUrl,
      ...options,
    }),
  )

/** Checks that a text has no token, recipient or password. */
const isDiscreet = (t: Test, text: string): void => {
  t.notMatch(text, token)
  t.notMatch(text, token.slice(-12))
  t.notMatch(text, 'ada@')
  t.notMatch(text, auth.pass)
}

/** Sends a mail that should fail. Returns the only log line. */
const failure = async (t: Test, { mailer, written }: ReturnType<typeof open>): Promise<unknown> => {
  mailer.sendPasswordReset({ to: 'ada@example.com', token })
  await mailer.close()
  isDiscreet(t, written())
  return JSON.parse(written())
}

t.test('the password reset mail has its headers and its link', async (t) => {
  const server = await startMailServer(t)
  const { mailer, written } = openSmtp(server.port)
  mailer.sendPasswordReset({ to: 'ada@example.com', token })
  await mailer.close()
  const [mail, ...more] = server.received
  t.same(more, [])
  t.equal(mail?.from, 'tasks@example.com')
  t.strictSame(mail?.to, ['ada@example.com'])
  t.match(mail?.header.toSorted(), [
    'Auto-Submitted: auto-generated',
    'Content-Transfer-Encoding: quoted-printable',
    'Content-Type: text/plain; charset=utf-8',
    /^Date: \w{3}, \d/,
    'From: =?UTF-8?Q?T=C3=A2ches=2C_Inc=2E?= <tasks@example.com>',
    'MIME-Version: 1.0',
    /^Message-ID: <[^>]+@example\.com>$/,
    'Subject: Reset your Taskwright password',
    'To: ada@example.com',
  ])
  t.equal(mail?.header.length, 9, 'no other header')
  const lines = mail?.text.split('\n') ?? []
  t.ok(
    lines.includes(`https://tasks.example.com/api/password-reset#token=${token}`),
    'the link is on its own line',
  )
  for (const words of [/possibly you/, /within 30 minutes/, /works once/, /ignore this email/])
    t.match(mail?.text, words)
  t.equal(written(), '', 'nothing is logged')
})

t.test('a mail reaches the canonical address that it is sent to, and no other', async (t) => {
  const server = await startMailServer(t)
  const { mailer } = openSmtp(server.port)
  const addresses = [
    'ada@example.com',
    "o'hara+x_1=2/3{a}@example.com",
    'ada@xn--mnchen-3ya.example',
    'ada@xn--strae-oqa.example',
  ]
  for (const to of addresses) {
    t.equal(canonicalEmail(to), to)
    mailer.sendPasswordReset({ to, token })
  }
  await mailer.close()
  // The server of this test decodes domains.
  const recipients = server.received.flatMap(({ to }) => to.map((address) => canonicalEmail(address) ?? ''))
  t.same(recipients.toSorted(), addresses.toSorted())
  const headers = server.received.flatMap(({ header }) => header.filter((line) => line.startsWith('To: ')))
  t.same(headers.toSorted(), addresses.map((address) => `To: ${address}`).toSorted())
})

t.test(
  'the mail about a changed address has an undo link, unless an administrator made the change',
  async (t) => {
    const server = await startMailServer(t)
    const { mailer, written } = openSmtp(server.port)
    const undoToken = 'twu_0b4dYxq0vmDPhyRtn8l3cS6GTDZ4T1aPMu7rhW1Zk9E'
    mailer.sendEmailChanged({ to: 'ada@example.com', undoToken })
    mailer.sendEmailChanged({ to: 'grace@example.com', undoToken: null })
    await mailer.close()
    const mailTo = (address: string) => server.received.find(({ to }) => to.includes(address))
    const [own, byAdministrator] = [mailTo('ada@example.com'), mailTo('grace@example.com')]
    for (const mail of [own, byAdministrator]) {
      t.ok(mail?.header.includes('Auto-Submitted: auto-generated'))
      t.match(mail?.text, /no longer this address/)
    }
    const link = `https://tasks.example.com/api/email-change-undo#token=${undoToken}`
    t.ok(own?.text.split('\n').includes(link), 'the link is on its own line')
    for (const words of [/within 7 days/, /works once/]) t.match(own?.text, words)
    t.match(byAdministrator?.text, /administrator/)
    t.notMatch(byAdministrator?.text, /https?:/)
    t.equal(written(), '', 'nothing is logged')
  },
)

t.test('the mail about unlinked identities says why, and what to do', async (t) => {
  const server = await startMailServer(t)
  const { mailer, written } = openSmtp(server.port)
  mailer.sendIdentitiesUnlinked({ to: 'ada@example.com' })
  await mailer.close()
  const [mail] = server.received
  t.strictSame(mail?.to, ['ada@example.com'])
  t.ok(mail?.header.includes('Auto-Submitted: auto-generated'))
  for (const words of [publicUrl, /was reset, or an administrator has set it/, /link it again/])
    t.match(mail?.text, words)
  t.equal(written(), '', 'nothing is logged')
})

t.test('the invitation mail has no names that look like links', async (t) => {
  const server = await startMailServer(t)
  const { mailer, written } = openSmtp(server.port)
  const invitation = { to: 'ada@example.com', token: 'twi_0b4dYxq0vmDPhyRtn8l3cS6GTDZ4T1aPMu7rhW1Zk9E' }
  const textOf = async (projectName: string, invitedByName: string): Promise<string> => {
    const before = server.received.length
    mailer.sendInvitation({ ...invitation, projectName, invitedByName })
    await eventually('the mail arrives', async () => server.received.length > before)
    const mail = server.received[before]
    t.ok(mail?.header.includes('Auto-Submitted: auto-generated'))
    t.ok(mail?.header.includes('Subject: Invitation to a Taskwright project'))
    return mail?.text ?? ''
  }
  const named = await textOf('Website', 'Grace Hopper')
  t.match(named, '"Grace Hopper" invited you to the project "Website" at https://tasks.example.com/api.')
  const link = `https://tasks.example.com/api/invitation#token=${invitation.token}`
  t.ok(named.split('\n').includes(link), 'the link is on its own line')
  for (const words of [/within 7 days/, /works once/, /ignore this email/]) t.match(named, words)
  for (const advert of ['Win at https://example.org', 'example.org', 'eve@example.org', 'x'.repeat(81)]) {
    const anonymous = await textOf(advert, advert)
    t.match(anonymous, 'Someone invited you to a project at https://tasks.example.com/api.')
    t.notMatch(anonymous, advert)
  }
  t.match(await textOf('Plan B', 'Dr. Strange'), '"Dr. Strange" invited you to the project "Plan B" at')
  await mailer.close()
  t.equal(written(), '', 'nothing is logged')
})

t.test('the notification mail lists notifications, and counts the rest', async (t) => {
  const server = await startMailServer(t)
  const { mailer, written } = openSmtp(server.port)
  const to = 'ada@example.com'
  const actorName = 'Grace Hopper'
  const lines = [
    { reason: 'mention', taskTitle: 'Rent a stage', actorName },
    { reason: 'assignment', taskTitle: 'Rent a stage', actorName },
    { reason: 'comment', taskTitle: 'Rent a stage', actorName: null },
    { reason: 'completion', taskTitle: 'Book the band', actorName },
  ] as const
  await mailer.sendDigest({ to, lines, count: 16 })
  await mailer.sendDigest({ to, lines: lines.slice(0, 1), count: 1 })
  const [mail, single] = server.received
  t.strictSame(mail?.to, [to])
  t.ok(mail?.header.includes('Auto-Submitted: auto-generated'))
  t.ok(mail?.header.includes('Subject: Taskwright: 16 unread notifications'))
  t.match(
    mail?.text,
    `You have 16 unread notifications at https://tasks.example.com/api:

- Grace Hopper mentioned you in a comment on "Rent a stage"
- Grace Hopper assigned "Rent a stage" to you
- Someone commented on "Rent a stage"
- Grace Hopper completed "Book the band"

and 12 more.
`,
  )
  const settings = 'https://tasks.example.com/api/docs#/notifications/updateNotificationSettings'
  t.match(mail?.text, `set "mail_digest" to "off" at\n\n${settings}\n`)
  t.ok(single?.header.includes('Subject: Taskwright: 1 unread notification'))
  t.notMatch(single?.text, 'more.\n')
  await mailer.close()
  await mailer.sendDigest({ to, lines, count: 16 })
  t.match(JSON.parse(written()), { msg: 'An email was dropped', isClosed: true })
  isDiscreet(t, written())
})

t.test('a crafted address cannot add recipients or headers', async (t) => {
  const server = await startMailServer(t)
  const { mailer, written } = openSmtp(server.port)
  const crafted = [
    'ada@example.com, eve@example.org',
    'ada@example.com,eve@example.org',
    'ada@example.com\r\nBcc: eve@example.org',
    'ada@example.com>\r\nRCPT TO:<eve@example.org',
    'Ada <eve@example.org>',
    'eve@example.org (ada@example.com)',
    'all: ada@example.com, eve@example.org;',
  ]
  for (const to of crafted) mailer.sendPasswordReset({ to, token })
  await mailer.close()
  t.same(
    server.received.flatMap(({ to }) => to).filter((address) => address.endsWith('eve@example.org')),
    [],
    'eve gets nothing',
  )
  for (const { to, header } of server.received) {
    t.equal(to.length, 1)
    t.equal(header.length, 9)
  }
  isDiscreet(t, written())
})

t.test('the SMTP password', async (t) => {
  const attempts: (string | null | undefined)[] = []
  const server = await startMailServer(t, {
    authOptional: false,
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, callback) => {
      attempts.push(password)
      if (username === auth.user && password === auth.pass) callback(null, { user: username })
      else callback(Object.assign(new Error(`No ${username} with ${password}`), { responseCode: 535 }))
    },
  })

  t.test('is used to send mail', async (t) => {
    const { mailer } = openSmtp(server.port, { server: { auth } })
    mailer.sendPasswordReset({ to: 'ada@example.com', token })
    await mailer.close()
    t.equal(server.received.length, 1)
  })

  t.test('if wrong, is logged as EAUTH, and no mail is sent', async (t) => {
    const wrong = { user: 'taskwright', pass: `not ${auth.pass}` }
    t.match(await failure(t, openSmtp(server.port, { server: { auth: wrong } })), {
      level: 40,
      msg: 'An email could not be sent',
      code: 'EAUTH',
      reply: '535',
    })
    t.equal(server.received.length, 1)
  })

  t.test('is not sent to a server without TLS', async (t) => {
    attempts.length = 0
    t.match(await failure(t, openSmtp(server.port, { server: { auth, tls: 'starttls' } })), { code: 'ETLS' })
    t.same(attempts, [])
    t.equal(server.received.length, 1)
  })
})

t.test('an untrusted certificate is rejected', async (t) => {
  const implicit = await startMailServer(t, { secure: true })
  const later = await startMailServer(t, { disabledCommands: [] })
  const reason = /certificate/
  t.match(await failure(t, openSmtp(implicit.port, { server: { tls: 'implicit' } })), { reason })
  t.match(await failure(t, openSmtp(later.port, { server: { tls: 'starttls_if_offered' } })), { reason })
  t.same([...implicit.received, ...later.received], [])
})

t.test('an unreachable server is logged', async (t) => {
  t.match(await failure(t, openSmtp(await freePort())), { code: 'ESOCKET', reason: /ECONNREFUSED/ })
})

t.test('the reply of a server is logged by its codes, without its text', async (t) => {
  const refusing = await startMailServer(t, {
    onData: (stream, _session, callback) => {
      const words = `5.7.1 <ada@example.com> may not have https://tasks.example.com/#token=${token}`
      stream.resume().on('end', () => callback(Object.assign(new Error(words), { responseCode: 554 })))
    },
  })
  t.match(await failure(t, openSmtp(refusing.port)), { code: 'EMESSAGE', reply: '554 5.7.1' })
})

/** A mail server that accepts each mail when its entry in `held` is called. */
const startHeldServer = async (t: Test) => {
  const held: (() => void)[] = []
  const { port } = await startMailServer(t, {
    onData: (stream, _session, callback) => {
      stream.resume().on('end', () => held.push(callback))
    },
  })
  return { port, held }
}

t.test('mails beyond the maximum of pending ones are dropped', async (t) => {
  const { port, held } = await startHeldServer(t)
  const { mailer, written } = openSmtp(port, { maxPending: 2 })
  const send = (): void => mailer.sendPasswordReset({ to: 'ada@example.com', token })
  send()
  send()
  t.equal(written(), '')
  send()
  t.match(JSON.parse(written()), { level: 40, msg: 'An email was dropped', underWay: 2 })
  isDiscreet(t, written())
  await eventually('the server has received both mails', async () => held.length === 2)
  for (const take of held.splice(0)) take()
  await eventually('mails are accepted again', async () => {
    if (held.length === 0) send()
    return held.length > 0
  })
  for (const take of held.splice(0)) take()
  await mailer.close()
})

t.test('a stop', async (t) => {
  t.test('waits for pending mails, and drops new ones', async (t) => {
    const { port, held } = await startHeldServer(t)
    const { mailer, written } = openSmtp(port)
    mailer.sendPasswordReset({ to: 'ada@example.com', token })
    await eventually('the server has received the mail', async () => held.length === 1)
    let isOver = false
    const closed = mailer.close().then(() => (isOver = true))
    mailer.sendPasswordReset({ to: 'ada@example.com', token })
    t.match(JSON.parse(written()), { msg: 'An email was dropped', isClosed: true })
    t.notOk(isOver)
    held[0]?.()
    await closed
  })

  t.test('does not wait longer than its limit', async (t) => {
    const { port, held } = await startHeldServer(t)
    const { mailer, written } = openSmtp(port, { closeTime: 50 })
    mailer.sendPasswordReset({ to: 'ada@example.com', token })
    await eventually('the server has received the mail', async () => held.length === 1)
    await mailer.close()
    t.match(written(), '"underWay":1,"msg":"Stopped before all emails were sent"')
    isDiscreet(t, written())
  })
})

t.test('links are logged in development', async (t) => {
  const { mailer, written } = open(loggingMailer(() => 'http://localhost:3000'))
  mailer.sendPasswordReset({ to: 'ada@example.com', token })
  t.match(JSON.parse(written()), { level: 30, link: `http://localhost:3000/password-reset#token=${token}` })
  mailer.sendInvitation({ to: 'ada@example.com', token, projectName: 'Website', invitedByName: 'Grace' })
  t.match(JSON.parse(written().trim().split('\n')[1] ?? ''), {
    link: `http://localhost:3000/invitation#token=${token}`,
  })
  await mailer.sendDigest({ to: 'ada@example.com', lines: [], count: 3 })
  t.match(JSON.parse(written().trim().split('\n')[2] ?? ''), { level: 30, notifications: 3 })
  await mailer.close()
})

t.test('without a mail server, a warning is logged at the start, and mails are dropped', async (t) => {
  const { mailer, written } = open(noMailer)
  t.match(JSON.parse(written()), { level: 40, msg: /SMTP_URL/ }, 'the warning')
  mailer.sendPasswordReset({ to: 'ada@example.com', token })
  const [, second = '', ...more] = written().trim().split('\n')
  t.match(JSON.parse(second), { level: 30, msg: /SMTP_URL/ })
  t.same(more, [])
  isDiscreet(t, written())
  await mailer.close()
})
