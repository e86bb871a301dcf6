interface ProblemType {
  readonly status: number
  readonly title: string
  /** Why the service returns it, and whether anything was done. */
  readonly cause: string
  /** What to do next. */
  readonly remedy: string
}

/** All problem types (RFC 9457) of the service, by code. ProblemCode in the contract lists the same codes. */
export const problemTypes = {
  invalid_request: {
    status: 400,
    title: 'Invalid request',
    cause:
      'The request does not match the contract. Each entry of `errors` points to a field of the body (a JSON Pointer), or to a parameter or header (a slash and its name), and says what is expected.',
    remedy: 'Correct the request before you send it again.',
  },
  unauthorized: {
    status: 401,
    title: 'Authentication required',
    cause: 'The access token is missing, malformed, expired or revoked.',
    remedy: 'Refresh the session or sign in again, and send the token as "Authorization: Bearer <token>".',
  },
  invalid_credentials: {
    status: 401,
    title: 'Invalid credentials',
    cause:
      'The email address, username or password is wrong, or the token in the body is unknown, expired or already used. The response does not say which.',
    remedy: 'Try again, or start over: sign in, or request another email.',
  },
  second_factor_required: {
    status: 401,
    title: 'Second factor required',
    cause: 'The password is correct, but the account also requires a second factor.',
    remedy:
      'Send the challenge and a code from the authenticator, or a recovery code, to POST /auth/login/second-factor before the challenge expires.',
  },
  sign_in_required: {
    status: 401,
    title: 'Sign-in required',
    cause:
      'The account of the API token signs in with an identity provider, and has not done so for as many days as the operator allows (OIDC_REAUTH_DAYS). Its tokens and webhooks are suspended; nothing was deleted.',
    remedy: 'Sign in with the identity provider. The same token works again from then on.',
  },
  insufficient_scope: {
    status: 403,
    title: 'Insufficient scope',
    cause:
      'The API token lacks the scope of the operation, or the operation requires the access token of a session. The detail says which.',
    remedy: 'Use a token with that scope, or sign in.',
  },
  forbidden: {
    status: 403,
    title: 'Forbidden',
    cause: 'You can see the resource but do not have permission to do this.',
    remedy: 'Ask the owner of the resource or an administrator.',
  },
  origin_not_allowed: {
    status: 403,
    title: 'Origin not allowed',
    cause:
      'The request comes from a web page whose origin is neither this service nor allowed by the operator.',
    remedy: 'Use a page of this service, or ask the operator to add the origin to CORS_ORIGINS.',
  },
  reauthentication_required: {
    status: 403,
    title: 'Reauthentication required',
    cause: 'The operation requires a session that has authenticated within the last 15 minutes.',
    remedy:
      'Send the password or a code of the second factor to POST /auth/reauthenticate with the same access token, then repeat the request. If the operation accepts current_password in its body, you can send that instead.',
  },
  registration_closed: {
    status: 403,
    title: 'Registration closed',
    cause: 'This installation does not accept registrations.',
    remedy: 'Ask an administrator for an account.',
  },
  account_disabled: {
    status: 403,
    title: 'Account disabled',
    cause: 'An administrator has disabled the account. Nothing was deleted.',
    remedy: 'Ask an administrator to enable it.',
  },
  passwords_closed: {
    status: 403,
    title: 'Passwords closed',
    cause: 'The operator accepts sign-in with identity providers only (OIDC_ONLY).',
    remedy: 'Sign in with an identity provider. `GET /auth/oidc` lists them.',
  },
  email_missing: {
    status: 403,
    title: 'Email address missing',
    cause:
      'The identity provider has authenticated you, but says no email address, or one that an account cannot have, and a new account needs one.',
    remedy:
      'Add an address with the provider and sign in again. If there is one, ask the operator to let the provider send it (the scope and the claim `email`), or an administrator for an account.',
  },
  email_unverified: {
    status: 403,
    title: 'Email address not verified',
    cause:
      'The identity provider has authenticated you, but does not say that your email address is verified, and a new account needs one that is.',
    remedy: 'Verify the address with the provider and sign in again, or ask an administrator for an account.',
  },
  invitations_disabled: {
    status: 403,
    title: 'Invitations disabled',
    cause:
      'Invitations are disabled in this installation, or cannot be sent because email is not configured. The detail says which.',
    remedy: 'Ask a manager of the project to add you as a member, or the operator to enable invitations.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    cause:
      'The resource does not exist, or you are not allowed to see it; the response is the same for both. An unknown path returns the same problem.',
    remedy: 'Check the path and the ids in it. If you repeated a DELETE, the resource has been deleted.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    cause: 'The path exists but does not support this method.',
    remedy: 'Use one of the methods in the Allow header.',
  },
  request_timeout: {
    status: 408,
    title: 'Request timeout',
    cause: 'The request did not arrive in time, and the connection was closed.',
    remedy: 'Send it again on a new connection.',
  },
  username_taken: {
    status: 409,
    title: 'Username taken',
    cause: 'Another account has this username.',
    remedy: 'Choose another one.',
  },
  email_taken: {
    status: 409,
    title: 'Email address taken',
    cause: 'Another account has this email address. Addresses are case-insensitive.',
    remedy: 'Choose another one, or sign in with that account.',
  },
  tag_exists: {
    status: 409,
    title: 'Tag already exists',
    cause:
      'A tag with this name already exists, among your own tags or in the project. Names are case-insensitive.',
    remedy: 'Use that tag, or choose another name.',
  },
  reminder_exists: {
    status: 409,
    title: 'Reminder already exists',
    cause:
      'You already have a reminder of the task with the same time, or the same date, offset and time of day.',
    remedy: 'Use that reminder, whose id is in the detail: change or snooze it.',
  },
  last_admin: {
    status: 409,
    title: 'Last administrator',
    cause:
      'An installation must have at least one administrator who is not disabled, and this user is the last one.',
    remedy: 'Promote another user before you demote, disable or delete this one.',
  },
  project_archived: {
    status: 409,
    title: 'Project archived',
    cause:
      'The project is archived, and archived projects and their tasks are read-only. Nothing was changed.',
    remedy: 'Unarchive the project first, or ask one of its managers to do so.',
  },
  blocking_cycle: {
    status: 409,
    title: 'Blocking cycle',
    cause:
      'With this relation, a task would block itself, directly or through other tasks. The detail names the tasks of the cycle that you can see, in order. Nothing was changed.',
    remedy: 'Remove one of the relations between these tasks first.',
  },
  too_many_relations: {
    status: 409,
    title: 'Too many relations',
    cause:
      'A task can have at most 200 relations, and one of the two tasks already has 200; or the blocked task blocks more than 1,000 others, directly or through other tasks. Nothing was changed.',
    remedy: 'Remove a relation first.',
  },
  too_many_subtasks: {
    status: 409,
    title: 'Too many subtasks',
    cause:
      'A task is moved, deleted or repeated with its subtasks, and these are more than one request can change. Nothing was changed.',
    remedy: 'Move or delete some of the subtasks first.',
  },
  webhook_disabled: {
    status: 409,
    title: 'Webhook disabled',
    cause: 'Nothing is sent to a disabled webhook.',
    remedy: 'Enable the webhook with PATCH first.',
  },
  export_without_file: {
    status: 409,
    title: 'Export without a file',
    cause:
      'The export has not finished, has ended without an archive, or its archive was deleted after its time; or your account has to sign in with its identity provider first.',
    remedy:
      'Get the export until its status is finished, or request another one. If the detail says so, sign in with the identity provider.',
  },
  import_state: {
    status: 409,
    title: 'Import in another state',
    cause: 'Only an import that is ready can be changed or run, and only one that has ended can be undone.',
    remedy: 'Get the import until poll_after_seconds is null.',
  },
  last_manager: {
    status: 409,
    title: 'Last manager',
    cause:
      'Every project and team must have at least one manager, and the request would remove the last one.',
    remedy: 'Make another member a manager first, or delete the project or team.',
  },
  access_through_team: {
    status: 409,
    title: 'Access through a team',
    cause:
      'The user has access to the project only through a team, and no role of their own that could be removed.',
    remedy: 'Remove the team from the project, or the user from the team.',
  },
  second_factor_enabled: {
    status: 409,
    title: 'Second factor already enabled',
    cause: 'An account can have only one second factor, and this account already has one.',
    remedy: 'Disable it before you enroll another one.',
  },
  second_factor_not_enrolled: {
    status: 409,
    title: 'Second factor not enrolled',
    cause: 'The account has no second factor to confirm or disable.',
    remedy: 'Enroll one first.',
  },
  no_password: {
    status: 409,
    title: 'No password',
    cause: 'The account has no password: it signs in with an identity provider.',
    remedy:
      'Omit the password if the operation allows it, and reauthenticate with the identity provider if asked to.',
  },
  identity_taken: {
    status: 409,
    title: 'Identity taken',
    cause:
      'The identity signs in to an account already, or your account has another identity of the same provider.',
    remedy: 'Unlink one of them first.',
  },
  last_sign_in_method: {
    status: 409,
    title: 'Last sign-in method',
    cause: 'The identity is the only way to sign in to the account.',
    remedy: 'Link another identity first.',
  },
  upload_conflict: {
    status: 409,
    title: 'Upload offset mismatch',
    cause:
      'Upload-Offset is not the current offset of the upload: another request has appended to it, or part of the last chunk was not stored.',
    remedy: 'Get the offset with HEAD and continue from there.',
  },
  upload_gone: {
    status: 410,
    title: 'Upload gone',
    cause: 'The upload has expired, or its data is lost.',
    remedy: 'Start a new upload.',
  },
  file_lost: {
    status: 410,
    title: 'File lost',
    cause: 'The attachment or export exists, but its file is missing from the storage.',
    remedy: 'Report this to the operator.',
  },
  link_expired: {
    status: 410,
    title: 'Link expired',
    cause: 'The link to the file has expired.',
    remedy:
      'Ask the sender for a new link. Links are created with POST /attachments/{attach_id}/links and POST /exports/{export_id}/links.',
  },
  feed_revoked: {
    status: 410,
    title: 'Feed revoked',
    cause: 'The owner of the calendar feed has revoked it.',
    remedy: 'Remove the calendar from the program, or ask the owner for the URL of another feed.',
  },
  changes_forgotten: {
    status: 410,
    title: 'Sync cursor expired',
    cause: 'Deletions are kept for 30 days. The cursor is older, or the database was restored from a backup.',
    remedy: 'Discard your copy and start over without `since`.',
  },
  events_forgotten: {
    status: 410,
    title: 'Event position expired',
    cause:
      'Events are kept for as long as the operator has configured, 90 days by default. The id belongs to an older event, or the database was restored from a backup.',
    remedy: 'Fetch the current state, then open the stream without an id.',
  },
  precondition_failed: {
    status: 412,
    title: 'Precondition failed',
    cause:
      'If-Match, or `version` in the body, does not match the current resource, If-None-Match does, or the resource has changed since If-Unmodified-Since; or fields have other values than `expect` in the body says, which `conflicts` lists. Nothing was changed.',
    remedy:
      'Fetch the resource and retry with its current ETag; with `conflicts`, decide by their current values, and retry with these in `expect`. After `If-None-Match: *`, the resource exists: change it instead.',
  },
  tus_version_unsupported: {
    status: 412,
    title: 'Unsupported tus version',
    cause: 'Tus-Resumable is missing or names a version that the service does not support.',
    remedy: 'Send one of the versions in Tus-Version.',
  },
  content_too_large: {
    status: 413,
    title: 'Content too large',
    cause: 'The body, or a file in it, exceeds the limit. Nothing was stored.',
    remedy: 'Send a smaller body, for example a smaller file or several batches.',
  },
  quota_exceeded: {
    status: 413,
    title: 'Quota exceeded',
    cause:
      'Quotas limit the number of tasks, webhooks and reminders that a user has and the total size of their attachments. The detail says which quota would be exceeded. Nothing was stored.',
    remedy:
      'Delete tasks, attachments, webhooks or reminders that you no longer need, including those in the trash, or ask an administrator for a larger quota.',
  },
  uri_too_long: {
    status: 414,
    title: 'URI too long',
    cause: 'The path or a segment of it is longer than the limit.',
    remedy: 'Check the path and the ids in it.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    cause: 'The Content-Type is missing, or the operation does not accept it.',
    remedy: 'Send one of the types that the detail lists.',
  },
  unsupported_content_encoding: {
    status: 415,
    title: 'Unsupported content encoding',
    cause: 'The request has a Content-Encoding, and compressed bodies are not supported.',
    remedy: 'Send the body uncompressed, without that header.',
  },
  unsupported_image: {
    status: 415,
    title: 'Unsupported image',
    cause:
      'Thumbnails are created from PNG, JPEG, GIF, WebP and AVIF images, regardless of the stated media type. The file has another format, or it is damaged.',
    remedy: 'Download the file itself instead.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'Range not satisfiable',
    cause: 'The range starts after the end of the file.',
    remedy: 'Request a range within the size in Content-Range.',
  },
  expectation_failed: {
    status: 417,
    title: 'Expectation failed',
    cause: 'The Expect header asks for something other than 100-continue.',
    remedy: 'Send the request without it.',
  },
  unknown_reference: {
    status: 422,
    title: 'Unknown reference',
    cause:
      'The body refers to a user, tag, project, section or task that does not exist or that you are not allowed to see.',
    remedy: 'Correct the id.',
  },
  invalid_parent: {
    status: 422,
    title: 'Invalid parent',
    cause:
      'The task cannot be a subtask of the task in `parent_id`: that task is in another project or list, it is the task itself or one of its subtasks, or the nesting would be too deep. The detail says which.',
    remedy: 'Choose another parent, or move one of the tasks first.',
  },
  invalid_recurrence: {
    status: 422,
    title: 'Invalid recurrence',
    cause:
      'The task cannot recur, or not in this way: it has no date, it is in a tree of tasks that already recurs, the tree has too many tasks, or it was closed and the next occurrence exists. The detail says which.',
    remedy: 'Set a date, choose another task of the tree, or change the next occurrence.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'Idempotency key reused',
    cause: 'The Idempotency-Key was used for a different request in the last 24 hours.',
    remedy: 'Use a new key.',
  },
  digest_mismatch: {
    status: 422,
    title: 'Digest mismatch',
    cause: 'The content does not match the digest that was sent with it. Nothing was stored.',
    remedy: 'Send the content again.',
  },
  image_too_large: {
    status: 422,
    title: 'Image too large',
    cause: 'The image has too many bytes or pixels, or decoding it takes too much time or memory.',
    remedy: 'Download the file itself instead.',
  },
  wrong_password: {
    status: 422,
    title: 'Wrong password',
    cause: 'The operation requires your current password, and the password in the body is wrong.',
    remedy: 'Send the current password, or reset the password.',
  },
  wrong_code: {
    status: 422,
    title: 'Wrong code',
    cause: 'The code is wrong or expired, or it was already used.',
    remedy: 'Send the next code of the authenticator, or a recovery code.',
  },
  invitation_invalid: {
    status: 422,
    title: 'Invitation invalid',
    cause:
      'The token is unknown, expired or already used, the invitation was revoked or replaced, the sender no longer manages the project, or the project was deleted. The response does not say which.',
    remedy: 'Ask for a new invitation.',
  },
  list_too_expensive: {
    status: 422,
    title: 'List too expensive',
    cause:
      'The database would have to read too much to answer: the list was cancelled after two seconds. This depends on how much you can see, on the conditions and the order, and on what else the database does.',
    remedy:
      'Ask for less: a project, a range of times, fewer or narrower conditions, no `include_total`, or an order that has an index (`created_at`, `updated_at`, `due_at`).',
  },
  url_not_allowed: {
    status: 422,
    title: 'URL not allowed',
    cause:
      'The URL cannot be parsed, contains credentials or a fragment, or has as its host an address in a private or reserved network, to which webhooks are not sent. The detail says which. A host name is resolved for each delivery: if it resolves to such an address, `error` of the delivery says so.',
    remedy:
      'Correct the URL, use a public address, or ask the operator to allow the host with WEBHOOK_ALLOW.',
  },
  upload_locked: {
    status: 423,
    title: 'Upload locked',
    cause: 'Another request is writing to the upload.',
    remedy: 'Retry after the seconds in Retry-After.',
  },
  too_many_requests: {
    status: 429,
    title: 'Too many requests',
    cause:
      'A rate limit was exceeded, too many sign-in attempts have failed, too many invitations were sent, or too many of your requests are in progress or queued. Nothing was done.',
    remedy: 'Retry after the seconds in Retry-After.',
  },
  header_fields_too_large: {
    status: 431,
    title: 'Header fields too large',
    cause: 'The request header exceeds the limit.',
    remedy: 'Send fewer or shorter fields.',
  },
  checksum_mismatch: {
    status: 460,
    title: 'Checksum mismatch',
    cause: 'The chunk does not match Upload-Checksum. None of it was stored.',
    remedy: 'Send the chunk again.',
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    cause:
      'The error is in the service, not in the request. The service log has the cause under the request_id. The request may or may not have taken effect.',
    remedy: 'Report the error to the operator. You can retry a few times, as after a lost connection.',
  },
  service_unavailable: {
    status: 503,
    title: 'Service unavailable',
    cause:
      'The database, the file storage or an identity provider is unavailable, or the service is busy or stopping. Nothing was done.',
    remedy:
      'Retry after the seconds in Retry-After. If the detail says that an identity provider is not set up correctly, ask the operator.',
  },
  write_conflict: {
    status: 503,
    title: 'Write conflict',
    cause:
      'Other requests changed the same resources at the same time, in each of several attempts of the service. Nothing was done.',
    remedy:
      'Retry after the seconds in Retry-After. If it happens often, send fewer requests for the same resources at once.',
  },
  outcome_unknown: {
    status: 504,
    title: 'Outcome unknown',
    cause: 'The database did not confirm a write in time, so the write may or may not have taken effect.',
    remedy:
      'If the request had an Idempotency-Key, repeat it with the same key: it takes effect at most once. Otherwise read the resource before you retry; a PUT, PATCH or DELETE with If-Match can be repeated unchanged.',
  },
  insufficient_storage: {
    status: 507,
    title: 'Insufficient storage',
    cause: 'The file storage has no space for the file. Nothing was stored.',
    remedy: 'Report this to the operator.',
  },
} as const satisfies Readonly<Record<string, ProblemType>>

export type ProblemCode = keyof typeof problemTypes

export const isProblemCode = (code: string): code is ProblemCode => Object.hasOwn(problemTypes, code)

/** All codes, sorted by status. */
export const problemCodes: readonly ProblemCode[] = Object.keys(problemTypes).filter(isProblemCode)
