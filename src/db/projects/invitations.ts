import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import { isHigherRole, type ProjectRole } from '../../domain/shared/project-roles.ts'
import { onlyBranch } from '../access/branches.ts'
import { allowsProject, type CallerPlaceholders } from '../access/permissions.ts'
import { deletionInBatches } from '../statements/batches.ts'
import { builtStatement } from '../statements/built-statement.ts'
import type { StatementContext, TransactionContext } from '../statements/context.ts'
import { parameter, type ParametersOf } from '../statements/parameters.ts'
import { pipeline } from '../engine/pipeline.ts'
import { expectRow, firstRow, rowLock } from '../statements/row-statements.ts'
import { query, statement } from '../statements/statement.ts'
import { retentionTime } from '../shared/retention.ts'
import { newest, selectPage } from '../lists/list.ts'
import { grantRole } from './memberships.ts'
import { lockProject, lockToClose, type ManagedProject, type ProjectFacts } from './rows.ts'
import { invitationJson, invitationPreviewJson } from '../shared/read-models.ts'
import { aliasedTable, and, eq, type SQL, sql } from '../schema/drizzle.ts'
import { invitationMails, invitations, projectMembers, projects, users } from '../schema/tables.ts'

const invitation = aliasedTable(invitations, 'invitation')
const item = aliasedTable(invitations, 'item')
const mail = aliasedTable(invitationMails, 'mail')
const project = aliasedTable(projects, 'project')
const sender = aliasedTable(users, 'sender')

/** How long an invitation can be accepted. */
export const invitationLifetime = sql.raw(`interval '7 days'`)

/**
 * Whether the row `invitation` to the row `project` can be accepted: it has not expired, and its sender may still manage the
 * project. A demoted manager could otherwise return, or let others in, with earlier invitations.
 */
const isValid = ({ expires_at, invited_by }: typeof invitations, invitedProject: typeof projects): SQL => {
  const asSender: CallerPlaceholders = {
    caller: sql`${invited_by}`,
    is_admin: sql`exists (
      select from users where ${users.id} = ${invited_by} and ${users.role} = 'admin' and ${users.deleted_at} is null)`,
    in_session: sql`false`,
  }
  return sql`(${expires_at} > now() and ${allowsProject('project.manage', asSender, invitedProject)})`
}

const lockSender = rowLock('invitations.lock_sender', users, 'no key update')

// Concurrent invitations of a mailbox by several senders.
const lockMailbox = statement(
  'invitations.lock_mailbox',
  { mailbox: 'text' },
  {},
  (p) =>
    sql`select pg_advisory_xact_lock(hashtext('invitation_mails'), hashtext(${p.mailbox}))::text as locked`,
)

const selectSent = statement(
  'invitations.select_sent',
  { sender: 'uuid', mailbox: 'text' },
  { sender_name: 'text', by_sender: 'int', to_mailbox: 'int' },
  (p) => {
    const sent = (condition: SQL): SQL => sql`(
      select count(*)::int from invitation_mails mail where ${condition} and ${mail.created_at} > now() - interval '1 day')`
    return sql`
      select ${sender.display_name} as sender_name,
        ${sent(sql`${mail.invited_by} = ${p.sender}`)} as by_sender, ${sent(sql`${mail.mailbox} = ${p.mailbox}`)} as to_mailbox
      from users sender where ${sender.id} = ${p.sender}`
  },
)

/** What the limits of an invitation depend on. */
export interface SentInvitations {
  readonly project: ProjectFacts | null
  readonly senderName: string
  /** Invitations of the last day. */
  readonly bySender: number
  readonly toMailbox: number
}

