/** Maximum number of different usernames that one text can mention. */
export const maxMentions = 100

/**
 * The usernames that a Markdown text mentions as `@username`, in the order in which they first appear. Code in spans and blocks
 * mentions nobody, and neither do email addresses, URLs and `\@username`. Takes linear time.
 */
export const mentionedUsernames = (markdown: string): readonly string[] => {
  const names = new Set<string>()
  for (const paragraph of paragraphsOf(markdown)) {
    const text = withoutCodeSpans(paragraph)
    for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
      const name = nameAt(text, at)
      if (name !== null) names.add(name.toLowerCase())
      if (names.size === maxMentions) return [...names]
    }
  }
  return [...names]
}

/** A character of a word in a script with word spaces. An `@` after any other script, such as Chinese, can start a mention. */
const inWord = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{M}\p{Nd}]/u
/** A path, an escape or another `@` directly before an `@`. */
const beforeName = /[/\\@]/
/** Characters inside a name or the local part of an email address. */
const joins = /[._%+-]/
const name = /[A-Za-z0-9][A-Za-z0-9._-]*/y

/** The name after the `@` at this index; null if the `@` is part of an email address, a path or an escape. */
const nameAt = (text: string, at: number): string | null => {
  let start = at
  while (joins.test(text.charAt(start - 1))) start -= 1
  const before = Array.from(text.slice(Math.max(0, start - 2), start)).at(-1) ?? ''
  if (inWord.test(before) || beforeName.test(before)) return null
  name.lastIndex = at + 1
  const [found] = name.exec(text) ?? []
  if (found === undefined) return null
  const [after = ''] = text.slice(at + 1 + found.length, at + 3 + found.length)
  if (inWord.test(after) || after === '@') return null
  let end = found.length
  while (joins.test(found.charAt(end - 1))) end -= 1
  return found.slice(0, end)
}

/** The paragraphs of a Markdown text outside code blocks. They are separate because a code span ends with its paragraph. */
function* paragraphsOf(markdown: string): Generator<string> {
  let lines: string[] = []
  let fence: Fence | null = null
  let isInList = false
  for (const line of markdown.split(/\r\n?|\n/)) {
    const { quotes, text } = unquoted(line)
    if (fence !== null && quotes >= fence.quotes) {
      if (isEndOf(fence, text)) fence = null
      continue
    }
    const isIndented = /^(?: {4}| {0,3}\t)/.test(text)
    const isItem = listMarker.test(text)
    if (text.trim() !== '' && !isIndented)
      isInList = isItem || (isInList && (lines.length > 0 || /^\s/.test(text)))
    const isCode = isIndented && lines.length === 0 && !isInList
    fence = isCode ? null : fenceIn(text, quotes)
    const endsParagraph = text.trim() === '' || fence !== null || isItem
    if (endsParagraph && lines.length > 0) {
      yield lines.join('\n')
      lines = []
    }
    if (!isCode && fence === null && text.trim() !== '') lines.push(text)
  }
  if (lines.length > 0) yield lines.join('\n')
}

/** The start of a fenced code block. */
interface Fence {
  readonly marker: string
  /** Depth of block quotes. The code block ends with the innermost of them. */
  readonly quotes: number
}

const listMarker = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/

/** A line without the markers of block quotes, and their number. */
const unquoted = (line: string): { readonly quotes: number; readonly text: string } => {
  const [markers = ''] = /^(?: {0,3}> ?)*/.exec(line) ?? []
  return { quotes: markers.split('>').length - 1, text: line.slice(markers.length) }
}

const fenceIn = (text: string, quotes: number): Fence | null => {
  const content = text.replace(listMarker, '').trimStart()
  const [marker] = /^(?:`{3,}|~{3,})/.exec(content) ?? []
  if (marker === undefined) return null
  const isCodeSpan = marker.startsWith('`') && content.slice(marker.length).includes('`')
  return isCodeSpan ? null : { marker, quotes }
}

const isEndOf = ({ marker }: Fence, text: string): boolean => {
  const content = text.trim()
  return content.length >= marker.length && content === marker.charAt(0).repeat(content.length)
}

/** A code span ends at the next run of backticks of the same length as its first. An escaped backtick does not begin a span. */
const withoutCodeSpans = (paragraph: string): string => {
  const escaped = new Set(Array.from(paragraph.matchAll(/\\[\s\S]/g), ({ index }) => index + 1))
  const runs = Array.from(paragraph.matchAll(/`+/g), ({ 0: { length }, index }) => ({
    length,
    opening: escaped.has(index) ? length - 1 : length,
    end: index + length,
  }))
  /** Indexes of the runs by length, in reverse order, so that the next one is popped from the end. */
  const following = Map.groupBy(runs.keys().toArray().toReversed(), (place) => runs[place]?.length ?? 0)
  let text = ''
  let from = 0
  let skipped = -1
  for (const [place, { opening, end }] of runs.entries()) {
    const candidates = following.get(opening) ?? []
    while ((candidates.at(-1) ?? Infinity) <= place) candidates.pop()
    const closing = candidates.at(-1)
    if (place <= skipped || closing === undefined) continue
    text += paragraph.slice(from, end)
    from = runs[closing]?.end ?? end
    skipped = closing
  }
  return text + paragraph.slice(from)
}
