import { globSync, readFileSync } from 'node:fs'
import { check } from 'recheck'
import ts from 'typescript'
import { loadContract } from '../../src/contract/contract.ts'

/**
 * Fails if a regular expression may take more than linear time: each `pattern` of openapi.yaml and each literal in src. An
 * expression built at run time cannot be checked and fails, too.
 */

interface Pattern {
  readonly source: string
  readonly flags: string
  readonly places: string[]
}

/** Milliseconds for each pattern. */
const timeout = 20_000

/** Milliseconds that a match must take to count. An attack that was found by counting steps can be harmless. */
const recallTimeout = 1_000

const patterns = new Map<string, Pattern>()
const failures: string[] = []

const add = (source: string, flags: string, place: string): void => {
  const pattern = patterns.get(`/${source}/${flags}`) ?? { source, flags, places: [] }
  pattern.places.push(place)
  patterns.set(`/${source}/${flags}`, pattern)
}

/** Patterns of the contract are compiled with the flag u, as Ajv does. */
const collectFromContract = (node: unknown, pointer: string): void => {
  if (typeof node !== 'object' || node === null) return
  for (const [name, value] of Object.entries(node)) {
    if (name === 'pattern' && typeof value === 'string') add(value, 'u', `openapi.yaml ${pointer}`)
    else collectFromContract(value, `${pointer}/${name}`)
  }
}

const collectFromSource = (path: string): void => {
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)
  const placeOf = (node: ts.Node): string =>
    `${path}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}`
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      add(node.text.slice(1, end), node.text.slice(end + 1), placeOf(node))
    }
    if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp')
      failures.push(`${placeOf(node)}: built at run time; use a literal, or write a parser`)
    ts.forEachChild(node, visit)
  }
  visit(file)
}

/** Files whose patterns are not applied to input of clients, and the source of their input. */
const trusted = new Map([
  ['src/config/config.ts', 'the environment'],
  ['src/config/values.ts', 'the environment'],
])

collectFromContract(loadContract().document, '#')
for (const path of globSync('src/**/*.{ts,js}').toSorted()) if (!trusted.has(path)) collectFromSource(path)

for (const [text, { source, flags, places }] of patterns) {
  const result = await check(source, flags, { timeout, recallTimeout })
  if (result.status === 'safe') continue
  const reason =
    result.status === 'vulnerable'
      ? `${result.complexity.summary}, for example with ${result.attack.pattern.slice(0, 200)}`
      : `undecided (${result.error.kind})`
  failures.push(`${places.join(', ')}: ${text} is ${reason}`)
}

for (const failure of failures) console.error(failure)
console.log(`${patterns.size} regular expressions, ${failures.length} not proven to run in linear time`)
if (failures.length > 0) process.exitCode = 1
