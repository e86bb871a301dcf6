/** Runs in the browser. Shared by the pages that are opened from links in emails. Each has one form. */

export const form = document.querySelector('form')
const outcome = document.querySelector('#outcome')

/** The single-use token of the link; null if the link is incomplete or was used. */
let token = null

let isSending = false

export const report = (text, isError) => {
  outcome.className = isError ? 'fault' : ''
  outcome.textContent = text
}

/** Removes the token and hides the form. */
export const finish = (text) => {
  token = null
  form.reset()
  form.hidden = true
  report(text, false)
}

/** Removes the token from the address, so that neither the history nor the screen shows it. */
const takeToken = (show) => {
  const found = new URLSearchParams(location.hash.slice(1)).get('token')
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  if (!found) return
  token = found
  form.hidden = false
  report('', false)
  void attempt(() => show(found))
}

/** Runs a request, and reports if the service does not respond. */
const attempt = async (request) => {
  try {
    await request()
  } catch {
    report('The service did not respond. Try again.', true)
  }
}

/**
 * Shows the form if the link has a token, and calls `send` with it when the form is submitted. `show` is called with each token
 * that the page gets.
 */
export const handleForm = (send, incompleteLink, show = () => undefined) => {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (isSending) return
    isSending = true
    report('', false)
    await attempt(() => send(token))
    isSending = false
  })
  addEventListener('hashchange', () => takeToken(show))
  takeToken(show)
  if (token === null) report(incompleteLink, true)
}

/** Sends JSON, or no body; with a bearer token if there is one. */
export const post = (path, body, bearer) =>
  fetch(path, {
    method: 'POST',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
    },
    body: JSON.stringify(body),
  })
