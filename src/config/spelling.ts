import leven from 'leven'

/** Letters of a name that is long enough to be mistyped, and not another word. */
const shortest = 8

/** How many letters are put in, left out or replaced. Two neighbours that changed places are two letters. */
const mostMistyped = 2

/** Which of the known names was meant by one that is not known; null when it is none of them. */
export const nameMeantBy = (name: string, known: readonly string[]): string | null =>
  known.find((other) => other.length >= shortest && leven(name, other) <= mostMistyped) ?? null
