import type { components } from '../../generated/openapi.ts'
import type { Credentials } from '../auth/credentials.ts'
import { newUndoToken } from '../auth/opaque-tokens.ts'
import type { PasswordHasher } from '../auth/passwords.ts'
import type { ReauthenticateByPassword } from '../services/reauthenticate.ts'
import type { Database } from '../db/engine/client.ts'
import { selectTasks } from '../db/task-list.ts'
import { deleteUser, insertUser, selectUser, selectUsers, updateUser, type UserRow } from '../db/users.ts'
import { scopesOfExpansions } from '../domain/expansions.ts'
import { jsonText } from '../contract/json-text.ts'
import { isInSession } from '../domain/permissions.ts'
import { taskList } from '../domain/task-filter.ts'
import type { Mailer } from '../mail/mailer.ts'
import { created, type Handlers, type Input, quoteETag } from '../contract/operation.ts'
import type { Paging } from '../http/paging.ts'
import { expectDone, expectScopes, problems } from '../problems/problems.ts'
import type { Sweeper } from '../jobs/sweeper.ts'

interface Deps {
  readonly db: Database
  readonly paging: Paging
  readonly passwords: PasswordHasher
  readonly reauthenticateByPassword: ReauthenticateByPassword
  readonly credentials: Credentials
  readonly mailer: Mailer
  readonly sweeper: Sweeper
}

type User = components['schemas']['User']

/** The operations of the contract's tag `users`. */
export const userHandlers = ({
  db,
  paging,
  passwords,
  reauthenticateByPassword,
  credentials,
  mailer,
  sweeper,
}: Deps) => {
  const changeUser = async ({
    params: { user_id: userId },
    body: { current_password: password, ...change },
    principal,
    client,
    ifMatch,
  }: Input<'replaceUser'> | Input<'updateUser'>) => {
    if (password !== undefined) {
      if (!isInSession(principal)) throw problems.insufficientScope('session')
      await reauthenticateByPassword(principal, client, password, '/current_password')
    }
    const { token, hash } = newUndoToken()
    const user = expectDone(await updateUser(db, principal, userId, change, client, ifMatch, hash))
    await credentials.forgetUser(userId)
    if (user.previousEmail !== null) {
      const isOwn = userId === principal.userId
      mailer.sendEmailChanged({ to: user.previousEmail, undoToken: isOwn ? token : null })
    }
    return userAnswer(user)
  }

  return {
    async listUsers({ path, principal, query }) {
      const { filter, request, answer } = paging(path, principal, query)
      return answer(await selectUsers(db, principal, filter, request))
    },

    async createUser({ body, principal, client, idempotency }) {
      const { username, email, password, display_name: displayName = username, role = 'member' } = body
      const newUser = async () => ({
        username,
        email,
        displayName,
        role,
        passwordHash: await passwords.hash(password),
      })
      const user = expectDone(await insertUser(db, principal, newUser, client, idempotency))
      return created<User>(`/users/${user.id}`, quoteETag(1), user)
    },

    async getUser({ params, principal }) {
      return userAnswer(expectDone(await selectUser(db, principal, params.user_id)))
    },

    replaceUser: changeUser,

    updateUser: changeUser,

    async deleteUser({ params, principal, client, ifMatch }) {
      expectDone(await deleteUser(db, principal, params.user_id, client, ifMatch))
      await credentials.forgetUser(params.user_id)
      sweeper.wake()
      return { status: 204 }
    },

    async listUserTasks({ path, params, principal, query }) {
      const { filter, asOf, request, answer } = paging(path, principal, query)
      const list = taskList(filter, { now: asOf, userId: principal.userId }, params.user_id)
      if (list === null) throw problems.sortedTwice()
      expectScopes(scopesOfExpansions(list.expand), principal)
      expectDone(await selectUser(db, principal, params.user_id))
      return answer(await selectTasks(db, principal, list, request))
    },

    async getCurrentUser({ principal }) {
      const user = await selectUser(db, principal, principal.userId)
      // Deleted after the token was checked, or by another instance a moment ago.
      if (user.outcome === 'missing') throw problems.invalidToken()
      return userAnswer(expectDone(user))
    },
  } satisfies Partial<Handlers>
}

/** Two callers may see different bytes of the same version, since not everybody sees the address. */
const userAnswer = ({ json, version, shows_email }: UserRow) => ({
  status: 200 as const,
  headers: { etag: quoteETag(shows_email ? version : `${version}-public`) },
  body: jsonText<User>(json),
})
