import { readFileSync, writeFileSync } from 'node:fs'
import { type Setting, settings } from '../../src/config/settings.ts'
import { loadContract } from '../../src/contract/contract.ts'
import { retryRules } from '../../src/contract/retries.ts'
import { problemCodes, problemTypes } from '../../src/problems/catalogue.ts'
import { responseEnumerations } from '../check/enumerations.ts'

/** Generates tables and lists in docs/, each between `<!-- name -->` and `<!-- /name -->`. */

const problemTable = (): string => {
  const rows = problemCodes.map((code) => {
    const { status, title, cause, remedy } = problemTypes[code]
    return `| ${status} | \`${code}\` | ${title} | ${cause} | ${remedy} |`
  })
  return ['| status | code | title | cause | what to do |', '| --- | --- | --- | --- | --- |', ...rows].join(
    '\n',
  )
}

const retryTable = (): string => {
  const rows = retryRules(loadContract()).map(
    ({ operation: { method, path }, on409, on429, on503, onUnknown }) =>
      `| \`${method} ${path}\` | ${[on409, on429, on503, onUnknown].map((text) => text ?? '–').join(' | ')} |`,
  )
  return [
    '| operation | 409 | 429 | 503 | 500, 504, lost connection |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n')
}

const recentSignInList = (): string =>
  [...loadContract().operations.values()]
    .flatMap(({ method, path, recentSignIn }) => {
      if (recentSignIn === null) return []
      return [`- \`${method} ${path}\`${recentSignIn === 'always' ? '' : `, ${recentSignIn}`}`]
    })
    .join('\n')

const finalEnumerationList = (): string =>
  responseEnumerations(loadContract().document)
    .filter(({ isFinal }) => isFinal)
    .map(({ name, values }) => `- \`${name}\`: ${values.map((value) => `\`${String(value)}\``).join(', ')}`)
    .join('\n')

const previewList = (): string => {
  const previews = [...loadContract().operations.values()].filter(({ isPreview }) => isPreview)
  if (previews.length === 0) return 'No operation is a preview at present.'
  return previews.map(({ method, path }) => `- \`${method} ${path}\``).join('\n')
}

const settingsTable = (): string => {
  const rowOf = ({
    name,
    default: value,
    shownDefault = `\`${String(value)}\``,
    doc,
    isSecret = false,
  }: Setting<unknown>) =>
    `| \`${name}\` | ${shownDefault} | ${doc}${isSecret ? ` Or \`${name}_FILE\`: a file with it.` : ''} |`
  return [
    '| variable | default | meaning |',
    '| --- | --- | --- |',
    ...Object.values(settings).map(rowOf),
  ].join('\n')
}

const replaceSection = (path: string, name: string, content: string): void => {
  const url = new URL(`../../${path}`, import.meta.url)
  const text = readFileSync(url, 'utf8')
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const [before, rest = ''] = text.split(begin, 2)
  const [, after] = rest.split(end, 2)
  if (after === undefined) throw new Error(`${path} has no ${begin} … ${end}`)
  writeFileSync(url, `${before}${begin}\n\n${content}\n\n${end}${after}`)
}

replaceSection('docs/guides/errors.md', 'problems', problemTable())
replaceSection('docs/guides/authentication.md', 'recent sign-ins', recentSignInList())
replaceSection('docs/guides/concurrency-and-idempotency.md', 'retries', retryTable())
replaceSection('docs/guides/compatibility.md', 'final enumerations', finalEnumerationList())
replaceSection('docs/guides/compatibility.md', 'previews', previewList())
replaceSection('docs/operations/configuration.md', 'settings', settingsTable())
