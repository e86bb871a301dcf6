/** Runs in the browser, on the page that resets a forgotten password. */

import { finish, form, handleForm, post, report } from './form.js'

const [password, repeated] = form.querySelectorAll('input')

/** Reports an error of a field, and focuses the field. */
const refuse = (field, text) => {
  report(text, true)
  field.setAttribute('aria-invalid', 'true')
  field.focus()
}

/** The text of a problem document (RFC 9457). */
const textOf = async (response) => {
  const { detail, title, errors = [] } = await response.json()
  const faults = errors.map(
    (fault) => `The ${fault.pointer === '/token' ? 'link' : 'password'} ${fault.detail}.`,
  )
  return faults.length > 0 ? faults.join(' ') : (detail ?? title)
}

const reset = async (token) => {
  for (const field of [password, repeated]) field.removeAttribute('aria-invalid')
  if (password.value !== repeated.value) {
    refuse(repeated, 'The passwords do not match.')
    return
  }
  const response = await post('auth/password/reset', { token, new_password: password.value })
  if (!response.ok) {
    const text = await textOf(response)
    if (response.status === 400) refuse(password, text)
    else report(text, true)
    return
  }
  finish(
    'Your password was changed, and all sessions of your account have ended. Sign in with the new password.',
  )
}

handleForm(reset, 'This link is incomplete. Open the complete link from the email, or request a new one.')
