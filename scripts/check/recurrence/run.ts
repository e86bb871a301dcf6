import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstOccurrence, occurrencesAfter, type Series } from '../../../src/domain/tasks/recurrence.ts'
import { parseRule } from '../../../src/domain/tasks/recurrence-rule.ts'
import { CommandFailure, createRun, hasCommands, installPython, type Run, skip } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'
import { type Case, generateCases } from './cases.ts'
import { answerFor, differences, lineFor, type Oracle, oracles } from './oracles.ts'

/**
 * Compares the days of generated recurrence rules with those that python-dateutil and libical find. A difference must be one of the
 * explained `differences`.
 */

/** A fixed seed makes runs repeatable. */
const seed = 1
const amount = 6_000

/** Milliseconds, including the installation of the oracles. */
const deadline = 10 * 60_000

const source = fileURLToPath(new URL('.', import.meta.url))
const cache = fileURLToPath(new URL('../../../.cache/recurrence', import.meta.url))

type Commands = Readonly<Record<Oracle, readonly [string, ...string[]]>>

/** Installs the oracles. Null if this machine lacks libical. */
const install = async (t: Teardown, run: Run): Promise<Commands | null> => {
  const bin = await installPython(t, source, cache)
  const libical = join(cache, 'libical')
  try {
    await run('cc', '-O2', '-o', libical, join(source, 'libical.c'), '-lical')
  } catch (error) {
    if (error instanceof CommandFailure && error.message.includes('ical.h')) return null
    throw error
  }
  return { dateutil: [join(bin, 'python'), join(source, 'dateutil_days.py')], libical: [libical] }
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
  oracle: Oracle,
  cases: readonly Answered[],
  answer: (file: string) => Promise<string>,
): Promise<readonly (string | null)[]> => {
  const lines = cases.map(({ question, answer: own }, index) =>
    // When a rule never occurs, libical searches for seconds, and dateutil for one.
    own === '' && (oracle === 'libical' || index % 40 > 0) ? null : lineFor(oracle, question),
  )
  const file = join(cache, `${oracle}.cases`)
  await writeFile(file, lines.filter((line) => line !== null).join('\n'))
  const answers = (await answer(file)).split('\n').values()
  return lines.map((line) => (line === null ? null : (answers.next().value ?? '').trim()))
}

await runToEnd('recurrence', deadline, async (t) => {
  if (!hasCommands(['python3', 'cc'])) return
  const run = createRun(t, cache)
  const commands = await install(t, run)
  if (commands === null) return skip('libical-dev is not installed')
  const cases = generateCases(amount, seed).map(ownAnswer)
  const answers = await Promise.all(
    oracles.map((oracle) => ask(oracle, cases, (file) => run(...commands[oracle], file))),
  )
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
