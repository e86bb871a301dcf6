import t from 'tap'
import { emailChangeUndoLink, invitationLink, passwordResetLink } from '../../src/mail/mailer.ts'
import { startService } from '../fixture/service.ts'

/** The pages that mails link to. scripts/check/browser.ts tests their behaviour in a browser. */

for (const base of ['', '/api']) {
  t.test(`the password reset page under '${base}/'`, async (t) => {
    const service = await startService(t, {
      config: { publicUrl: base === '' ? null : `https://tasks.example.com${base}` },
    })
    const link = new URL(passwordResetLink(`${service.url}${base}`, 'twx_secret'))
    const response = await fetch(link)
    const html = await response.text()
    t.equal(response.status, 200)
    t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8')

    t.test('is not cached, and sends no referrer', async (t) => {
      t.equal(response.headers.get('cache-control'), 'no-store')
      t.equal(response.headers.get('referrer-policy'), 'no-referrer')
    })

    t.test('loads only its own script', async (t) => {
      const policy = response.headers.get('content-security-policy') ?? ''
      t.match(policy, /^default-src 'none'; script-src 'self'; connect-src 'self';/)
      t.match(policy, /form-action 'none'/, 'without the script, the form sends no password')
      t.notMatch(policy, /script-src [^;]*unsafe/)
      const addresses = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address = '']) => address)
      const requested = addresses.filter((address) => !address.startsWith('data:'))
      t.strictSame(requested, [`${base}/password-reset/script.js`])
      t.notMatch(html, /<script>|\son\w+=/)
      const script = await fetch(new URL(`${base}/password-reset/script.js`, service.url))
      t.equal(script.status, 200)
      t.equal(script.headers.get('content-type'), 'text/javascript; charset=utf-8')
      t.match(await script.text(), "'auth/password/reset'")
      const shared = await fetch(new URL(`${base}/password-reset/form.js`, service.url))
      t.equal(shared.headers.get('content-type'), 'text/javascript; charset=utf-8')
      t.match(await shared.text(), 'export const handleForm')
    })

    t.test('has labels and autocomplete for both fields', async (t) => {
      const names = [...html.matchAll(/<label for="(\w+)">/g)].map(([, name]) => name)
      const fields = [...html.matchAll(/<input id="(\w+)" type="password" autocomplete="new-password"/g)]
      t.strictSame(
        fields.map(([, name]) => name),
        names,
      )
      t.equal(names.length, 2)
    })
  })
}

t.test('the page that restores an email address', async (t) => {
  const service = await startService(t)
  const response = await fetch(emailChangeUndoLink(service.url, 'twu_secret'))
  const html = await response.text()
  t.equal(response.status, 200)
  t.equal(response.headers.get('cache-control'), 'no-store')
  t.equal(response.headers.get('referrer-policy'), 'no-referrer')
  t.match(response.headers.get('content-security-policy'), /script-src 'self'; connect-src 'self';/)
  t.match(html, '/email-change-undo/script.js"')
  t.match(html, /<button>Restore email address<\/button>/)
  const script = await fetch(new URL('/email-change-undo/script.js', service.url))
  t.equal(script.headers.get('content-type'), 'text/javascript; charset=utf-8')
  t.match(await script.text(), "'auth/email-change/undo'")
})

t.test('the page that accepts an invitation', async (t) => {
  const service = await startService(t, { config: { publicUrl: 'https://tasks.example.com/api' } })
  const response = await fetch(invitationLink(`${service.url}/api`, 'twi_secret'))
  const html = await response.text()
  t.equal(response.status, 200)
  t.equal(response.headers.get('cache-control'), 'no-store')
  t.equal(response.headers.get('referrer-policy'), 'no-referrer')
  t.match(response.headers.get('content-security-policy'), /script-src 'self'; connect-src 'self';/)
  t.match(html, '/api/invitation/script.js"')
  t.match(html, /<button>Accept invitation<\/button>/)
  const labels = [...html.matchAll(/<label for="(\w+)">/g)].map(([, name]) => name)
  const fields = [...html.matchAll(/<input id="(\w+)"/g)].map(([, name]) => name)
  t.strictSame(fields, labels, 'each field has a label')
  const script = await fetch(new URL('/api/invitation/script.js', service.url))
  t.equal(script.headers.get('content-type'), 'text/javascript; charset=utf-8')
  const text = await script.text()
  for (const path of ['invitations/lookup', 'invitations/accept', 'auth/register', 'auth/login'])
    t.match(text, `'${path}'`)
})
