/** How many letters have to be put in, left out or replaced to make one word of another (Levenshtein). */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [line, letter] of Array.from(one).entries()) {
    const next = [line + 1]
    for (const [index, match] of Array.from(other).entries()) {
      const replaced = (row[index] ?? 0) + (letter === match ? 0 : 1)
      next.push(Math.min(replaced, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}

/** Letters of a name that is long enough to be mistyped, and not another word. */
const shortest = 8

/** Two neighbours that changed places are two letters. */
const mostMistyped = 2

/** Which of the known names was meant by one that is not known; null when it is none of them. */
export const nameMeantBy = (name: string, known: readonly string[]): string | null =>
  known.find((other) => other.length >= shortest && distance(name, other) <= mostMistyped) ?? null
