/** Runs in the browser, on the start page: shows who is signed in to Swagger UI in this tab. */

const status = document.querySelector('#signed-in')
const signedOut = status.innerHTML

/** Null if nobody is signed in, or the browser blocks site data. */
const readSession = () => {
  try {
    return JSON.parse(sessionStorage.getItem(status.dataset.key))
  } catch {
    return null
  }
}

// Also when the browser shows the page again after another one.
addEventListener('pageshow', () => {
  const session = readSession()
  if (session === null) status.innerHTML = signedOut
  else status.textContent = session.user ? `Signed in as ${session.user}.` : 'Signed in with a token.'
})
