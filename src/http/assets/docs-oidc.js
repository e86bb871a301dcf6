/**
 * Runs in the browser: signs Swagger UI in with identity providers. docs.js keeps the session; the two exchange events on the element
 * that says who is signed in.
 */

const status = document.querySelector('#signed-in')

const addressOf = (path) => new URL(path, location).href

/** Null if the browser blocks site data. */
const storage = (() => {
  try {
    return sessionStorage
  } catch {
    return null
  }
})()

/** The request to an identity provider that this tab has begun: what only the tab knows. */
const requestKey = `${status.dataset.key} oidc`

const post = (path, body) =>
  fetch(addressOf(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

const randomText = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

const showFailure = ({ detail, request_id }) => {
  status.textContent = `Sign-in failed: ${detail}${request_id ? ` (request ${request_id})` : ''}`
}

/** Goes on to the provider, which comes back to this page. */
const beginSignIn = async (provider) => {
  const request = { verifier: randomText(), state: randomText() }
  storage?.setItem(requestKey, JSON.stringify(request))
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(request.verifier))
  const response = await post(`auth/oidc/${provider}/authorizations`, {
    purpose: 'sign_in',
    return_to: addressOf('docs'),
    code_challenge: base64url(digest),
    state: request.state,
  })
  const body = await response.json()
  if (response.ok) location.assign(body.authorization_url)
  else showFailure(body)
}

/** Signs in with what the provider has come back with, if it has, to a request of this tab. */
const finishSignIn = async () => {
  const answer = new URLSearchParams(location.search)
  const request = JSON.parse(storage?.getItem(requestKey) ?? 'null')
  if (!answer.has('state') || request?.state !== answer.get('state')) return
  storage.removeItem(requestKey)
  history.replaceState(null, '', location.pathname + location.hash)
  if (answer.has('error')) {
    showFailure({ detail: answer.get('error'), request_id: answer.get('request_id') })
    return
  }
  let response = await post('auth/oidc/exchange', {
    code: answer.get('code'),
    code_verifier: request.verifier,
  })
  let body = await response.json()
  if (body.code === 'second_factor_required') {
    const code = prompt('Code from your authenticator, or a recovery code') ?? ''
    response = await post('auth/login/second-factor', { challenge: body.challenge, code })
    body = await response.json()
  }
  if (response.ok) status.dispatchEvent(new CustomEvent('tokens', { detail: body }))
  else showFailure(body)
}

/** A button for each identity provider. Browsers have the digest of PKCE only on secure pages. */
const offerProviders = async () => {
  if (!crypto.subtle) return
  const response = await fetch(addressOf('auth/oidc'))
  if (!response.ok) return
  const { providers } = await response.json()
  for (const { id, name } of providers) {
    const button = document.createElement('button')
    button.textContent = `Sign in with ${name}`
    button.addEventListener('click', () => beginSignIn(id))
    status.before(button)
  }
}

status.addEventListener(
  'ready',
  () => {
    const report = ({ message }) => showFailure({ detail: message })
    finishSignIn().catch(report)
    offerProviders().catch(report)
  },
  { once: true },
)
