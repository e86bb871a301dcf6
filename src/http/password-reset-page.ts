import type { FastifyInstance } from 'fastify'
import { registerFormPage } from './form-page.ts'

/** Registers the page that resets a password. `base` is the path of PUBLIC_URL. */
export const registerPasswordResetPage = (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> =>
  registerFormPage(app, {
    base,
    name: 'password-reset',
    title: 'Reset your password',
    form: `  <label for="password">New password</label>
  <input id="password" type="password" autocomplete="new-password" required aria-describedby="hint outcome">
  <small id="hint">At least 8 characters.</small>
  <label for="repeated">Confirm new password</label>
  <input id="repeated" type="password" autocomplete="new-password" required aria-describedby="outcome">
  <button>Reset password</button>`,
  })
