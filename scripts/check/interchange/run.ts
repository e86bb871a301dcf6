import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { occurrencesOf } from '../../../src/domain/tasks/series.ts'
import { type CalendarFacts, calendarText } from '../../../src/interchange/calendar.ts'
import type { TaskRecord } from '../../../src/interchange/records.ts'
import { recurringRecord } from '../../../test/fixture/interchange.ts'
import { createRun, hasCommands, installPython, type Run } from '../../run/commands.ts'
import { runToEnd, type Teardown } from '../../run/run-to-end.ts'

/** Reads calendars of this service with icalendar (Python), libical and ical4j: all must find the dates that the service has. */

const deadline = 10 * 60_000

const source = fileURLToPath(new URL('.', import.meta.url))
const cache = fileURLToPath(new URL('../../../.cache/interchange', import.meta.url))

/** Installs the parsers. Resolves to their commands, which print "uid start end occurrences" for each component. */
const install = async (
  t: Teardown,
  run: Run,
): Promise<Readonly<Record<string, readonly [string, ...string[]]>>> => {
  const bin = await installPython(t, source, cache)
  const libical = join(cache, 'libical_dates')
  await run('cc', '-O2', '-o', libical, join(source, 'libical_dates.c'), '-lical')
  const jars = join(cache, 'jars')
  const pom = join(source, 'pom.xml')
  await run('mvn', '-q', '-f', pom, 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`)
  return {
    icalendar: [join(bin, 'python'), join(source, 'icalendar_dates.py')],
    libical: [libical],
    ical4j: ['java', '-cp', join(jars, '*'), join(source, 'Ical4jDates.java')],
  }
}

const rules = [
  'FREQ=DAILY;INTERVAL=3',
  'FREQ=WEEKLY;INTERVAL=2',
  'FREQ=WEEKLY;BYDAY=MO,TH;UNTIL=20270301',
  'FREQ=MONTHLY',
  'FREQ=MONTHLY;BYMONTHDAY=15,31;COUNT=4',
  'FREQ=MONTHLY;BYDAY=-1FR',
  'FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1',
  'FREQ=YEARLY',
]

/** Around changes of the clock, and at ends of months. */
const dates = [
  { due_at: '2026-03-27T23:30:00.000Z' },
  { due_at: '2026-10-22T06:15:00.000Z' },
  { due_on: '2026-01-31' },
  { due_on: '2024-02-29' },
]

const tasks: readonly TaskRecord[] = ['Europe/Berlin', 'America/New_York', 'UTC'].flatMap((time_zone) =>
  rules.flatMap((rule) =>
    dates.map((date, index) =>
      recurringRecord({ id: `${time_zone}-${rule}-${index}`, ...date }, { rule, time_zone }),
    ),
  ),
)

/** The first dates of a task, as the parsers print them. */
const datesOf = (task: TaskRecord): string =>
  [task.due_at ?? task.due_on, ...(occurrencesOf(task, 4)?.items ?? []).map(({ at, on }) => at ?? on)]
    .map((date) => date?.replace('.000', '').replaceAll(/[-:]/g, ''))
    .join(',')

await runToEnd('interchange', deadline, async (t) => {
  if (!hasCommands(['python3', 'cc', 'java', 'mvn'], { isRequired: false })) return
  const run = createRun(t, cache)
  const parsers = await install(t, run)
  for (const kind of ['todo', 'event'] as const) {
    const facts: CalendarFacts = {
      generator: 'check',
      name: 'Tasks, of a check',
      color: '#1560f0',
      kind,
      alarms: true,
      timeZone: 'Europe/Berlin',
      refreshMinutes: 60,
    }
    const written = tasks.map((task) => ({ ...task, updated_at: '2026-01-01T00:00:00.000Z', tags: ['a,b'] }))
    const file = join(cache, `${kind}.ics`)
    await writeFile(file, (await Array.fromAsync(calendarText(facts, written))).join(''))
    for (const [name, command] of Object.entries(parsers)) {
      const lines = (await run(...command, file)).split('\n').filter((line) => line.startsWith('series-'))
      const found = new Map(lines.map((line) => [line.split(' ')[0], line.split(' ')[3]]))
      const rest = tasks.filter((task) => found.get(task.series_id ?? '') !== datesOf(task))
      // Without a rule, a task is in the calendar all the same.
      const different = rest.filter((task) => found.get(task.series_id ?? '') !== '-')
      console.log(
        `${name}: ${tasks.length - rest.length} of ${tasks.length} recur as ${kind} as they do here`,
      )
      for (const task of different)
        console.log(`  DIFFERENT: ${task.id}: ${found.get(task.series_id ?? '')} instead of ${datesOf(task)}`)
      if (different.length > 0 || lines.length !== tasks.length) process.exitCode = 1
    }
  }
})
