import type { FastifyBaseLogger } from 'fastify'

/** A new password that somebody asked for. */
export interface PasswordResetMessage {
  /** The address of the account. */
  readonly to: string
  readonly token: string
}

/** A change of a user's email address. */
export interface EmailChangedMessage {
  /** The address before the change. */
  readonly to: string
  /** Undoes the change; null when an administrator made it. */
  readonly undoToken: string | null
}

/** Sends mail in the background, so that a request takes equally long whether there is a mail to send or not. */
export interface Mailer {
  /** Takes the mail on and returns at once; what goes wrong is logged, without the address and the token. */
  sendPasswordReset(message: PasswordResetMessage): void
  /** Likewise. */
  sendEmailChanged(message: EmailChangedMessage): void
  /** Takes on no more, and gives the mails under way a few seconds. */
  close(): Promise<void>
}

/** Makes a mailer that tells `log` what happens. */
export type OpenMailer = (log: FastifyBaseLogger) => Mailer

/** The token is in the fragment, which a browser keeps to itself: it gets into no log and no Referer. */
export const passwordResetLink = (base: string, token: string): string =>
  `${base}/password-reset#token=${token}`

/** The link of a mail about a changed address. */
export const emailChangeUndoLink = (base: string, token: string): string =>
  `${base}/email-change-undo#token=${token}`

/** For development: the developer finds the link in the log. `base` tells where the service listens by then. */
export const loggingMailer =
  (base: () => string): OpenMailer =>
  (log) => ({
    sendPasswordReset: ({ token }) =>
      log.info({ link: passwordResetLink(base(), token) }, 'Password reset requested'),
    sendEmailChanged: ({ undoToken }) =>
      log.info(
        undoToken === null ? {} : { link: emailChangeUndoLink(base(), undoToken) },
        'Email address changed; the link, if there is one, undoes the change',
      ),
    close: async () => undefined,
  })

/** For a service without a mail server. */
export const noMailer: OpenMailer = (log) => {
  log.warn('SMTP_URL is not set: users cannot reset forgotten passwords')
  const drop = () => log.info('A mail was not sent because SMTP_URL is not set')
  return {
    sendPasswordReset: drop,
    sendEmailChanged: drop,
    close: async () => undefined,
  }
}
