import type { Outcome } from '../domain/outcome.ts'
import type { Principal } from '../domain/permissions.ts'
import type { ProjectRole } from '../domain/project-roles.ts'
import { onlyBranch } from './access/branches.ts'
import { allowsProject, type CallerPlaceholders } from './access/permissions.ts'
import { deletionInBatches } from './engine/batches.ts'
import type { OpContext, StatementContext } from './engine/context.ts'
import { creation } from './engine/creation.ts'
import type { Created } from './engine/idempotency.ts'
import { checkedOutcome, outcomeOfDeletion, readOutcome, setActorAndReturnDone } from './engine/outcome.ts'
import { parameter } from './engine/parameters.ts'
import { query } from './engine/statement.ts'
import { retentionTime } from './engine/retention.ts'
import { createdAt, newestFirst, type Page, type PageRequest, selectPage } from './lists/list.ts'
import { invitationJson, invitationPreviewJson } from './read-models.ts'
import { assignments, columnsOf, insertion } from './schema/columns.ts'
import { type SQL, sql } from './schema/drizzle.ts'

/** How long an invitation can be accepted. */
export const invitationLifetime = sql.raw(`interval '7 days'`)

const maxMailsPerMailbox = sql.raw('5')

const invitation = sql.raw('invitation')
const project = sql.raw('project')
const sender = sql.raw('sender')

/**
 * Whether the row `invitation` to the row `project` can be accepted: it has not expired, and its sender may still manage the
 * project. A demoted manager could otherwise return, or let others in, with earlier invitations.
 */
const isValid = (row: SQL, ofProject: SQL): SQL => {
  const { expires_at, invited_by } = columnsOf<'invitations'>(row)
  const asSender: CallerPlaceholders = {
    caller: invited_by,
    is_admin: sql`exists (
      select from users where users.id = ${invited_by} and users.role = 'admin' and ${columnsOf<'users'>(sql`users`).deleted_at} is null)`,
    in_session: sql`false`,
  }
  return sql`(${expires_at} > now() and ${allowsProject('project.manage', asSender, ofProject)})`
}

/** A new invitation. */
interface NewInvitation {
  readonly projectId: string
  /** In canonical form. */
  readonly email: string
  /** The mailbox that the address probably belongs to. */
  readonly mailbox: string
  readonly role: ProjectRole
  /** SHA-256 of the token. */
  readonly hash: Buffer
  /** Maximum number of invitations per sender and day. */
  readonly maxPerDay: number
}

/** A created invitation. `mail` is the content of its email; null if the creation is replayed. */
export interface CreatedInvitation extends Created {
  readonly mail: { readonly projectName: string; readonly invitedByName: string } | null
}

const insert = creation(
  'invitations.insert',
  { project_id: 'uuid', email: 'text', mailbox: 'text', role: 'text', hash: 'bytes', max_per_day: 'int' },
  { outcome: 'text', json: 'text?', project_name: 'text', invited_by_name: 'text' },
  (p) => {
    const values = {
      id: p.id,
      role: p.role,
      hash: p.hash,
      invited_by: p.caller,
      created_at: sql`now()`,
      expires_at: sql`now() + ${invitationLifetime}`,
    }
    const row = insertion<'invitations'>({ ...values, project_id: sql`checked.id`, email: p.email })
    const mail = insertion<'invitation_mails'>({
      id: sql`id`,
      mailbox: p.mailbox,
      invited_by: sql`invited_by`,
    })
    return {
      // The lock on the sender serializes their concurrent requests, so that each invitation counts towards the limit.
      parts: sql`
        sender as materialized (
          select * from users where id = ${p.caller} for no key update
        ), project as (
          select * from projects project
          where id = ${p.project_id} and ${allowsProject('project.see', p, project)}
            and (select count(*) from sender) is not null
          for key share
        ), checked as (
          select id, name, ${checkedOutcome(p, {
            allowed: allowsProject('project.manage', p, project),
            etag: null,
            refusals: sql`
              when count_invitations_by(${p.caller}) >= ${p.max_per_day} then 'invited_many'
              when count_invitations_to(${p.mailbox}) >= ${maxMailsPerMailbox} then 'address_invited_often'`,
          })} as outcome
          from project
        ), invitation as (
          insert into invitations as invitation (${row.columns}) select ${row.values} from checked where outcome = 'done'
          on conflict (project_id, email) do update set ${assignments<'invitations'>(values)}
          returning *
        ), mail as (
          insert into invitation_mails (${mail.columns}) select ${mail.values} from invitation
        ), created as (
          select id, ${invitationJson(invitation)} as json from invitation
        )`,
      select: sql`
        select outcome, json, checked.name as project_name, ${columnsOf<'users'>(sender).display_name} as invited_by_name
        from checked cross join sender left join created on true`,
    }
  },
)