/** Locks what counts an invitation by the caller, and its project, and reads them under the locks. */
export const lockInviting = async (
  tx: TransactionContext<Principal>,
  { projectId, mailbox }: { readonly projectId: string; readonly mailbox: string },
): Promise<SentInvitations> => {
  const { db, principal } = tx
  const { project, sent } = await pipeline(tx.db, {
    sender: () => lockSender(db, { id: principal.userId }),
    project: () => lockProject(tx, projectId, 'use'),
    mailbox: () => lockMailbox(db, { mailbox }),
    sent: () => selectSent(db, { sender: principal.userId, mailbox }),
  })
  const { sender_name: senderName, by_sender: bySender, to_mailbox: toMailbox } = expectRow(sent)
  return { project, senderName, bySender, toMailbox }
}

/** A new invitation. */
interface NewInvitation {
  /** In canonical form. */
  readonly email: string
  /** The mailbox that the address probably belongs to. */
  readonly mailbox: string
  readonly role: ProjectRole
  /** SHA-256 of the token. */
  readonly hash: Buffer
}

const upsert = builtStatement(
  'invitations.upsert',
  {
    id: 'uuid',
    project_id: 'uuid',
    email: 'text',
    role: 'text',
    hash: 'bytes',
    invited_by: 'uuid',
  } satisfies ParametersOf<typeof invitations>,
  (db, { project_id, email, ...p }) => {
    const values = {
      ...p,
      created_at: sql`now()`,
      expires_at: sql`now() + ${invitationLifetime}`,
    }
    return db
      .insert(invitations)
      .values({ ...values, project_id, email })
      .onConflictDoUpdate({ target: [invitations.project_id, invitations.email], set: values })
  },
)

const insertMail = builtStatement(
  'invitation_mails.insert',
  { id: 'uuid', mailbox: 'text', invited_by: 'uuid' },
  (db, p) => db.insert(invitationMails).values({ id: p.id, mailbox: p.mailbox, invited_by: p.invited_by }),
)

/** Inserts an invitation to a project, in place of an earlier one to the same address, and counts its email. */
export const insertInvitation = async (
  { db, principal }: TransactionContext<Principal>,
  id: string,
  { id: project_id }: ManagedProject,
  { mailbox, ...fields }: NewInvitation,
): Promise<void> => {
  const invited_by = principal.userId
  await pipeline(db, {
    invitation: () => upsert(db, { ...fields, id, project_id, invited_by }),
    mail: () => insertMail(db, { id, mailbox, invited_by }),
  })
}

const reread = query(
  'invitations.reread',
  { id: 'uuid' },
  { json: 'text' },
  (p) =>
    sql`select ${invitationJson(invitation)} as json from invitations invitation where ${invitation.id} = ${p.id}`,
)

/** An invitation that the transaction has written. */
export const viewInvitation = async (
  tx: TransactionContext,
  id: string,
): Promise<{ readonly json: string }> => expectRow(await reread(tx, { id }))

/** A page of the valid invitations to a project that the caller manages. */
export const selectInvitations = (
  { db, principal }: StatementContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'invitations',
      table: invitations,
      branches: (caller) =>
        onlyBranch(sql`${item.project_id} = ${parameter('project_id', 'uuid')} and exists (
          select from projects project where ${project.id} = ${item.project_id}
            and ${allowsProject('project.manage', caller, project)} and ${isValid(item, project)})`),
      values: { project_id: projectId },
      ...newest,
      json: invitationJson,
    },
    principal,
    page,
  )

const remove = builtStatement('invitations.delete', { id: 'uuid', project_id: 'uuid' }, (db, p) =>
  db
    .delete(invitations)
    .where(and(eq(invitations.id, p.id), eq(invitations.project_id, p.project_id)))
    .returning({ id: invitations.id }),
)

/** Deletes an invitation to a project. Whether there was one. */
export const removeInvitation = async (
  { db }: TransactionContext,
  { id: project_id }: ManagedProject,
  id: string,
): Promise<boolean> => (await remove(db, { id, project_id })).length > 0

