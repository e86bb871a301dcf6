import { jobPollSeconds } from '../domain/interchange/job-polling.ts'

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
