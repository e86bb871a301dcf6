import { readFile } from 'node:fs/promises'
import t from 'tap'

const read = (path: string): Promise<string> => readFile(new URL(`../${path}`, import.meta.url), 'utf8')

/** Lines without their indentation, which differs between a program and README. */
const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

/** The lines of a program that README shows. */
const shownLines = (program: string): string[] => {
  const [, shown = ''] = /README: begin\n([^]*?)\n[^\n]*README: end/.exec(program) ?? []
  return linesOf(shown)
}

const programs = {
  typescript: 'main.ts',
  python: 'main.py',
  go: 'main.go',
  java: 'Main.java',
}

for (const [language, file] of Object.entries(programs)) {
  t.test(`README shows lines of the ${language} program`, async (t) => {
    const shown = shownLines(await read(`scripts/sdk/${language}/${file}`))
    t.ok(shown.length > 5)
    t.ok(
      linesOf(await read('README.md'))
        .join('\n')
        .includes(shown.join('\n')),
      'to the letter',
    )
  })
}
