/** Runs in the browser, on the page that undoes a change of an email address. */

import { finish, handleForm, post, report } from './form.js'

const undo = async (token) => {
  const response = await post('auth/email-change/undo', { token })
  const body = await response.json()
  if (!response.ok) {
    report(body.detail ?? body.title, true)
    return
  }
  finish('Your email address was restored. Now choose a new password.')
  location.replace(`password-reset#token=${encodeURIComponent(body.reset_token)}`)
}

handleForm(undo, 'This link is incomplete. Open the complete link from the email.')
