import { setImmediate, setTimeout } from 'node:timers/promises'
import { createTransport, type NodemailerError, type SendMailOptions } from 'nodemailer'
import type { MailAddress, SmtpServer } from '../config/values.ts'
import {
  type DataExportedMessage,
  type DigestMessage,
  emailChangeUndoLink,
  type EmailChangedMessage,
  type IdentitiesUnlinkedMessage,
  invitationLink,
  type InvitationMessage,
  type OpenMailer,
  passwordResetLink,
  type PasswordResetMessage,
  type ReminderMessage,
  type WebhookDisabledMessage,
} from './mailer.ts'

interface SmtpMailerOptions {
  readonly server: SmtpServer
  readonly from: MailAddress
  /** The base URL of links. */
  readonly publicUrl: string
  /** Maximum number of pending emails; further ones are dropped. */
  readonly maxPending?: number
  /** Milliseconds that a shutdown waits for pending emails. */
  readonly closeTime?: number
}

/** Milliseconds that an email may take, including the wait for a connection. */
const sendTime = 60_000

/** Sends email over a small pool of connections to `server`. */
export const smtpMailer =
  ({ server, from, publicUrl, maxPending = 200, closeTime = 5_000 }: SmtpMailerOptions): OpenMailer =>
  (log) => {
    const transport = createTransport({ ...transportTo(server), pool: true, maxConnections: 2 })
    const pending = new Set<Promise<void>>()
    let isClosed = false

    const deliver = async (mail: SendMailOptions): Promise<void> => {
      // Composing an email takes time, which must not show in the response time.
      await setImmediate()
      try {
        await transport.sendMail({ ...mail, from: { ...from }, signal: AbortSignal.timeout(sendTime) })
      } catch (error) {
        log.warn(describeFailure(error), 'An email could not be sent')
      }
    }

    const send = async (mail: SendMailOptions): Promise<void> => {
      if (isClosed || pending.size >= maxPending) {
        log.warn({ underWay: pending.size, isClosed }, 'An email was dropped')
        return
      }
      const sending = deliver(mail).finally(() => pending.delete(sending))
      pending.add(sending)
      await sending
    }

    return {
      delivers: true,
      sendPasswordReset: (message) => void send(passwordResetMail(message, publicUrl)),
      sendEmailChanged: (message) => void send(emailChangedMail(message, publicUrl)),
      sendInvitation: (message) => void send(invitationMail(message, publicUrl)),
      sendWebhookDisabled: (message) => void send(webhookDisabledMail(message, publicUrl)),
      sendDataExported: (message) => void send(dataExportedMail(message, publicUrl)),
      sendIdentitiesUnlinked: (message) => void send(identitiesUnlinkedMail(message, publicUrl)),
      sendDigest: (message) => send(digestMail(message, publicUrl)),
      sendReminder: (message) => send(reminderMail(message, publicUrl)),
      pending: () => pending.size,
      async close() {
        isClosed = true
        await Promise.race([Promise.all(pending), setTimeout(closeTime, null, { ref: false })])
        if (pending.size > 0) log.warn({ underWay: pending.size }, 'Stopped before all emails were sent')
        transport.close({ force: true })
      },
    }
  }

/** Rejects if the server cannot be reached or refuses the credentials. */
export const verifySmtp = async (server: SmtpServer): Promise<void> => {
  const transport = createTransport(transportTo(server))
  try {
    await transport.verify()
  } finally {
    transport.close()
  }
}

const transportTo = ({ host, port, tls, auth }: SmtpServer) => ({
  host,
  port,
  secure: tls === 'implicit',
  requireTLS: tls === 'starttls',
  ignoreTLS: tls === 'none',
  ...(auth !== null && { auth: { ...auth } }),
  connectionTimeout: 10_000,
  dnsTimeout: 10_000,
  greetingTimeout: 10_000,
  socketTimeout: 30_000,
  disableFileAccess: true,
  disableUrlAccess: true,
})

/** The address is an object: nodemailer parses a string, which can contain several recipients. */
const passwordResetMail = ({ to, token }: PasswordResetMessage, publicUrl: string): SendMailOptions => ({
  to: { name: '', address: to },
  subject: 'Reset your Taskwright password',
  // RFC 3834 §5: suppresses automatic replies.
  headers: { 'Auto-Submitted': 'auto-generated' },
  text: `Someone, possibly you, requested a password reset for your Taskwright account.

To choose a new password, open this link within 30 minutes. It works once.

${passwordResetLink(publicUrl, token)}

If you did not request this, ignore this email. Your password has not changed.
`,
})

/**
 * A name in quotes, for an email to a stranger; null if it is long, or contains something that mail programs turn into a link.
 * This keeps invitations from being used for spam.
 */
const quoteName = (name: string): string | null =>
  name.length > 80 || /[:/\\@]|\.\S/.test(name) ? null : `"${name}"`

const invitationMail = (message: InvitationMessage, publicUrl: string): SendMailOptions => {
  const { to, token } = message
  const sender = quoteName(message.invitedByName) ?? 'Someone'
  const name = quoteName(message.projectName)
  const project = name === null ? 'a project' : `the project ${name}`
  return {
    to: { name: '', address: to },
    subject: 'Invitation to a Taskwright project',
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: `${sender} invited you to ${project} at ${publicUrl}.

To see and accept the invitation, open this link within 7 days. It works once.

${invitationLink(publicUrl, token)}

Anyone who has the link can accept the invitation, so do not share it. If you did not expect it, ignore this email.
`,
  }
}