/**
 * Invites an address to a project, and replaces an earlier invitation. Does not read accounts, so that it cannot reveal whether
 * the address has one.
 */
export const insertInvitation = async (
  ctx: OpContext<Principal>,
  { projectId, email, mailbox, role, hash, maxPerDay }: NewInvitation,
): Promise<Outcome<CreatedInvitation>> => {
  const values = { project_id: projectId, email, mailbox, role, hash, max_per_day: maxPerDay }
  const result = await insert(ctx, () => values)
  if (result.replayed) return { outcome: 'done', value: { ...result, mail: null } }
  const checked = readOutcome(result.row)
  if (checked.outcome !== 'done') return checked
  const { json, project_name: projectName, invited_by_name: invitedByName } = checked.value
  if (json === null) throw new Error('The invitation was not created')
  const mail = { projectName, invitedByName }
  return { outcome: 'done', value: { id: result.id, json, replayed: false, mail } }
}

const check = query(
  'invitations.check_project',
  { project_id: 'uuid' },
  { outcome: 'text' },
  (p) => sql`
    select ${checkedOutcome(p, { allowed: allowsProject('project.manage', p, project), etag: null })} as outcome
    from projects project where id = ${p.project_id} and ${allowsProject('project.see', p, project)}`,
)

/** Whether the caller may read the invitations to a project. */
export const checkInvitations = async (
  ctx: OpContext<Principal>,
  projectId: string,
): Promise<Outcome<unknown>> => {
  const [row] = await check(ctx, { project_id: projectId })
  return readOutcome(row)
}

/** A page of the valid invitations to a project that the caller manages. */
export const selectInvitations = (
  { db, principal }: OpContext<Principal>,
  projectId: string,
  page: PageRequest,
): Promise<Page> =>
  selectPage(
    db,
    {
      name: 'invitations',
      from: sql`invitations item`,
      branches: (caller) =>
        onlyBranch(sql`item.project_id = ${parameter('project_id', 'uuid')} and exists (
          select from projects project where project.id = item.project_id
            and ${allowsProject('project.manage', caller, project)} and ${isValid(sql`item`, project)})`),
      filters: [],
      values: { project_id: projectId },
      sortFields: { created_at: createdAt },
      order: newestFirst,
      json: (row) => invitationJson(row),
    },
    principal,
    page,
  )

// Only managers learn whether the invitation exists. The deletion itself decides, since it may be accepted concurrently.
const remove = query('invitations.delete', { id: 'uuid', project_id: 'uuid' }, { outcome: 'text' }, (p) => {
  const { id, project_id } = columnsOf<'invitations'>(sql`invitations`)
  return sql`
      with checked as (
        select id, ${checkedOutcome(p, { allowed: allowsProject('project.manage', p, project), etag: null })} as outcome
        from projects project where id = ${p.project_id} and ${allowsProject('project.see', p, project)}
      ), deleted as (
        delete from invitations using checked
        where ${id} = ${p.id} and ${project_id} = checked.id and checked.outcome = 'done' returning ${id}
      )
      select ${outcomeOfDeletion(sql`not exists (select from deleted)`)} as outcome
      from checked`
})

/** Revokes an invitation to a project. */
export const deleteInvitation = async (
  ctx: OpContext<Principal>,
  { projectId, id }: { readonly projectId: string; readonly id: string },
): Promise<Outcome<unknown>> => {
  const [row] = await remove(ctx, { id, project_id: projectId })
  return readOutcome(row)
}

