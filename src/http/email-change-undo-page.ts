import type { FastifyInstance } from 'fastify'
import { registerFormPage } from './form-page.ts'

/** Registers the page of the mail about a changed address. `base` is the path of PUBLIC_URL. */
export const registerEmailChangeUndoPage = (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> =>
  registerFormPage(app, {
    base,
    name: 'email-change-undo',
    title: 'Restore your email address',
    form: `  <p>The email address of your account was changed. If it was not you, restore it here: the account is signed out
  everywhere, its API tokens are revoked, and you choose a new password.</p>
  <button>Restore the address</button>`,
  })
