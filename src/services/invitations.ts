import { hashInvitationToken, newInvitationToken } from '../auth/opaque-tokens.ts'
import type { OpContext } from '../db/engine/context.ts'
import type { Created } from '../db/engine/idempotency.ts'
import { acceptInvitation, insertInvitation, selectInvitationPreview } from '../db/invitations.ts'
import { type ProjectRow, selectProject } from '../db/projects.ts'
import { mailboxOf } from '../domain/email-address.ts'
import type { Principal, SessionPrincipal } from '../domain/permissions.ts'
import type { ProjectRole } from '../domain/project-roles.ts'
import type { Mailer } from '../mail/mailer.ts'
import { expectDone, problems } from '../problems/problems.ts'

/** Who may accept an invitation: the setting INVITATIONS. */
export type InvitationMode = 'open' | 'registered' | 'off'

interface InvitationFields {
  readonly projectId: string
  readonly email: string
  readonly role: ProjectRole
}

/** Invitations to projects, by email. */
export interface Invitations {
  /** @throws Problem 403 when invitations are disabled, 429 after too many invitations */
  create(ctx: OpContext<Principal>, fields: InvitationFields): Promise<Created>
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
  async create(ctx, fields) {
    if (mode === 'off') throw problems.invitationsOff()
    if (!mailer.delivers) throw problems.invitationsUndeliverable()
    const { token, hash } = newInvitationToken()
    const mailbox = mailboxOf(fields.email)
    const invitation = { ...fields, mailbox, hash, maxPerDay }
    const { mail, ...created } = expectDone(await insertInvitation(ctx, invitation))
    if (mail !== null) mailer.sendInvitation({ to: fields.email, token, ...mail })
    return created
  },

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
    const projectId = hash && (await acceptInvitation(ctx, { hash, userId: ctx.principal.userId }))
    if (projectId === null) throw problems.invalidInvitation('/token')
    const project = await selectProject(ctx, projectId)
    // The project was deleted, or the caller removed from it, right after the invitation was accepted.
    if (project.outcome === 'missing') throw problems.invalidInvitation('/token')
    return expectDone(project)
  },
})
