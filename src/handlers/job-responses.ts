import type { components } from '../../generated/openapi.ts'
import { quoteETag } from '../contract/operation.ts'
import { variantTag } from '../domain/shared/entity-tags.ts'
import { jobPollSeconds } from '../domain/interchange/job-polling.ts'

type Schemas = components['schemas']

/** The entity tag includes the progress, which is no revision. */
export const jobETag = ({ version, revision, progress }: Schemas['Export'] | Schemas['Import']): string =>
  quoteETag(variantTag(version, `${revision}-${progress.done}-${progress.total ?? 'all'}`))

interface JobResponse {
  readonly headers?: object
}

/** The response with a job. As long as something happens in the background, Retry-After tells who reads no body when to look again. */
export const polled = <Response extends JobResponse>(
  { is_pending }: { readonly is_pending: boolean },
  response: Response,
) => (is_pending ? withRetryAfter(response) : response)

/** The response with a job that has just begun. */
export const withRetryAfter = <Response extends JobResponse>(response: Response) => ({
  ...response,
  headers: { ...response.headers, 'retry-after': jobPollSeconds },
})
