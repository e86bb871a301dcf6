import { hashInvitationToken, newInvitationToken } from '../../auth/opaque-tokens.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { last } from '../../db/engine/transaction.ts'
import {
  insertInvitation,
  join,
  lockInvitation,
  lockInviting,
  removeInvitation,
  selectInvitationPreview,
  selectInvitations,
  viewInvitation,
} from '../../db/projects/invitations.ts'
import { lockUser } from '../../db/shared/lock-member.ts'
import { lockProject, type ProjectRow, readProject, viewProject } from '../../db/projects/rows.ts'
import { mailboxOf } from '../../domain/accounts/email-address.ts'
import type { Created } from '../../domain/shared/idempotency.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal, SessionPrincipal } from '../../domain/shared/permissions.ts'
import type { ProjectRole } from '../../domain/shared/project-roles.ts'
import type { Mailer } from '../../mail/mailer.ts'
import { problems } from '../../problems/problems.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectMay, expectSeen } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** Who may accept an invitation: the setting INVITATIONS. */
export type InvitationMode = 'open' | 'registered' | 'off'

interface InvitationFields {
  readonly projectId: string
  readonly email: string
  readonly role: ProjectRole
}

/** An invitation in the path of a request. */
interface InvitationPath {
  readonly projectId: string
  readonly id: string
}

/** Invitation emails to one mailbox in a day, from all users. */
const maxMailsPerMailbox = 5

/** Invitations to projects, by email. */
export interface Invitations {
  /** A page of the valid invitations to a project. @throws Problem 404, 403 */
  list(ctx: OpContext<Principal>, projectId: string, page: PageRequest): Promise<Page>
  /** @throws Problem 403 when invitations are disabled, 429 after too many invitations */
  create(ctx: OpContext<Principal>, fields: InvitationFields): Promise<Created>
  /** @throws Problem 404, 403 */
  revoke(ctx: OpContext<Principal>, path: InvitationPath): Promise<void>
  /** @throws Problem 422 for an invalid token */
  lookUp(ctx: OpContext, token: string): Promise<string>
  /** Joins the caller to the project. @throws Problem 422 for an invalid token */
  accept(ctx: OpContext<SessionPrincipal>, token: string): Promise<ProjectRow>
}

interface Deps {
  readonly mode: InvitationMode
  readonly maxPerDay: number
  readonly isRegistrationOpen: boolean
  readonly mailer: Mailer
}

export const createInvitations = ({ mode, maxPerDay, isRegistrationOpen, mailer }: Deps): Invitations => ({
  async list(ctx, projectId, page) {
    expectMay('project.manage', expectSeen('project.see', await readProject(ctx, projectId)))
    return selectInvitations(ctx, projectId, page)
  },

  async create(ctx, { projectId, ...fields }) {
    if (mode === 'off') throw problems.invitationsOff()
    if (!mailer.delivers) throw problems.invitationsUndeliverable()
    const { token, hash } = newInvitationToken()
    const mailbox = mailboxOf(fields.email)
    return idempotent(ctx, async (tx, id) => {
      const { project, senderName, bySender, toMailbox } = await lockInviting(tx, { projectId, mailbox })
      const managed = expectMay('project.manage', expectSeen('project.see', project))
      if (bySender >= maxPerDay) throw problems.invitedMany()
      if (toMailbox >= maxMailsPerMailbox) throw problems.addressInvitedOften()
      tx.afterCommit(() =>
        mailer.sendInvitation({
          to: fields.email,
          token,
          projectName: managed.name,
          invitedByName: senderName,
        }),
      )
      const { view } = await pipeline(tx.db, {
        invitation: () => insertInvitation(tx, id, managed, { ...fields, mailbox, hash }),
        view: () => viewInvitation(tx, id),
      })
      return view
    })
  },

  revoke: (ctx, { projectId, id }) =>
    transaction(ctx, async (tx) => {
      const project = expectSeen('project.see', await lockProject(tx, projectId, 'use'))
      const managed = expectMay('project.manage', project)
      // Only managers learn whether the invitation exists.
      if (!(await removeInvitation(tx, managed, id))) throw problems.notFound()
    }),

  async lookUp(ctx, token) {
    if (mode === 'off') throw problems.invitationsOff()
    const hash = hashInvitationToken(token)
    const canRegister = isRegistrationOpen || mode === 'open'
    const json = hash && (await selectInvitationPreview(ctx, { hash, canRegister }))
    if (json === null) throw problems.invalidInvitation('/token')
    return json
  },

  async accept(ctx, token) {
    if (mode === 'off') throw problems.invitationsOff()
    const hash = hashInvitationToken(token)
    if (hash === null) throw problems.invalidInvitation('/token')
    return transaction(ctx, async (tx) => {
      const { userId } = tx.principal
      const { invitation } = await pipeline(tx.db, {
        user: () => lockUser(tx.db, { id: userId }),
        invitation: () => lockInvitation(tx, hash),
      })
      if (invitation === null) throw problems.invalidInvitation('/token')
      await join(tx, userId, invitation)
      return last(viewProject(tx, invitation.project_id))
    })
  },
})
