/** Runs in the browser, on the page that accepts an invitation to a project. */

import { finish, form, handleForm, post, report } from './form.js'

const find = (id) => form.querySelector(`#${id}`)
const fields = Object.fromEntries(['username', 'email', 'password', 'code'].map((name) => [name, find(name)]))

/** The challenge of a sign-in with a second factor, which is sent with the code; null before. */
let challenge = null

const isNew = () => form.elements.account.value === 'new'

/** Shows the fields of a new account, or those of a sign-in. */
const showFields = () => {
  challenge = null
  find('name').hidden = !isNew()
  find('factor').hidden = true
  fields.username.required = isNew()
  fields.code.required = false
  fields.password.autocomplete = isNew() ? 'new-password' : 'current-password'
}

const askForCode = (answer) => {
  challenge = answer.challenge
  find('factor').hidden = false
  fields.code.required = true
  fields.code.focus()
  report('Your account has a second factor.', false)
}

/** Reports a problem document (RFC 9457), and names and marks each field that it is about. */
const reportProblem = ({ detail, title, errors = [] }) => {
  const faults = errors.flatMap((error) => {
    const field = fields[error.pointer.slice(1)]
    return field === undefined ? [] : [{ field, text: `${field.labels[0].textContent} ${error.detail}.` }]
  })
  report(faults.length > 0 ? faults.map(({ text }) => text).join(' ') : (detail ?? title), true)
  for (const { field } of faults) field.setAttribute('aria-invalid', 'true')
  faults[0]?.field.focus()
}

/** The body of a successful response. For an error, reports it and returns null. */
const expectAnswer = async (response) => {
  const answer = response.status === 204 ? {} : await response.json()
  if (response.ok) return answer
  if (answer.code === 'second_factor_required') askForCode(answer)
  else reportProblem(answer)
  return null
}

const signIn = () => {
  const { email, password, code } = fields
  return challenge === null
    ? post('auth/login', { email: email.value, password: password.value })
    : post('auth/login/second-factor', { challenge, code: code.value })
}

const register = (token) => {
  const { username, email, password } = fields
  return post('auth/register', {
    username: username.value,
    email: email.value,
    password: password.value,
    invitation_token: token,
  })
}

/** The session is needed only to accept the invitation. */
const signOut = ({ access_token: accessToken }) => post('auth/logout', undefined, accessToken)

const accept = async (token) => {
  for (const field of Object.values(fields)) field.removeAttribute('aria-invalid')
  const isRegistration = isNew()
  const session = await expectAnswer(await (isRegistration ? register(token) : signIn()))
  if (session === null) return
  const joined =
    isRegistration || (await expectAnswer(await post('invitations/accept', { token }, session.access_token)))
  await signOut(session)
  if (joined !== null)
    finish(
      `You are a member of the project now. It is in the program that you use for Taskwright, and at ${new URL('docs', location)}.`,
    )
}

/** Shows the project, the role and the sender of the invitation. */
const describe = async (token) => {
  showFields()
  const answer = await expectAnswer(await post('invitations/lookup', { token }))
  if (answer === null) {
    form.hidden = true
    return
  }
  const { project_name: project, role, invited_by_name: sender, can_register: canRegister } = answer
  const article = role === 'editor' ? 'an' : 'a'
  find('invitation').textContent = `${sender} invited you to the project “${project}” as ${article} ${role}.`
  find('choice').hidden = !canRegister
}

// A code belongs to a challenge. Changing another field starts a new sign-in.
form.addEventListener('change', ({ target }) => {
  if (target !== fields.code) showFields()
})

// The browser would name one field at a time; the service names all that are wrong.
form.noValidate = true
handleForm(accept, 'This link is incomplete. Open the complete link from the email.', describe)
