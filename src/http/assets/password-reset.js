/** Runs in the browser, on the page where a forgotten password is reset. */

const form = document.querySelector('form')
const outcome = document.querySelector('#outcome')
const [password, repeated] = form.querySelectorAll('input')

/** What allows the reset; null when the link has none, or it was used. */
let token = null

let isSending = false

/** Takes the token out of the address, so that it stays in no history and nobody reads it off the screen. */
const takeToken = () => {
  const found = new URLSearchParams(location.hash.slice(1)).get('token')
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  if (!found) return
  token = found
  form.hidden = false
  outcome.textContent = ''
}

const say = (text, isFault) => {
  outcome.className = isFault ? 'fault' : ''
  outcome.textContent = text
}

/** Says what is wrong with a field, and leads there. */
const refuse = (field, text) => {
  say(text, true)
  field.setAttribute('aria-invalid', 'true')
  field.focus()
}

/** A problem document (RFC 9457) in a sentence or two. */
const textOf = async (response) => {
  const { detail, title, errors = [] } = await response.json()
  const faults = errors.map(
    (fault) => `The ${fault.pointer === '/token' ? 'link' : 'password'} ${fault.detail}.`,
  )
  return faults.length > 0 ? faults.join(' ') : (detail ?? title)
}

const reset = async () => {
  const response = await fetch('auth/password/reset', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, new_password: password.value }),
  })
  if (!response.ok) {
    const text = await textOf(response)
    if (response.status === 400) refuse(password, text)
    else say(text, true)
    return
  }
  token = null
  form.reset()
  form.hidden = true
  say(
    'Your password was changed, and all sessions of your account have ended. Sign in with the new password.',
    false,
  )
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  if (isSending) return
  for (const field of [password, repeated]) field.removeAttribute('aria-invalid')
  if (password.value !== repeated.value) {
    refuse(repeated, 'The passwords do not match.')
    return
  }
  isSending = true
  say('', false)
  try {
    await reset()
  } catch {
    say('The service did not respond. Try again.', true)
  } finally {
    isSending = false
  }
})

addEventListener('hashchange', takeToken)
takeToken()
if (token === null)
  say('This link is incomplete. Open the complete link from the mail, or request a new one.', true)
