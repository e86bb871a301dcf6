/** The response headers that announce a deprecation. */
export interface Deprecation {
  /** The date of the deprecation (RFC 9745). */
  readonly deprecation: string
  /** The earliest date of the removal (RFC 8594). */
  readonly sunset: string
}

/** Months between a deprecation and the removal, as promised in docs/guides/compatibility.md. */
const minMonths = 12

/**
 * Reads `deprecated`, `x-deprecated` and `x-sunset` of an operation or a parameter. Null if it is not deprecated.
 *
 * @throws Error if a date is missing, or if they are less than 12 months apart
 */
export const readDeprecation = (
  what: string,
  node: Readonly<Record<string, unknown>>,
): Deprecation | null => {
  if (node.deprecated !== true) return null
  const since = readDate(what, 'x-deprecated', node['x-deprecated'])
  const sunset = readDate(what, 'x-sunset', node['x-sunset'])
  const earliest = new Date(since)
  earliest.setUTCMonth(earliest.getUTCMonth() + minMonths)
  if (sunset < earliest)
    throw new Error(`${what}: x-sunset is less than ${minMonths} months after x-deprecated in openapi.yaml`)
  return { deprecation: `@${since.getTime() / 1_000}`, sunset: sunset.toUTCString() }
}

const readDate = (what: string, name: string, value: unknown): Date => {
  const date = typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value) ? new Date(value) : null
  if (date === null || Number.isNaN(date.getTime()))
    throw new Error(`${what} is deprecated and has no ${name} such as 2027-01-31 in openapi.yaml`)
  return date
}
