import MarkdownIt, { type Token } from 'markdown-it'

/** Maximum number of different usernames that one text can mention. */
export const maxMentions = 100

/** HTML is text to it. */
const parser = new MarkdownIt('commonmark', { html: false })
// It would join an escaped character with the text around it.
parser.core.ruler.disable('text_join')

/**
 * The usernames that a Markdown text mentions as `@username`, in the order in which they first appear. Code in spans and blocks
 * mentions nobody, and neither do email addresses, URLs and `\@username`. Takes linear time.
 */
export const mentionedUsernames = (markdown: string): readonly string[] => {
  const names = new Set<string>()
  for (const text of textsOf(parser.parse(markdown, {}))) {
    for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', at + 1)) {
      const name = nameAt(text, at)
      if (name !== null) names.add(name.toLowerCase())
      if (names.size === maxMentions) return [...names]
    }
  }
  return [...names]
}

/** The texts outside of code, with an image's description. Markup separates them, and so does an escaped character. */
function* textsOf(tokens: readonly Token[]): Generator<string> {
  for (const { type, content, children } of tokens)
    if (type === 'text') yield content
    else if (children !== null) yield* textsOf(children)
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
