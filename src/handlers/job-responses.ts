import { ok } from '../contract/operation.ts'
import { jobPollSeconds } from '../domain/job-polling.ts'

/** A job as JSON text. */
interface JobRow {
  readonly json: string
  readonly version: number
  /** Whether something happens in the background. */
  readonly is_unended: boolean
}

/** A job. A client that reads no body polls by Retry-After. */
export const polled = <Job>(row: JobRow) => (row.is_unended ? withRetryAfter(ok<Job>(row)) : ok<Job>(row))

/** A response that tells when to look at a job again. */
export const withRetryAfter = <Response extends { readonly headers: object }>(response: Response) => ({
  ...response,
  headers: { ...response.headers, 'retry-after': jobPollSeconds },
})
