import type { CursorFault } from '../domain/shared/cursors.ts'
import type { DateConflict } from '../domain/shared/dates.ts'
import type { FieldConflict } from '../domain/shared/field-conflicts.ts'
import { FilterError } from '../domain/shared/filter-expression.ts'
import { LastManager } from '../domain/projects/managers.ts'
import { maxLevels, maxMovedSubtasks } from '../domain/tasks/subtasks.ts'
import { maxRecurringTasks } from '../domain/tasks/series.ts'
import { TextTooCostly } from '../domain/shared/text.ts'
import { leaseSeconds } from '../domain/files/uploads.ts'
import { type ProblemCode, problemTypes } from './catalogue.ts'

/** Maximum number of errors in a problem; `maxItems` in the contract. */
export const maxErrors = 20

/** An error and its location: a JSON Pointer (RFC 6901) into the body, or `/name` of a parameter or header. */
export interface ProblemError {
  readonly pointer: string
  readonly detail: string
}

type ProblemMembers = Readonly<Record<string, string | number | readonly FieldConflict[]>>

interface ProblemOptions {
  readonly errors?: readonly ProblemError[]
  readonly headers?: Readonly<Record<string, string>>
  /** Extension members (RFC 9457 §3.2). */
  readonly members?: ProblemMembers
  readonly cause?: unknown
}

/** A resource with a quota: the total bytes of a user's attachments, or the number of other things that a user has. */
type QuotaResource =
  | 'attachment_bytes'
  | 'interchange_bytes'
  | 'tasks'
  | 'webhooks'
  | 'reminders'
  | 'task_reminders'
  | 'feeds'
  | 'exports'
  | 'imports'

/** The request would exceed a user's quota. */
interface QuotaExceeded {
  readonly resource: QuotaResource
  readonly quota: number
  /** Current usage. */
  readonly used: number
  /** The addition by the request, as far as it is known. */
  readonly size: number
}

/** A problem as plain values, which can be stored. */
export interface ProblemFields extends Omit<ProblemOptions, 'cause'> {
  readonly code: ProblemCode
  readonly detail: string
}

/** An error for the client. `message` becomes the problem's detail, so it must contain nothing internal. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly status: number
  readonly title: string
  readonly errors: readonly ProblemError[] | null
  readonly headers: Readonly<Record<string, string>>
  readonly members: ProblemMembers

  constructor(code: ProblemCode, detail: string, { errors, headers, members, cause }: ProblemOptions = {}) {
    super(detail, { cause })
    this.code = code
    this.status = problemTypes[code].status
    this.title = problemTypes[code].title
    this.errors = errors?.slice(0, maxErrors) ?? null
    this.headers = headers ?? {}
    this.members = members ?? {}
  }
}

/** The problem as plain values, and back. */
export const fieldsOfProblem = ({ code, message, errors, headers, members }: Problem): ProblemFields => ({
  code,
  detail: message,
  ...(errors !== null && { errors }),
  headers,
  members,
})

export const problemOfFields = ({ code, detail, ...options }: ProblemFields): Problem =>
  new Problem(code, detail, options)

/** Escapes a name for a JSON Pointer (RFC 6901, section 3). */
export const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

const at = (pointer: string, detail: string) => ({ errors: [{ pointer, detail }] })

