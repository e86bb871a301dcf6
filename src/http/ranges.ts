/** The bytes to send: all (200), `start` to `end` inclusive (206), or none (416). */
export type SelectedRange =
  { kind: 'whole' } | { kind: 'part'; start: number; end: number } | { kind: 'unsatisfiable' }

const whole: SelectedRange = { kind: 'whole' }
const unsatisfiable: SelectedRange = { kind: 'unsatisfiable' }

/**
 * Evaluates a Range header (RFC 9110 §14.1.2, §14.2) for a file of `size` bytes. A header that is malformed, in another
 * unit or for several ranges is ignored, as the RFC allows: the whole file is sent.
 */
export function selectRange(header: string | undefined, size: number): SelectedRange {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(header ?? '') ?? []
  if (first && last) return selectBetween(Number(first), Number(last), size)
  if (first) return selectBetween(Number(first), Infinity, size)
  if (last) return selectSuffix(Number(last), size)
  return whole
}

/** A last position before the first makes the header invalid, not unsatisfiable (§14.1.1). */
function selectBetween(first: number, last: number, size: number): SelectedRange {
  if (last < first) return whole
  if (first >= size) return unsatisfiable
  return { kind: 'part', start: first, end: Math.min(last, size - 1) }
}

/** A suffix longer than the file means all of it. For an empty file no Content-Range exists, so it is sent whole. */
function selectSuffix(length: number, size: number): SelectedRange {
  if (length === 0) return unsatisfiable
  if (size === 0) return whole
  return { kind: 'part', start: Math.max(0, size - length), end: size - 1 }
}
