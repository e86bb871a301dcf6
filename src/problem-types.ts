interface ProblemType {
  readonly status: number
  readonly title: string
  /** What it means and what to do about it, for the page that explains it. */
  readonly explanation: string
}

/** Every kind of problem (RFC 9457) that the service answers with, by its code. */
export const problemTypes = {
  invalid_request: {
    status: 400,
    title: 'The request is not valid',
    explanation:
      'Something in the request is not as the contract describes it. Each entry of errors points at a field of the body (a JSON Pointer) or names a parameter or header behind a slash, and says what would be right.',
  },
  unauthorized: {
    status: 401,
    title: 'Sign in first',
    explanation:
      'There is no access token, or it is malformed, expired or revoked. Refresh the session or sign in again, and send the token as "Authorization: Bearer <token>".',
  },
  invalid_credentials: {
    status: 401,
    title: 'The credentials are not valid',
    explanation:
      'The address or the password is wrong, or the refresh token is unknown, expired or spent. Which of them is not told.',
  },
  second_factor_required: {
    status: 401,
    title: 'A second factor is required',
    explanation:
      'The password is right, and the account has a second factor. Send the challenge with a code of the authenticator, or with a recovery code, to /auth/login/second-factor before it expires.',
  },
  insufficient_scope: {
    status: 403,
    title: "The token's scopes do not allow that",
    explanation:
      'API tokens do what their scopes allow, and some things need a person who is signed in. The detail says what was missing.',
  },
  forbidden: {
    status: 403,
    title: 'You may not do that',
    explanation: 'You may see the resource, but not do that with it. Its owner or an administrator may.',
  },
  reauthentication_required: {
    status: 403,
    title: 'Recent sign-in required',
    explanation:
      'This needs a session that proved a password or a second factor within the last 15 minutes. Send one of them to POST /auth/reauthenticate with the same access token, and repeat the request. Where the body of the request has current_password, sending that does as well.',
  },
  registration_closed: {
    status: 403,
    title: 'Registration is closed',
    explanation: 'This installation takes no new accounts by registration. Ask an administrator for one.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    explanation:
      'There is no such resource, or you may not see it; the two are not told apart. A path that the contract does not have is answered like this too.',
  },
  method_not_allowed: {
    status: 405,
    title: 'The method is not allowed here',
    explanation:
      'The path exists, but does not take this method. The Allow header lists those that it takes.',
  },
  request_timeout: {
    status: 408,
    title: 'The request took too long to arrive',
    explanation: 'The connection was closed because the request did not arrive in time. Send it again.',
  },
  username_taken: {
    status: 409,
    title: 'The username is taken',
    explanation: 'Another account has this username. Choose another.',
  },
  email_taken: {
    status: 409,
    title: 'The email address is taken',
    explanation: 'Another account has this email address. Addresses are compared without regard to case.',
  },
  tag_exists: {
    status: 409,
    title: 'The tag exists',
    explanation: 'You already have a tag of that name. Names are compared without regard to case.',
  },
  last_admin: {
    status: 409,
    title: 'The last administrator stays',
    explanation:
      'An installation always has an administrator. Make somebody else one before this one is demoted or deleted.',
  },
  second_factor_enabled: {
    status: 409,
    title: 'The second factor is on',
    explanation: 'An account has one second factor. Disable it before another one is enrolled.',
  },
  second_factor_not_enrolled: {
    status: 409,
    title: 'There is no second factor',
    explanation: 'There is nothing to confirm or to disable: no second factor was enrolled.',
  },
  upload_conflict: {
    status: 409,
    title: 'The upload is somewhere else',
    explanation:
      'Upload-Offset is not where the upload is: another piece has arrived, or less of the last one than was sent. HEAD tells where to continue.',
  },
  upload_gone: {
    status: 410,
    title: 'The upload is gone',
    explanation: 'The upload has expired, or what had arrived of it is lost. Begin another one.',
  },
  file_lost: {
    status: 410,
    title: 'The file is lost',
    explanation: 'The attachment is known, but its file is no longer in the storage. Tell the operator.',
  },
  changes_forgotten: {
    status: 410,
    title: 'What has changed since then is not known any more',
    explanation:
      'Deletions are remembered for 30 days, and what you see depends on your role. The cursor is from before that: drop what you have, and ask for the changes without since.',
  },
  precondition_failed: {
    status: 412,
    title: 'It has changed since you read it',
    explanation:
      'The current ETag is not one of those in If-Match, or what is asked for is newer than If-Unmodified-Since, so nothing was done. Read the resource again and decide anew.',
  },
  tus_version_unsupported: {
    status: 412,
    title: 'The version of the tus protocol is not supported',
    explanation:
      'Tus-Resumable is missing or names another version than the ones in Tus-Version. Send one of those.',
  },
  content_too_large: {
    status: 413,
    title: 'The content is too large',
    explanation: 'The body, or a file in it, is larger than is taken here. Nothing was stored.',
  },
  quota_exceeded: {
    status: 413,
    title: 'Your quota is used up',
    explanation:
      'The files that you attached may take a limited number of bytes together, and there is no room for this one. Nothing was stored. Delete attachments, or ask the operator for more room.',
  },
  uri_too_long: {
    status: 414,
    title: 'The URL is too long',
    explanation: 'A part of the path is longer than any that could exist.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'The media type is not supported',
    explanation:
      'The Content-Type is missing or is not one that the operation takes. The detail names those it takes.',
  },
  unsupported_content_encoding: {
    status: 415,
    title: 'The content encoding is not supported',
    explanation: 'The body is compressed, by its Content-Encoding. Send it as it is, without that header.',
  },
  unsupported_image: {
    status: 415,
    title: 'The file is not an image of a known kind',
    explanation:
      'Thumbnails are made of PNG, JPEG, GIF, WebP and AVIF images, whatever media type was claimed for them. The file is none of these, or it is damaged.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'The file has no such bytes',
    explanation: 'The range begins behind the end of the file. Content-Range says how long the file is.',
  },
  expectation_failed: {
    status: 417,
    title: 'The expectation cannot be met',
    explanation: 'The Expect header asks for something else than 100-continue. Send the request without it.',
  },
  unknown_reference: {
    status: 422,
    title: 'Something that the body names does not exist',
    explanation: 'The body names a user or tag that does not exist or that you may not see.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The idempotency key was used with another request',
    explanation: 'An Idempotency-Key belongs to one request for 24 hours. Use a new one for a new request.',
  },
  digest_mismatch: {
    status: 422,
    title: 'The content is not what its digest says',
    explanation:
      'What arrived hashes to something else than was sent with it, so it was changed or cut short on the way, or the digest is of something else. Nothing was stored. Send it again.',
  },
  image_too_large: {
    status: 422,
    title: 'The image is too large',
    explanation:
      'The image has so many bytes or pixels that no thumbnail is made of it. Download the file itself instead.',
  },
  wrong_password: {
    status: 422,
    title: 'The password is wrong',
    explanation: 'This takes your current password, and the one that was sent is another.',
  },
  wrong_code: {
    status: 422,
    title: 'The code is wrong',
    explanation: 'The code is not the one that the authenticator shows now, or it was used before.',
  },
  upload_locked: {
    status: 423,
    title: 'The upload is being written to',
    explanation:
      'Another request is writing to the upload. Wait for it, or try again after the seconds in Retry-After.',
  },
  too_many_requests: {
    status: 429,
    title: 'Too many requests',
    explanation:
      'Too much was asked at once, or too many attempts to sign in have failed. Try again after the seconds in Retry-After.',
  },
  header_fields_too_large: {
    status: 431,
    title: 'The header is too large',
    explanation: 'The header of the request is larger than is taken. Send fewer or shorter fields.',
  },
  checksum_mismatch: {
    status: 460,
    title: 'The piece is not as its checksum says',
    explanation:
      'The piece of the file that arrived has another digest than Upload-Checksum. Nothing of it was kept; send it again.',
  },
  internal_error: {
    status: 500,
    title: 'Something went wrong here',
    explanation: 'This is a fault of the service. Its log has more under the request_id.',
  },
  service_unavailable: {
    status: 503,
    title: 'The service is not available right now',
    explanation:
      'The database or the file storage cannot be used right now, or the service is stopping. Try again after the seconds in Retry-After. Nothing was done.',
  },
  outcome_unknown: {
    status: 504,
    title: 'Outcome unknown',
    explanation:
      'The request was passed to the database, which did not answer in time, so it may or may not have been done. If it had an Idempotency-Key, repeat it with the same key: it is done at most once. Otherwise read the resource before you try again; a PUT, PATCH or DELETE with If-Match can be repeated as it is.',
  },
  insufficient_storage: {
    status: 507,
    title: 'The storage is full',
    explanation: 'There is no room for the file. Nothing was stored. Tell the operator.',
  },
} as const satisfies Readonly<Record<string, ProblemType>>

export type ProblemCode = keyof typeof problemTypes

export const isProblemCode = (code: string): code is ProblemCode => Object.hasOwn(problemTypes, code)