/** The WWW-Authenticate header (RFC 6750 §3). */
const challenge = (error?: string, scope?: string) => {
  const parameters = { realm: 'taskwright', ...(error && { error }), ...(scope && { scope }) }
  const text = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`)
  return { headers: { 'www-authenticate': `Bearer ${text.join(', ')}` } }
}

const retryAfter = (seconds: number) => ({ headers: { 'retry-after': String(seconds) } })

/** Constructors of all problems. They return the problem; the caller throws it. */
export const problems = {
  invalidRequest: (detail: string, errors: readonly ProblemError[] = []) =>
    new Problem('invalid_request', detail, errors.length > 0 ? { errors } : {}),
  invalidField: (pointer: string, detail: string) => problems.invalidFields([{ pointer, detail }]),
  /** The detail describes the first error, so pass them in the order of the request. */
  invalidFields: (errors: readonly ProblemError[]) => {
    const [{ pointer, detail } = { pointer: '', detail: 'is not valid' }, ...more] = errors.slice(
      0,
      maxErrors,
    )
    const first = `${pointer.slice(1) || 'The body'} ${detail}.`
    const text = more.length === 0 ? first : `${first} ${more.length} more in errors.`
    return new Problem('invalid_request', text, { errors })
  },
  conflictingDates: (conflicts: readonly DateConflict[]) =>
    problems.invalidFields(conflicts.map((conflict) => dateConflicts[conflict])),
  unknownTimeZone: () =>
    problems.invalidField('/time_zone', 'is not known to the database; choose another one'),
  invalidFilter: ({ at: position, found, expected }: FilterError) =>
    problems.invalidField(
      '/filter',
      `is invalid at character ${position}: found ${shorten(found)}, expected ${expected}`,
    ),
  cursorWithOffset: () =>
    new Problem(
      'invalid_request',
      'cursor and offset cannot be combined. A cursor already marks the position.',
      at('/offset', 'cannot be combined with cursor'),
    ),
  listTooExpensive: () =>
    new Problem(
      'list_too_expensive',
      'The list took more than two seconds, and was cancelled. Ask for less: a project, a range of times, fewer conditions, no include_total, or an order that has an index (created_at, updated_at, due_at).',
    ),
  sortedTwice: () =>
    new Problem(
      'invalid_request',
      'sort must not name a field twice.',
      at('/sort', 'must not name a field twice'),
    ),
  invalidCursor: (fault: CursorFault) =>
    new Problem(
      'invalid_request',
      `The cursor ${describeCursorFault(fault)}. Send next_cursor or prev_cursor unchanged, with the filters and the order of its list, or omit it to start at the first page.`,
      at('/cursor', describeCursorFault(fault)),
    ),
  invalidSince: (fault: CursorFault) =>
    new Problem(
      'invalid_request',
      `since ${describeCursorFault(fault)}. Send next_cursor unchanged, or omit since to start again.`,
      at('/since', describeCursorFault(fault)),
    ),
  batchSize: (max: number) =>
    new Problem(
      'invalid_request',
      `A batch must have 1 to ${max} items.`,
      at('', `must have 1 to ${max} items`),
    ),
  batchText: (max: number) =>
    new Problem(
      'invalid_request',
      `The titles and descriptions of a batch must not exceed ${max} characters in total. Split the batch.`,
      at('', `must not exceed ${max} characters of titles and descriptions in total`),
    ),
  noToken: () =>
    new Problem('unauthorized', 'Send an access token as "Authorization: Bearer <token>".', challenge()),
  invalidToken: () =>
    new Problem(
      'unauthorized',
      'The access token is malformed, expired or revoked. Refresh the session or sign in again.',
      challenge('invalid_token'),
    ),
  signInRequired: () =>
    new Problem(
      'sign_in_required',
      'The user of this token has not signed in with an identity provider for too long. The token works again after the next sign-in.',
      challenge('invalid_token'),
    ),
  wrongPassword: () =>
    new Problem('invalid_credentials', 'The email address, username or password is wrong.', challenge()),
  invalidRefreshToken: () =>
    new Problem(
      'invalid_credentials',
      'The refresh token is unknown, expired or already used. Sign in again.',
      challenge('invalid_token'),
    ),
  noAccountName: () => problems.invalidField('/email', 'is required, unless you send username'),
  twoAccountNames: () =>
    problems.invalidField('/username', 'cannot be combined with email; send one of them'),
  invalidResetToken: () =>
    new Problem(
      'invalid_credentials',
      'The token is unknown, expired or already used. Request another email.',
      challenge('invalid_token'),
    ),
  invalidUndoToken: () =>
    new Problem(
      'invalid_credentials',
      'The token is unknown, expired or already used. Ask an administrator to restore the address.',
      challenge('invalid_token'),
    ),
  secondFactorRequired: (token: string, expiresIn: number) =>
    new Problem(
      'second_factor_required',
      `Send the challenge with a code to /auth/login/second-factor within ${expiresIn} seconds.`,
      { ...challenge(), members: { challenge: token, challenge_expires_in: expiresIn } },
    ),
  wrongSecondFactor: () =>
    new Problem(
      'invalid_credentials',
      'The code is wrong or already used, or the challenge is unknown or expired. Send another code, or sign in again.',
      challenge(),
    ),
  originNotAllowed: () =>
    new Problem(
      'origin_not_allowed',
      'Pages of this origin may not use this endpoint. The operator can allow the origin with CORS_ORIGINS.',
    ),
  /** Of several scopes, one is enough. */
  insufficientScope: (scope: string | readonly string[]) =>
    scope === 'session'
      ? new Problem(
          'insufficient_scope',
          'This operation does not accept API tokens. Sign in and send the access token.',
          challenge('insufficient_scope'),
        )
      : new Problem(
          'insufficient_scope',
          `This operation requires the scope ${[scope].flat().join(' or ')}. Use a token with this scope.`,
          challenge('insufficient_scope', [scope].flat().join(' ')),
        ),
  secondFactorEnabled: () =>
    new Problem('second_factor_enabled', 'Disable the second factor before you enroll another one.'),
  secondFactorNotEnrolled: () => new Problem('second_factor_not_enrolled', 'Enroll a second factor first.'),
  wrongCurrentPassword: (pointer: string) =>
    new Problem('wrong_password', 'The current password is wrong.', at(pointer, 'is wrong')),
  wrongCode: () =>
    new Problem('wrong_code', 'The code is wrong or already used.', at('/code', 'is wrong or already used')),
  tooManyAttempts: (seconds: number) =>
    new Problem(
      'too_many_requests',
      `Too many failed attempts. Retry in ${seconds} seconds.`,
      retryAfter(seconds),
    ),
  forbidden: () =>
    new Problem(
      'forbidden',
      'You can see this resource but do not have permission to do this. Ask its owner or an administrator.',
    ),
  listAllForbidden: () =>
    new Problem('forbidden', 'Only administrators can set all=true. Omit it to list your own.'),
  reauthenticationRequired: () =>
    new Problem(
      'reauthentication_required',
      'This session has not authenticated in the last 15 minutes. Send the password, a code or a proof of an identity provider to POST /auth/reauthenticate and repeat the request.',
    ),
  emailChangedOften: () =>
    new Problem(
      'too_many_requests',
      'The email address of this account was changed 5 times in 24 hours. Retry in 24 hours.',
      retryAfter(86_400),
    ),
  invitedMany: () =>
    new Problem(
      'too_many_requests',
      'You have reached the limit of invitations per user in 24 hours. Retry in 24 hours.',
      retryAfter(86_400),
    ),
  addressInvitedOften: () =>
    new Problem(
      'too_many_requests',
      'This address has reached the limit of invitations per address in 24 hours. Retry in 24 hours.',
      retryAfter(86_400),
    ),
  invitationsOff: () =>
    new Problem('invitations_disabled', 'Invitations are disabled. Ask a manager of the project to add you.'),
  invitationsUndeliverable: () =>
    new Problem(
      'invitations_disabled',
      'This installation sends no email, so it cannot send invitations. Add the user as a member instead.',
    ),
  /** The same for every reason, so that it reveals nothing about an invitation. `pointer` is the location of the token. */
  invalidInvitation: (pointer: string) =>
    new Problem(
      'invitation_invalid',
      'The invitation is unknown, expired, revoked or already used. Ask for another one.',
      at(pointer, 'is not the token of a valid invitation'),
    ),
  unusableUrl: (detail: string) =>
    new Problem('url_not_allowed', 'Webhooks cannot be sent to this URL.', at('/url', detail)),
  urlNotAllowed: () =>
    new Problem(
      'url_not_allowed',
      'Webhooks are sent to public addresses only. The operator can allow others with WEBHOOK_ALLOW.',
      at('/url', 'is not a public address'),
    ),
  registrationClosed: () => new Problem('registration_closed', 'Ask an administrator for an account.'),
  accountDisabled: () =>
    new Problem('account_disabled', 'This account is disabled. Ask an administrator to enable it.'),
  accountNeedsInvitation: () =>
    new Problem(
      'registration_closed',
      'Ask for an invitation to a project, or an administrator for an account.',
    ),
  noPassword: () =>
    new Problem(
      'no_password',
      'This account has no password. Authenticate with its identity provider: send a code for the purpose reauthenticate to POST /auth/reauthenticate.',
    ),
  passwordRequired: (pointer: string) =>
    problems.invalidField(pointer, 'is required, because the account has a password'),
  passwordsClosed: () =>
    new Problem('passwords_closed', 'Sign in with an identity provider. GET /auth/oidc lists them.'),
  foreignIdentity: () =>
    new Problem(
      'wrong_code',
      'The identity that has authenticated is not one of your account.',
      at('/oidc/code', 'is of another identity'),
    ),
  emailMissing: () =>
    new Problem(
      'email_missing',
      'The identity provider says no email address of yours that an account can have. Add one there and sign in again, or ask the operator, who may have to let the provider send it.',
    ),
  emailUnverified: () =>
    new Problem(
      'email_unverified',
      'The identity provider has not verified your email address. Verify it there and sign in again.',
    ),
  emailOfAnotherAccount: () =>
    new Problem(
      'email_taken',
      'An account has this email address. Sign in to it, and link the identity with POST /auth/identities.',
    ),
  identityOfAnotherAccount: () =>
    new Problem('identity_taken', 'This identity is linked to another account.'),
  identityLinked: () => new Problem('identity_taken', 'This identity is linked to your account already.'),
  providerLinked: () =>
    new Problem('identity_taken', 'Your account has another identity of this provider. Unlink it first.'),
  lastSignInMethod: () =>
    new Problem('last_sign_in_method', 'Nothing else signs in to this account. Link another identity first.'),
  invalidOidcCode: () =>
    new Problem(
      'invalid_credentials',
      'The code is unknown, expired or already used, or the verifier is wrong. Begin again.',
      challenge(),
    ),
  unusableOidcCode: () =>
    new Problem(
      'wrong_code',
      'The code is unknown, expired, already used or for another purpose, or the verifier is wrong. Begin again.',
      at('/code', 'cannot be used'),
    ),
  returnNotAllowed: () =>
    problems.invalidField(
      '/return_to',
      'is not an allowed address; the operator can add it to return_to in OIDC_CONFIG',
    ),
  invalidLogoutToken: () =>
    new Problem('invalid_request', 'The logout token is invalid or was used. The service log says why.', {}),
  invalidOidcState: () =>
    problems.invalidRequest(
      'This service has not sent the request that the identity provider answers. Begin again in the program that you signed in to.',
    ),
  notFound: () => new Problem('not_found', 'The resource does not exist, or you are not allowed to see it.'),
  trailingSlash: (path: string) =>
    new Problem('not_found', `No path ends with a slash. Send the request to ${path}.`),
  methodNotAllowed: (method: string, allow: string) =>
    new Problem('method_not_allowed', `${method} is not allowed. Allowed: ${allow}.`, { headers: { allow } }),
  requestTimeout: () => new Problem('request_timeout', 'The request did not arrive in time. Send it again.'),
  /** Never sent; appears in the log. */
  clientGone: () => new Problem('request_timeout', 'The client closed the connection before the response.'),
  usernameTaken: () =>
    new Problem(
      'username_taken',
      'Another account has this username. Choose another one.',
      at('/username', 'is taken'),
    ),
  emailTaken: () =>
    new Problem(
      'email_taken',
      'Another account has this email address. Choose another one.',
      at('/email', 'is taken'),
    ),
  tagExists: () =>
    new Problem(
      'tag_exists',
      'You already have a tag with this name. Choose another one.',
      at('/name', 'is taken'),
    ),
  projectTagExists: () =>
    new Problem(
      'tag_exists',
      'The project already has a tag with this name. Choose another one.',
      at('/name', 'is taken'),
    ),
  reminderExists: (id: string) =>
    new Problem(
      'reminder_exists',
      `You already have this reminder of the task: ${id}. Change or snooze that one.`,
    ),
  lastAdmin: () => new Problem('last_admin', 'This is the last administrator. Promote another user first.'),
  projectArchived: () => new Problem('project_archived', 'The project is archived. Unarchive it first.'),
  blockingCycle: (path: readonly string[]) =>
    new Problem(
      'blocking_cycle',
      `Each of these tasks would block the next one, and the last one the first: ${path.join(', ')}.`,
    ),
  tooManyRelations: () =>
    new Problem('too_many_relations', 'One of the tasks has 200 relations. Remove one of them first.'),
  tooManyBlocked: () =>
    new Problem(
      'too_many_relations',
      'The blocked task blocks more than 1,000 others, directly or through other tasks. Remove one of these relations first.',
    ),
  webhookDisabled: () => new Problem('webhook_disabled', 'The webhook is disabled. Enable it first.'),
  exportRests: () =>
    new Problem(
      'export_without_file',
      'Your account has not signed in with its identity provider for too long. Sign in with the identity provider to get your exports.',
    ),
  exportWithoutFile: (status: string) =>
    new Problem(
      'export_without_file',
      status === 'waiting' || status === 'running'
        ? `The export is ${status}. Get it until its status is finished.`
        : status === 'finished'
          ? 'You may not have this archive any more.'
          : `The export is ${status}. Request another one.`,
    ),
  importState: (status: string, wanted: string) =>
    new Problem('import_state', `The import is ${status}. ${wanted}`),
  accessThroughTeam: () =>
    new Problem(
      'access_through_team',
      'The user has access only through a team. Remove the team from the project, or the user from the team.',
    ),
  lastProjectManager: () =>
    new Problem('last_manager', 'The project would have no manager. Make another member a manager first.'),
  lastTeamManager: () =>
    new Problem(
      'last_manager',
      'The team would have no manager. Make another member a manager first, or delete the team.',
    ),
  fileLost: (cause?: unknown) =>
    new Problem(
      'file_lost',
      'The attachment or export exists, but its file is missing from the storage. Report this to the operator.',
      { cause },
    ),
  feedRevoked: () =>
    new Problem('feed_revoked', 'The calendar feed was revoked. Ask its owner for another one.'),
  linkExpired: (at: string) => new Problem('link_expired', `The link expired at ${at}. Ask for a new one.`),
  uploadConflict: () =>
    new Problem(
      'upload_conflict',
      'Upload-Offset is not the current offset of the upload. Get it with HEAD and continue there.',
    ),
  uploadGone: (cause?: unknown) =>
    new Problem('upload_gone', 'The upload has expired, or its data is lost. Start a new one.', { cause }),
  uploadLocked: () =>
    new Problem(
      'upload_locked',
      `Another request is writing to this upload. Retry in ${leaseSeconds} seconds.`,
      retryAfter(leaseSeconds),
    ),
  checksumMismatch: () =>
    new Problem(
      'checksum_mismatch',
      'The chunk does not match Upload-Checksum. None of it was stored. Send it again.',
    ),
  tusVersionUnsupported: (version: string) =>
    new Problem('tus_version_unsupported', `Send "Tus-Resumable: ${version}".`, {
      headers: { 'tus-version': version },
    }),
  changesForgotten: () =>
    new Problem(
      'changes_forgotten',
      'The cursor is too old. Discard your copy and start again without since.',
    ),
  eventsForgotten: () =>
    new Problem(
      'events_forgotten',
      'Events after this position may have been removed. Fetch the current state, then open the stream without an id.',
    ),
  preconditionFailed: () =>
    new Problem(
      'precondition_failed',
      'The resource does not meet If-Match, If-None-Match or version in the body: it has changed, or it exists. Fetch it and retry.',
    ),
  fieldConflicts: (conflicts: readonly FieldConflict[]) =>
    new Problem(
      'precondition_failed',
      `Other values than in expect: ${conflicts.map(({ field }) => field).join(', ')}. Compare them with those in conflicts, and retry.`,
      { members: { conflicts } },
    ),
  modifiedSince: () =>
    new Problem('precondition_failed', 'The resource is newer than If-Unmodified-Since. Fetch it and retry.'),
  contentTooLarge: (maxBytes: number) => new Problem('content_too_large', `The limit is ${maxBytes} bytes.`),
  quotaExceeded: ({ resource, quota, used, size }: QuotaExceeded) =>
    new Problem('quota_exceeded', quotaDetails[resource](quota, used, size), {
      members: { resource, quota, used, size },
    }),
  uriTooLong: () => new Problem('uri_too_long', 'The path or one of its segments is too long.'),
  unsupportedMediaType: (accepted: readonly string[], headers: Readonly<Record<string, string>>) =>
    new Problem('unsupported_media_type', `Send the body with "Content-Type: ${accepted.join('" or "')}".`, {
      headers,
    }),
  unsupportedContentEncoding: (headers: Readonly<Record<string, string>>) =>
    new Problem('unsupported_content_encoding', 'Send the body uncompressed, without Content-Encoding.', {
      headers: { ...headers, 'accept-encoding': 'identity' },
    }),
  unsupportedImage: (cause?: unknown) =>
    new Problem(
      'unsupported_image',
      'The file is not a PNG, JPEG, GIF, WebP or AVIF image, or it is damaged.',
      { cause },
    ),
  imageTooLarge: (reason: string) =>
    new Problem('image_too_large', `${reason} Download the file itself instead.`),
  rangeNotSatisfiable: (size: number) =>
    new Problem(
      'range_not_satisfiable',
      `The range starts after the end of the file, which has ${size} bytes.`,
      {
        headers: { 'content-range': `bytes */${size}` },
      },
    ),
  expectationFailed: () =>
    new Problem(
      'expectation_failed',
      'Only 100-continue is supported in Expect. Send the request without it.',
    ),
  unknownReference: (pointer: string, kind: string) =>
    new Problem('unknown_reference', `The ${kind} does not exist.`, at(pointer, 'does not exist')),
  invalidParent: (detail: string) =>
    new Problem('invalid_parent', `parent_id ${detail}.`, at('/parent_id', detail)),
  parentTwice: () => problems.invalidParent('must not be sent together with parent'),
  parentNotCreated: () =>
    new Problem(
      'unknown_reference',
      'The parent is no item before this one, or was not created.',
      at('/parent', 'must be the index of an item before this one that creates a task'),
    ),
  parentElsewhere: () =>
    problems.invalidParent('must be a task of the same project, or a personal task of the same owner'),
  parentCycle: () => problems.invalidParent('must not be the task itself or one of its subtasks'),
  parentTooDeep: () => problems.invalidParent(`would nest tasks more than ${maxLevels} levels deep`),
  recurrenceWithoutDate: () =>
    new Problem(
      'invalid_recurrence',
      'A task that recurs needs a due date or a start. Set one, or remove the recurrence.',
      at('/recurrence', 'needs a due date or a start'),
    ),
  recurrenceWithoutAnchor: (anchor: 'start' | 'due') =>
    new Problem(
      'invalid_recurrence',
      `The task has no ${anchor === 'start' ? 'start' : 'due date'} that the series could count from. Set it, or leave out the anchor.`,
      at('/recurrence/anchor', 'names a date that the task does not have'),
    ),
  recurrenceSpent: (nextId: string) =>
    new Problem(
      'invalid_recurrence',
      `The task was closed, and the task ${nextId} is its next occurrence. Change the recurrence there.`,
      at('/recurrence', 'cannot be changed in a closed task whose next occurrence exists'),
    ),
  recurrenceNested: (pointer: string) =>
    new Problem(
      'invalid_recurrence',
      'Another task of the same tree recurs. Its subtasks are created with it each time.',
      at(pointer, 'would put a task that recurs below another one'),
    ),
  recurringTreeTooLarge: (pointer: string) =>
    new Problem(
      'invalid_recurrence',
      `A task that recurs can have at most ${maxRecurringTasks - 1} subtasks, at all levels.`,
      at(pointer, `would make a tree of more than ${maxRecurringTasks} tasks recur`),
    ),
  tooManySubtasks: () =>
    new Problem(
      'too_many_subtasks',
      `More than ${maxMovedSubtasks} subtasks would have to be moved, deleted or repeated at once. Move or delete some of them first, or send fewer items.`,
    ),
  idempotencyKeyReused: () =>
    new Problem(
      'idempotency_key_reused',
      'This Idempotency-Key was used for a different request. Use a new key.',
    ),
  digestMismatch: (pointer: string) =>
    new Problem(
      'digest_mismatch',
      'The content does not match its digest. Send it again.',
      at(pointer, 'does not match the content'),
    ),
  tooManyHashes: (seconds: number) =>
    new Problem(
      'too_many_requests',
      `Too many passwords are being checked at once. Retry in ${seconds} seconds.`,
      retryAfter(seconds),
    ),
  tooManyStatements: (seconds: number) =>
    new Problem(
      'too_many_requests',
      `Too many of your requests are waiting for the database. Retry in ${seconds} seconds.`,
      retryAfter(seconds),
    ),
  tooManyThumbnails: () =>
    new Problem(
      'too_many_requests',
      'Too many of your thumbnails are queued. Retry in 5 seconds.',
      retryAfter(5),
    ),
  tooManyFeedBuilds: (limit: number, seconds: number) =>
    new Problem(
      'too_many_requests',
      `The calendar feeds of a user are built ${limit} times per minute at most. Retry in ${seconds} seconds.`,
      retryAfter(seconds),
    ),
  rateLimited: (limit: number, seconds: number) =>
    new Problem(
      'too_many_requests',
      `The limit is ${limit} requests per minute. Retry in ${seconds} seconds.`,
      retryAfter(seconds),
    ),
  tooManyStreams: (max: number) =>
    new Problem(
      'too_many_requests',
      `You have ${max} open event streams, which is the limit. Close one of them, then retry.`,
      retryAfter(5),
    ),
  tooManyRunning: () =>
    new Problem(
      'too_many_requests',
      'Too many of your requests are in progress. Retry when some of them have completed.',
      retryAfter(1),
    ),
  tooMuchUnread: () =>
    new Problem(
      'too_many_requests',
      'You have not read the responses to your earlier requests. Read them, then retry.',
      retryAfter(1),
    ),
  headerFieldsTooLarge: () =>
    new Problem('header_fields_too_large', 'The request header is too large. Send fewer or shorter fields.'),
  internalError: (cause: unknown) =>
    new Problem(
      'internal_error',
      'An internal error occurred. The service log has the cause under this request_id.',
      {
        cause,
      },
    ),
  serviceUnavailable: (detail: string, cause?: unknown) =>
    new Problem('service_unavailable', detail, { ...retryAfter(2), cause }),
  writeConflict: (cause: unknown) =>
    new Problem(
      'write_conflict',
      'Other requests kept changing the same resources. Retry in a few seconds.',
      { ...retryAfter(2), cause },
    ),
  outcomeUnknown: (cause?: unknown) =>
    new Problem(
      'outcome_unknown',
      'The database did not confirm in time whether the request was processed. Repeat it with the same Idempotency-Key, or read the resource before you retry.',
      { cause },
    ),
  insufficientStorage: (cause: unknown) =>
    new Problem(
      'insufficient_storage',
      'The file storage has no space for this file. Report this to the operator.',
      { cause },
    ),
} as const

const dateConflicts: Readonly<Record<DateConflict, ProblemError>> = {
  start_twice: { pointer: '/start_on', detail: 'cannot be combined with start_at; send one of them' },
  due_twice: { pointer: '/due_on', detail: 'cannot be combined with due_at; send one of them' },
  due_at_before_start: { pointer: '/due_at', detail: 'must not be before the start of the task' },
  due_on_before_start: { pointer: '/due_on', detail: 'must not be before the start of the task' },
}

const quotaDetails: Readonly<Record<QuotaResource, (quota: number, used: number, size: number) => string>> = {
  attachment_bytes: (quota, used, size) =>
    `${size} more bytes exceed your quota: your attachments use ${used} of ${quota} bytes. Delete attachments, or ask an administrator for a larger quota.`,
  interchange_bytes: (quota, used) =>
    `Your exports and files to import use ${used} of ${quota} bytes. Delete those that you no longer need.`,
  reminders: (quota, used) => `You have ${used} of ${quota} reminders. Delete those that you no longer need.`,
  exports: (quota, used) => `You have ${used} of ${quota} exports. Delete one that you no longer need.`,
  imports: (quota, used) => `You have ${used} of ${quota} imports. Delete one that you no longer need.`,
  feeds: (quota, used) => `You have ${used} of ${quota} calendar feeds. Revoke one that you no longer need.`,
  task_reminders: (quota, used) => `You have ${used} of ${quota} reminders of this task. Delete one of them.`,
  webhooks: (quota, used) => `You own ${used} of ${quota} webhooks. Delete one that you no longer need.`,
  tasks: (quota, used, size) =>
    `${size} more tasks exceed the quota: the owner has ${used} of ${quota} tasks, including the trash. Delete tasks permanently, or ask an administrator for a larger quota. Its owner can close a task that recurs with "recurrence": null, which creates no next one.`,
}

const describeCursorFault = (fault: CursorFault): string => {
  switch (fault.kind) {
    case 'unknown':
      return 'is not a cursor of this service'
    case 'other_caller':
      return 'was issued to another user'
    case 'other_list':
      return 'was issued for another list'
    case 'other_parameters':
      return `was issued with other values of: ${fault.names.join(', ')}`
  }
}

/** Truncates client input for a message. */
const shorten = (text: string): string => (text.length > 50 ? `${text.slice(0, 50).toWellFormed()}…` : text)

/** The problem document (RFC 9457) for a request to `path`. */
export const problemDocument = (problem: Problem, publicUrl: string, path: string, requestId: string) => ({
  type: `${publicUrl}/problems/${problem.code}`,
  title: problem.title,
  status: problem.status,
  detail: problem.message,
  instance: `${publicUrl}${path}`,
  code: problem.code,
  request_id: requestId,
  ...problem.members,
  ...(problem.errors !== null && { errors: [...problem.errors] }),
})

/** Prefixes the error pointers of a problem with the location of an item in the body, such as an item of a batch. */
export const problemWithin = (pointer: string, problem: Problem): Problem => {
  const errors = problem.errors?.map((error) => ({ ...error, pointer: `${pointer}${error.pointer}` }))
  return new Problem(problem.code, problem.message, {
    errors: errors ?? [{ pointer, detail: problem.title }],
    members: problem.members,
  })
}

/** Maps the errors of one part of the service to problems: null for any other error. */
export type MapError = (error: unknown) => Problem | null

/** Maps the errors of `domain`. */
export const domainProblem: MapError = (error) => {
  if (error instanceof TextTooCostly) return problems.invalidRequest(`${error.message}.`)
  if (error instanceof FilterError) return problems.invalidFilter(error)
  if (error instanceof LastManager)
    return error.of === 'team' ? problems.lastTeamManager() : problems.lastProjectManager()
  return null
}
