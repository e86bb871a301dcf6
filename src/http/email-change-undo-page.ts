import type { FastifyInstance } from 'fastify'
import { registerFormPage } from './form-page.ts'

/** Registers the page that undoes a change of email address. `base` is the path of PUBLIC_URL. */
export const registerEmailChangeUndoPage = (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> =>
  registerFormPage(app, {
    base,
    name: 'email-change-undo',
    title: 'Restore your email address',
    form: `  <p>The email address of your account was changed. If you did not change it, restore your previous address here.
  This ends all sessions and revokes all API tokens of your account. You then choose a new password.</p>
  <button>Restore email address</button>`,
  })
