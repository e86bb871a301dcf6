import { instantOf } from '../domain/shared/time-zones.ts'

/** The filters of a list by the time of creation. */
export interface CreatedTimes {
  readonly created_after?: string
  readonly created_before?: string
}

/** Converts the filters to instants. A date becomes the start of its day in the time zone. */
export const createdTimes = (
  { created_after: after, created_before: before }: CreatedTimes,
  timeZone: string,
): CreatedTimes => ({
  ...(after !== undefined && { created_after: instantOf(after, timeZone) }),
  ...(before !== undefined && { created_before: instantOf(before, timeZone) }),
})
