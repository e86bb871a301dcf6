import type { FastifyInstance } from 'fastify'
import { registerFormPage } from './form-page.ts'

/** Registers the page that accepts an invitation to a project. `base` is the path of PUBLIC_URL. */
export const registerInvitationPage = (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> =>
  registerFormPage(app, {
    base,
    name: 'invitation',
    title: 'Invitation to a project',
    form: `  <p id="invitation"></p>
  <p id="choice" hidden>
  <label><input type="radio" name="account" value="existing" checked> I have an account</label>
  <label><input type="radio" name="account" value="new"> I need an account</label>
  </p>
  <div id="name" hidden>
  <label for="username">Username</label>
  <input id="username" autocomplete="username" autocapitalize="none" spellcheck="false" aria-describedby="username-hint outcome">
  <small id="username-hint">2 to 32 lower-case letters, digits, dots, underscores and hyphens.</small>
  </div>
  <label for="email">Email address</label>
  <input id="email" type="email" autocomplete="email" required aria-describedby="outcome">
  <label for="password">Password</label>
  <input id="password" type="password" autocomplete="current-password" required aria-describedby="outcome">
  <div id="factor" hidden>
  <label for="code">Code from your authenticator, or a recovery code</label>
  <input id="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" aria-describedby="outcome">
  </div>
  <button>Accept invitation</button>`,
  })
