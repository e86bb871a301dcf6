import type { FastifyBaseLogger } from 'fastify'
import type { components } from '../../generated/openapi.ts'

export interface PasswordResetMessage {
  /** The address of the account. */
  readonly to: string
  readonly token: string
}

export interface EmailChangedMessage {
  /** The previous address. */
  readonly to: string
  /** Allows undoing the change; null if an administrator made it. */
  readonly undoToken: string | null
}

export interface InvitationMessage {
  readonly to: string
  readonly token: string
  readonly projectName: string
  /** The display name of the sender. */
  readonly invitedByName: string
}

export interface WebhookDisabledMessage {
  /** The owner of the webhook. */
  readonly to: string
  readonly url: string
}

export interface DigestMessage {
  readonly to: string
  /** The most recent notifications, newest first. */
  readonly lines: readonly {
    readonly reason: Exclude<
      components['schemas']['NotificationReason'],
      'reminder' | 'reminder_limit' | 'export' | 'import'
    >
    readonly taskTitle: string
    /** Null for the service itself or a deleted user. */
    readonly actorName: string | null
  }[]
  /** The number of all unread notifications, including those without a line. */
  readonly count: number
}

export interface DataExportedMessage {
  /** The user whose data an administrator exports. */
  readonly to: string
}

export interface IdentitiesUnlinkedMessage {
  /** The user whose password was reset, or set by an administrator. */
  readonly to: string
}

export interface ReminderMessage {
  readonly to: string
  /** The most recent reminders. */
  readonly lines: readonly {
    readonly taskTitle: string
    /** For people; null if the task has no due date. */
    readonly due: string | null
  }[]
  /** The number of all reminders, including those without a line. */
  readonly count: number
}

/** Sends email in the background, so that response times do not reveal whether an account exists. */
export interface Mailer {
  /** Whether emails are delivered, or at least their links logged. */
  readonly delivers: boolean
  /** Returns immediately. Failures are logged, without the address and the token. */
  sendPasswordReset(message: PasswordResetMessage): void
  sendEmailChanged(message: EmailChangedMessage): void
  sendInvitation(message: InvitationMessage): void
  sendWebhookDisabled(message: WebhookDisabledMessage): void
  sendDataExported(message: DataExportedMessage): void
  sendIdentitiesUnlinked(message: IdentitiesUnlinkedMessage): void
  /** Resolves when the email was sent or has failed. */
  sendDigest(message: DigestMessage): Promise<void>
  /** Likewise. */
  sendReminder(message: ReminderMessage): Promise<void>
  /** The number of emails that are being sent or waiting to be sent. */
  pending(): number
  /** Refuses new emails, and waits a few seconds for those being sent. */
  close(): Promise<void>
}

/** Creates a mailer that logs to `log`. */
export type OpenMailer = (log: FastifyBaseLogger) => Mailer

/** The token is in the fragment, which browsers do not send, so that it appears in no log and no Referer header. */
export const passwordResetLink = (base: string, token: string): string =>
  `${base}/password-reset#token=${token}`

export const emailChangeUndoLink = (base: string, token: string): string =>
  `${base}/email-change-undo#token=${token}`

export const invitationLink = (base: string, token: string): string => `${base}/invitation#token=${token}`

/** Development: logs the links. `base` is a function because the address is known only once the service listens. */
export const loggingMailer =
  (base: () => string): OpenMailer =>
  (log) => ({
    delivers: true,
    sendPasswordReset: ({ token }) =>
      log.info({ link: passwordResetLink(base(), token) }, 'Password reset requested'),
    sendEmailChanged: ({ undoToken }) =>
      log.info(
        undoToken === null ? {} : { link: emailChangeUndoLink(base(), undoToken) },
        'Email address changed; the link undoes the change',
      ),
    sendInvitation: ({ token }) =>
      log.info({ link: invitationLink(base(), token) }, 'Invitation to a project'),
    sendWebhookDisabled: () => log.info('Webhook disabled'),
    sendDataExported: () => log.info('Data of a user exported by an administrator'),
    sendIdentitiesUnlinked: () => log.info('Identities of a user unlinked by a new password'),
    sendDigest: async ({ count }) => log.info({ notifications: count }, 'Digest of notifications'),
    sendReminder: async () => log.info('Reminder of a task'),
    pending: () => 0,
    close: async () => undefined,
  })

/** Email is disabled. */
export const noMailer: OpenMailer = (log) => {
  log.warn('SMTP_URL is not set: users cannot reset forgotten passwords, send invitations or get digests')
  const drop = () => log.info('An email was not sent because SMTP_URL is not set')
  return {
    delivers: false,
    sendPasswordReset: drop,
    sendEmailChanged: drop,
    sendInvitation: drop,
    sendWebhookDisabled: drop,
    sendDataExported: drop,
    sendIdentitiesUnlinked: drop,
    sendDigest: async () => drop(),
    sendReminder: async () => drop(),
    pending: () => 0,
    close: async () => undefined,
  }
}
