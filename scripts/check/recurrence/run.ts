import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstOccurrence, occurrencesAfter, type Series } from '../../../src/domain/recurrence.ts'
import { parseRule } from '../../../src/domain/recurrence-rule.ts'
import { temporaryFolder } from '../../../test/fixture/process.ts'
import { CommandFailure, isInstalled, runCommand } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'
import { type Case, generateCases } from './cases.ts'
import { answerFor, differences, lineFor, type Oracle, oracles } from './oracles.ts'

/**
 * Compares the days of generated recurrence rules with those that python-dateutil and libical find. A difference must be one of the
 * explained `differences`.
 */

/** A fixed seed makes runs repeatable. Arguments override both. */
const seed = Number(process.argv[2] ?? 1)
const amount = Number(process.argv[3] ?? 6_000)

/** Milliseconds, including the installation of the oracles. */
const deadline = 10 * 60_000

/** Exit code of a check that cannot run on this machine. */
const skippedCode = 75

const root = fileURLToPath(new URL('../../..', import.meta.url))
const source = fileURLToPath(new URL('.', import.meta.url))
const cache = join(root, '.cache/recurrence')
const python = join(cache, 'venv/bin/python')

const commands: Readonly<Record<Oracle, readonly string[]>> = {
  dateutil: [python, join(source, 'dateutil_days.py')],
  libical: [join(cache, 'libical')],
}

const run = (t: Teardown, [command = '', ...args]: readonly string[]): Promise<string> =>
  runCommand(t, { command, args, cwd: cache, env: process.env })

/** Installs the oracles. Resolves to the name of what this machine lacks, or to null. */
const install = async (t: Teardown): Promise<string | null> => {
  const missing = ['python3', 'cc'].find((name) => !isInstalled(name))
  if (missing !== undefined) return missing
  await mkdir(cache, { recursive: true })
  const [program = ''] = commands.libical
  try {
    await run(t, ['cc', '-O2', '-o', program, join(source, 'libical.c'), '-lical'])
  } catch (error) {
    if (error instanceof CommandFailure && error.message.includes('ical.h')) return 'libical-dev'
    throw error
  }
  await run(t, ['python3', '-m', 'venv', join(cache, 'venv')])
  const requirements = join(source, 'requirements.txt')
  await run(t, [python, '-m', 'pip', 'install', '--quiet', '--no-deps', '--requirement', requirements])
  return null
}

/** A case, parsed, with the answer of this service. */
const ownAnswer = ({ rule: text, anchor, month_end }: Case) => {
  const rule = parseRule(text, 'schedule')
  if ('message' in rule) throw new Error(`${text} is refused: ${rule.message}`)
  const series: Series = { rule: text, anchor, month_end, time_zone: 'UTC', from: 'schedule', missed: 'each' }
  const { items } = occurrencesAfter(series, firstOccurrence(series), 100)
  const answer = answerFor(
    items.map(({ on }) => on),
    anchor,
  )
  return { text, answer, question: { rule, anchor, month_end } }
}

type Answered = ReturnType<typeof ownAnswer>

/** The answers of an oracle; null where it was not asked. */
const ask = async (
  t: Teardown,
  oracle: Oracle,
  cases: readonly Answered[],
): Promise<readonly (string | null)[]> => {
  const lines = cases.map(({ question, answer }, index) =>
    // When a rule never occurs, libical searches for seconds, and dateutil for one.
    answer === '' && (oracle === 'libical' || index % 40 > 0) ? null : lineFor(oracle, question),
  )
  const file = join(await temporaryFolder(t), oracle)
  await writeFile(file, lines.filter((line) => line !== null).join('\n'))
  const answers = (await run(t, [...commands[oracle], file])).split('\n').values()
  return lines.map((line) => (line === null ? null : (answers.next().value ?? '').trim()))
}

await runToEnd('recurrence', deadline, async (t) => {
  const missing = await install(t)
  if (missing !== null) {
    console.log(`skipped: ${missing} is not installed`)
    // Required in CI only.
    process.exitCode = process.env.CI ? 1 : skippedCode
    return
  }
  const cases = generateCases(amount, seed).map(ownAnswer)
  const answers = await Promise.all(oracles.map((oracle) => ask(t, oracle, cases)))
  const confirmed = new Set<Answered>()
  for (const [index, oracle] of oracles.entries()) {
    const asked = cases.flatMap((answered, number) => {
      const theirs = answers[index]?.[number] ?? null
      return theirs === null ? [] : [{ answered, theirs }]
    })
    for (const { answered, theirs } of asked) if (theirs === answered.answer) confirmed.add(answered)
    const different = asked.filter(({ answered, theirs }) => theirs !== answered.answer)
    console.log(`${oracle}: ${asked.length} rules, ${different.length} with other days`)

    const explained = Map.groupBy(different, ({ answered }) =>
      differences.find((difference) => difference.oracle === oracle && difference.applies(answered.question)),
    )
    for (const [difference, { length }] of explained)
      if (difference) console.log(`  ${length}: ${difference.reason} (${difference.section})`)
    for (const { answered, theirs } of explained.get(undefined) ?? []) {
      const { text, answer, question } = answered
      console.log(`  NOT EXPLAINED: ${text} from ${question.anchor}, ${question.month_end}`)
      console.log(`    here:  ${answer}\n    there: ${theirs}`)
      process.exitCode = 1
    }
  }
  console.log(`An oracle confirms ${confirmed.size} of ${amount} rules`)
})
