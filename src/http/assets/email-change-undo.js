/** Runs in the browser, on the page that undoes a change of address. */

const form = document.querySelector('form')
const outcome = document.querySelector('#outcome')

/** The token of the link; null when the link has none. */
let token = null

let isSending = false

/** Takes the token out of the address, so that it is not kept in the history or read off the screen. */
const takeToken = () => {
  const found = new URLSearchParams(location.hash.slice(1)).get('token')
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  if (!found) return
  token = found
  form.hidden = false
  outcome.textContent = ''
}

const report = (text, isFault) => {
  outcome.className = isFault ? 'fault' : ''
  outcome.textContent = text
}

const undo = async () => {
  const response = await fetch('auth/email-change/undo', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  })
  const body = await response.json()
  if (!response.ok) {
    report(body.detail ?? body.title, true)
    return
  }
  form.hidden = true
  report('Your email address was restored. Now choose a new password.', false)
  location.replace(`password-reset#token=${encodeURIComponent(body.reset_token)}`)
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  if (isSending) return
  isSending = true
  report('', false)
  try {
    await undo()
  } catch {
    report('The service did not respond. Try again.', true)
  } finally {
    isSending = false
  }
})

addEventListener('hashchange', takeToken)
takeToken()
if (token === null) report('This link is incomplete. Open the complete link from the mail.', true)