const select = query(
  'invitations.select_preview',
  { hash: 'bytes', can_register: 'bool' },
  { json: 'text' },
  (p) => {
    const { hash, project_id, invited_by } = columnsOf<'invitations'>(invitation)
    return sql`
      select ${invitationPreviewJson(invitation, project, sender, p.can_register)} as json
      from invitations invitation join projects project on project.id = ${project_id} join users sender on sender.id = ${invited_by}
      where ${hash} = ${p.hash} and ${isValid(invitation, project)}`
  },
)

/** The preview of a valid invitation as JSON text; null if there is none. */
export const selectInvitationPreview = async (
  ctx: OpContext,
  { hash, canRegister }: { readonly hash: Buffer; readonly canRegister: boolean },
): Promise<string | null> => {
  const [row] = await select(ctx, { hash, can_register: canRegister })
  return row?.json ?? null
}

const selectHas = query('invitations.select_has', { hash: 'bytes' }, { id: 'text' }, (p) => {
  const { id, hash, project_id } = columnsOf<'invitations'>(invitation)
  return sql`
    select ${id}::text from invitations invitation join projects project on project.id = ${project_id}
    where ${hash} = ${p.hash} and ${isValid(invitation, project)}`
})

/** Whether there is a valid invitation with this hash. */
export const hasInvitation = async (ctx: OpContext, hash: Buffer): Promise<boolean> =>
  (await selectHas(ctx, { hash })).length > 0

/**
 * Parts of a statement that use the valid invitation with this hash: `invitation` is its deleted row, if there is one. Locks the
 * project first, since joining changes its memberships. Of two concurrent statements, the second finds the row deleted.
 */
const usedInvitation = (hash: SQL): SQL => {
  const invited = columnsOf<'invitations'>(invitation)
  const used = columnsOf<'invitations'>(sql`invitations`)
  return sql`
    project as materialized (
      select project.id from invitations invitation join projects project on project.id = ${invited.project_id}
      where ${invited.hash} = ${hash} and ${isValid(invitation, project)}
      for update of project
    ), invitation as (
      delete from invitations using project where ${used.hash} = ${hash} and ${used.project_id} = project.id
      returning invitations.*
    )`
}

/** A part of a statement with `usedInvitation`, to be named `joined`: makes a user a member, or raises the role of a member. */
const joinInvited = (user: SQL, from: SQL): SQL => {
  const { role } = columnsOf<'project_members'>(sql`member`)
  const { columns, values } = insertion<'project_members'>({
    project_id: columnsOf<'invitations'>(invitation).project_id,
    user_id: user,
    role: columnsOf<'invitations'>(invitation).role,
  })
  const done = setActorAndReturnDone({ caller: user })
  return sql`
    insert into project_members as member (${columns}) select ${values} from ${from} where ${done} = 'done'
    on conflict (project_id, user_id) do update set role = excluded.role
      where role_rank(excluded.role) > role_rank(${role})`
}

const accept = query(
  'invitations.accept',
  { hash: 'bytes', user_id: 'uuid' },
  { project_id: 'text' },
  (p) => sql`
    with ${usedInvitation(p.hash)}, joined as (${joinInvited(p.user_id, invitation)})
    select ${columnsOf<'invitations'>(invitation).project_id}::text from invitation`,
)

/** Joins a user to the project of a valid invitation, and deletes it. Returns the project's id; null if there is none. */
export const acceptInvitation = async (
  ctx: StatementContext,
  { hash, userId }: { readonly hash: Buffer; readonly userId: string },
): Promise<string | null> => {
  const [row] = await accept(ctx, { hash, user_id: userId })
  return row?.project_id ?? null
}

/** Deletes expired invitations. */
export const removeExpiredInvitations = deletionInBatches('invitations.delete_expired', {
  parameters: {},
  table: 'invitations',
  condition: () => sql`expires_at <= ${retentionTime}`,
})

/** Deletes emails that no longer count towards a limit. */
export const removeOldInvitationMails = deletionInBatches('invitation_mails.delete_old', {
  parameters: {},
  table: 'invitation_mails',
  condition: () =>
    sql`${columnsOf<'invitation_mails'>(sql`invitation_mails`).created_at} <= ${retentionTime} - interval '1 day'`,
})