const emailChangedMail = ({ to, undoToken }: EmailChangedMessage, publicUrl: string): SendMailOptions => ({
  to: { name: '', address: to },
  subject: 'Your Taskwright email address was changed',
  headers: { 'Auto-Submitted': 'auto-generated' },
  text: `The email address of your Taskwright account was changed. It is no longer this address.

${undoToken === null ? byAdministrator : byOwner(emailChangeUndoLink(publicUrl, undoToken))}`,
})

const webhookDisabledMail = ({ to, url }: WebhookDisabledMessage, publicUrl: string): SendMailOptions => ({
  to: { name: '', address: to },
  subject: 'A Taskwright webhook was disabled',
  headers: { 'Auto-Submitted': 'auto-generated' },
  text: `Your webhook at ${publicUrl} was disabled. It no longer sends anything to

${new URL(url).host}

Either all deliveries failed for three days, or the receiver responded with 410 (Gone). The list of its deliveries shows the errors.
When the receiver works, enable the webhook again: pending deliveries are then sent.
`,
})

/** The text of a line, by the reason of the notification. */
const happened: Record<DigestMessage['lines'][number]['reason'], (actor: string, task: string) => string> = {
  mention: (actor, task) => `${actor} mentioned you in a comment on ${task}`,
  assignment: (actor, task) => `${actor} assigned ${task} to you`,
  comment: (actor, task) => `${actor} commented on ${task}`,
  completion: (actor, task) => `${actor} completed ${task}`,
}

const dataExportedMail = ({ to }: DataExportedMessage, publicUrl: string): SendMailOptions => ({
  to: { name: '', address: to },
  subject: 'An administrator exports your Taskwright data',
  headers: { 'Auto-Submitted': 'auto-generated' },
  text: `An administrator of ${publicUrl} has requested an export of the tasks that you can see, with their comments and files. Your
reminders are not part of it. The audit log of the installation says who it was.
`,
})

const identitiesUnlinkedMail = ({ to }: IdentitiesUnlinkedMessage, publicUrl: string): SendMailOptions => ({
  to: { name: '', address: to },
  subject: 'Identity providers were unlinked from your Taskwright account',
  headers: { 'Auto-Submitted': 'auto-generated' },
  text: `The password of your account at ${publicUrl} was reset, or an administrator has set it. This has unlinked the identity
providers that signed in to the account.

Sign in with the password. If you want to sign in with an identity provider, link it again.

If you neither reset the password nor asked an administrator to set it, contact your administrator.
`,
})

const reminderMail = ({ to, lines, count }: ReminderMessage, publicUrl: string): SendMailOptions => {
  const listed = lines.map(({ taskTitle, due }) => `- "${taskTitle}"${due === null ? '' : `, due ${due}`}`)
  const others = count > lines.length ? `\nand ${count - lines.length} more.\n` : ''
  const [first] = lines
  return {
    to: { name: '', address: to },
    subject: count === 1 && first !== undefined ? `Reminder: ${first.taskTitle}` : `${count} reminders`,
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: `You wanted to be reminded of these tasks at ${publicUrl}:

${listed.join('\n')}
${others}
You get these emails because of your notification settings. To stop them, set mail_reminders to false:

${publicUrl}/docs#/notifications/updateNotificationSettings
`,
  }
}

const digestMail = ({ to, lines, count }: DigestMessage, publicUrl: string): SendMailOptions => {
  const what = count === 1 ? '1 unread notification' : `${count} unread notifications`
  const listed = lines.map(
    ({ reason, taskTitle, actorName }) => `- ${happened[reason](actorName ?? 'Someone', `"${taskTitle}"`)}`,
  )
  const others = count > lines.length ? `\nand ${count - lines.length} more.\n` : ''
  return {
    to: { name: '', address: to },
    subject: `Taskwright: ${what}`,
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: `You have ${what} at ${publicUrl}:

${listed.join('\n')}
${others}
You get these emails because of your notification settings. To stop them, sign in at

${publicUrl}/docs#/auth/login

and set "mail_digest" to "off" at

${publicUrl}/docs#/notifications/updateNotificationSettings
`,
  }
}

const byAdministrator = `An administrator made this change. If you think it is a mistake, contact your administrator.
`

const byOwner = (link: string): string => `If you made this change, you do not need to do anything.

If you did not, open this link within 7 days to restore this address. It works once.

${link}

The link also ends all sessions and revokes all API tokens of your account, and lets you choose a new password.
`

/** The loggable part of an error, without the server's text, which can quote the address or the email. */
const describeFailure = (error: unknown) => {
  if (!isMailError(error)) return {}
  const { code, command, response, message } = error
  return {
    code,
    command,
    reply: response === undefined ? undefined : /^\d{3}([ -]\d\.\d{1,3}\.\d{1,3})?/.exec(response)?.[0],
    reason: response === undefined && command === 'CONN' ? message : undefined,
  }
}

const isMailError = (error: unknown): error is NodemailerError => error instanceof Error
