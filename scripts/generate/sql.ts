import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { knownStatements } from '../../src/db/statements/statement.ts'

/**
 * Writes the SQL of all statements to generated/sql, to be read and reviewed: one file for each that is written by hand, and one for
 * those of the query builder. Lists are compiled at their first use, for each combination of filters, and are not among them.
 */

const folder = 'generated/sql'

// A worker, which only runs in a thread.
for (const path of globSync('src/db/**/*.ts').toSorted()) await import(pathToFileURL(resolve(path)).href)

/** Without the indentation that all lines but the first share, and without blank lines. */
const dedented = (text: string): string => {
  const [first = '', ...lines] = text.split('\n').filter((line) => line.trim() !== '')
  const indent = Math.min(...lines.map((line) => line.search(/\S/)))
  return [first, ...lines.map((line) => line.slice(indent))].map((line) => line.trimEnd()).join('\n')
}

/** With each clause on its own line. */
const inLines = (text: string): string =>
  text.replaceAll(
    /(?:(?<!delete) (?=(?:from|(?:inner|left) join|where|group by|order by|limit|for|set|values|on conflict|returning) )|(?<=\*\/) )/g,
    '\n',
  )

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
const statements = [...knownStatements()].toSorted(([one], [other]) => (one < other ? -1 : 1))
const built: string[] = []
for (const [name, { kind, text }] of statements)
  if (kind === 'builder') built.push(`${inLines(text)};\n`)
  else writeFileSync(`${folder}/${name}.sql`, `${dedented(text)};\n`)
writeFileSync(`${folder}/built.sql`, built.join('\n'))
