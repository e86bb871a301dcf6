/** Characters, of which an element that does not end can take the square of time. */
const maxText = 200_000

/** Makes Markdown of the simple HTML that editors of other products write; other text stays as it is. */
export const textOfHtml = (text: string): string => {
  if (
    text.length > maxText ||
    !/<\/?(p|br|ul|ol|li|h[1-6]|strong|em|a|code|pre|blockquote|div)\b[^<>]*>/i.test(text)
  )
    return text
  return text
    .replaceAll(/\r?\n/g, ' ')
    .replaceAll(/<li\b[^<>]*>(\s*<p>)?/gi, '\n- ')
    .replaceAll(/<h([1-6])\b[^<>]*>/gi, (_, level: string) => `\n${'#'.repeat(Number(level))} `)
    .replaceAll(/<a\b([^<>]*)>([^<]*)<\/a>/gi, (_, attributes: string, name: string) =>
      linkOf(attributes, name),
    )
    .replaceAll(/<\/?(strong|b)>/gi, '**')
    .replaceAll(/<\/?(em|i)>/gi, '*')
    .replaceAll(/<\/?code\b[^<>]*>/gi, '`')
    .replaceAll(/<br\b[^<>]*>/gi, '\n')
    .replaceAll(/<\/(p|div|h[1-6]|ul|ol|pre|blockquote)>/gi, '\n\n')
    .replaceAll(/<[^<>]*>/g, '')
    .replaceAll(/&(lt|gt|quot|#39|nbsp|amp);/g, (_, name: string) => entities[name] ?? '')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()
}

const linkOf = (attributes: string, name: string): string => {
  const url = /href="([^"]*)"/i.exec(attributes)?.[1]
  return url === undefined || url === name ? name : `[${name}](${url})`
}

const entities: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  nbsp: ' ',
  amp: '&',
}
