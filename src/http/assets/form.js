/** Runs in the browser. Shared by the pages that a link in a mail opens, each of which has one form. */

export const form = document.querySelector('form')
const outcome = document.querySelector('#outcome')

/** What the link allows, once; null when the link is incomplete or has been used. */
let token = null

let isSending = false

export const report = (text, isError) => {
  outcome.className = isError ? 'fault' : ''
  outcome.textContent = text
}

/** Hides the form for good. */
export const finish = (text) => {
  token = null
  form.reset()
  form.hidden = true
  report(text, false)
}

/** Removes the token from the address, so that neither the history nor the screen shows it. */
const takeToken = () => {
  const found = new URLSearchParams(location.hash.slice(1)).get('token')
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  if (!found) return
  token = found
  form.hidden = false
  report('', false)
}

/** Shows the form if the link has a token, and calls `send` with it when the form is submitted. */
export const handleForm = (send, incompleteLink) => {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (isSending) return
    isSending = true
    report('', false)
    try {
      await send(token)
    } catch {
      report('The service did not respond. Try again.', true)
    } finally {
      isSending = false
    }
  })
  addEventListener('hashchange', takeToken)
  takeToken()
  if (token === null) report(incompleteLink, true)
}

export const post = (path, body) =>
  fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