const select = query(
  'invitations.select_preview',
  { hash: 'bytes', can_register: 'bool' },
  { json: 'text' },
  (p) => sql`
    select ${invitationPreviewJson(invitation, project, sender, sql`${p.can_register}`)} as json
    from invitations invitation join projects project on ${project.id} = ${invitation.project_id}
      join users sender on ${sender.id} = ${invitation.invited_by}
    where ${invitation.hash} = ${p.hash} and ${isValid(invitation, project)}`,
)

/** The preview of a valid invitation as JSON text; null if there is none. */
export const selectInvitationPreview = async (
  ctx: StatementContext,
  { hash, canRegister }: { readonly hash: Buffer; readonly canRegister: boolean },
): Promise<string | null> => {
  const [row] = await select(ctx, { hash, can_register: canRegister })
  return row?.json ?? null
}

const selectHas = query(
  'invitations.select_has',
  { hash: 'bytes' },
  { id: 'text' },
  (p) => sql`
  select ${invitation.id}::text from invitations invitation join projects project on ${project.id} = ${invitation.project_id}
  where ${invitation.hash} = ${p.hash} and ${isValid(invitation, project)}`,
)

/** Whether there is a valid invitation with this hash. */
export const hasInvitation = async (ctx: StatementContext, hash: Buffer): Promise<boolean> =>
  (await selectHas(ctx, { hash })).length > 0

const selectPlace = builtStatement('invitations.select_project', { hash: 'bytes' }, (db, p) =>
  db.select({ project_id: invitations.project_id }).from(invitations).where(eq(invitations.hash, p.hash)),
)

const selectValid = builtStatement('invitations.select_valid', { hash: 'bytes', caller: 'uuid?' }, (db, p) =>
  db
    .select({
      id: invitations.id,
      project_id: invitations.project_id,
      role: invitations.role,
      own_role: projectMembers.role,
    })
    .from(invitations)
    .innerJoin(projects, eq(projects.id, invitations.project_id))
    .leftJoin(
      projectMembers,
      and(eq(projectMembers.project_id, invitations.project_id), eq(projectMembers.user_id, p.caller)),
    )
    .where(and(eq(invitations.hash, p.hash), isValid(invitations, projects))),
)

/** An invitation that can be accepted. */
export interface ValidInvitation {
  readonly id: string
  readonly project_id: string
  readonly role: ProjectRole
  /** The role of the caller in the project; null for none. */
  readonly own_role: ProjectRole | null
}

/** Locks the project of an invitation with this hash, and reads the invitation under the lock, if it is valid. */
export const lockInvitation = async (
  { db, principal }: TransactionContext,
  hash: Buffer,
): Promise<ValidInvitation | null> => {
  const [place] = await selectPlace(db, { hash })
  if (place === undefined) return null
  const { rows } = await pipeline(db, {
    lock: () => lockToClose(db, { id: place.project_id }),
    rows: () => selectValid(db, { hash, caller: principal?.userId ?? null }),
  })
  return firstRow(rows)
}

/** Makes a user a member by a locked invitation, which is thereby used. A higher role of their own stays. */
export const join = async (
  tx: TransactionContext,
  userId: string,
  { id, project_id, role, own_role }: ValidInvitation,
): Promise<void> => {
  const isRaised = isHigherRole(role, own_role)
  await pipeline(tx.db, {
    invitation: () => remove(tx.db, { id, project_id }),
    role: () => (isRaised ? grantRole(tx, { projectId: project_id, userId, role }) : undefined),
  })
}

/** Deletes expired invitations. */
export const removeExpiredInvitations = deletionInBatches('invitations.delete_expired', {
  parameters: {},
  table: invitations,
  condition: () => sql`expires_at <= ${retentionTime}`,
})

/** Deletes emails that no longer count towards a limit. */
export const removeOldInvitationMails = deletionInBatches('invitation_mails.delete_old', {
  parameters: {},
  table: invitationMails,
  condition: () => sql`${invitationMails.created_at} <= ${retentionTime} - interval '1 day'`,
})
