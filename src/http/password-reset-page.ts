import type { FastifyInstance } from 'fastify'
import { readFile } from 'node:fs/promises'
import { escapeHtml, page, sendPage } from './pages.ts'

/**
 * The page that the mail about a forgotten password leads to. Its script takes the token from the fragment of the
 * address, which the service never sees, and calls resetPassword. `base` is the path of PUBLIC_URL.
 */
export const registerPasswordResetPage = async (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> => {
  const script = await readFile(new URL('assets/password-reset.js', import.meta.url))
  const html = passwordResetPage(base)
  app.get('/password-reset', (_request, reply) =>
    sendPage(
      reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }),
      html,
      passwordResetPolicy,
    ),
  )
  app.get('/password-reset/script.js', (_request, reply) =>
    reply.header('cache-control', 'no-cache').type('text/javascript; charset=utf-8').send(script),
  )
}

const passwordResetPolicy =
  "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const passwordResetPage = (base: string): string =>
  page(
    'Reset your password',
    `<style>
  label { display: block; margin-top: 1rem; }
  input, button { font: inherit; box-sizing: border-box; padding: 0.5rem; }
  input { width: 100%; }
  input[aria-invalid] { outline: 2px solid light-dark(#b00020, #ff8a80); }
  button { margin-top: 1.5rem; padding-inline: 1.5rem; }
  .fault { color: light-dark(#b00020, #ff8a80); }
</style>
<script type="module" src="${escapeHtml(base)}/password-reset/script.js"></script>
<main>
<h1>Reset your password</h1>
<form method="post" hidden>
  <label for="password">New password</label>
  <input id="password" type="password" autocomplete="new-password" required aria-describedby="hint outcome">
  <small id="hint">At least 8 characters.</small>
  <label for="repeated">The same again</label>
  <input id="repeated" type="password" autocomplete="new-password" required aria-describedby="outcome">
  <button>Set the password</button>
</form>
<p id="outcome" role="status"></p>
<noscript><p>This page needs JavaScript.</p></noscript>
</main>`,
  )
