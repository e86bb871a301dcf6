import t from 'tap'
import { withoutImplied } from '../../../src/domain/tasks/recurrence-days.ts'
import { formatRule, parseRule, type Rule } from '../../../src/domain/tasks/recurrence-rule.ts'

/** The syntax of rules: their canonical form, and what is refused. */

const parsed = (text: string): Rule => {
  const rule = parseRule(text, 'schedule')
  if ('message' in rule) throw new Error(rule.message)
  return rule
}

const canonical: readonly (readonly [text: string, canonical: string])[] = [
  ['FREQ=DAILY', 'FREQ=DAILY'],
  ['freq=weekly;byday=mo', 'FREQ=WEEKLY;BYDAY=MO'],
  ['RRULE:FREQ=DAILY', 'FREQ=DAILY'],
  ['INTERVAL=1;FREQ=DAILY', 'FREQ=DAILY'],
  ['FREQ=DAILY;INTERVAL=007', 'FREQ=DAILY;INTERVAL=7'],
  ['COUNT=10;FREQ=DAILY;INTERVAL=2', 'FREQ=DAILY;INTERVAL=2;COUNT=10'],
  ['FREQ=WEEKLY;BYDAY=SU,FR,MO,FR', 'FREQ=WEEKLY;BYDAY=MO,FR,SU'],
  ['FREQ=MONTHLY;BYDAY=-1FR,MO,+2TU,1WE', 'FREQ=MONTHLY;BYDAY=MO,1WE,2TU,-1FR'],
  ['FREQ=MONTHLY;BYMONTHDAY=-1,31,05,-2,1', 'FREQ=MONTHLY;BYMONTHDAY=1,5,31,-2,-1'],
  ['FREQ=YEARLY;BYMONTH=12,1,06', 'FREQ=YEARLY;BYMONTH=1,6,12'],
  ['FREQ=MONTHLY;BYSETPOS=-1,1;BYDAY=MO', 'FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1,-1'],
  ['FREQ=DAILY;UNTIL=20271231', 'FREQ=DAILY;UNTIL=20271231'],
  ['FREQ=DAILY;UNTIL=20271231t225959z', 'FREQ=DAILY;UNTIL=20271231T225959Z'],
  ['FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU', 'FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU'],
  ['FREQ=WEEKLY;BYDAY=TU,SU;BYSETPOS=1;WKST=SU', 'FREQ=WEEKLY;BYDAY=TU,SU;BYSETPOS=1;WKST=SU'],
  // The start of the week has no effect.
  ['FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO', 'FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU'],
  ['FREQ=WEEKLY;BYDAY=TU,SU;WKST=SU', 'FREQ=WEEKLY;BYDAY=TU,SU'],
  ['FREQ=WEEKLY;INTERVAL=2;WKST=SU', 'FREQ=WEEKLY;INTERVAL=2'],
  ['FREQ=MONTHLY;WKST=SU', 'FREQ=MONTHLY'],
]

t.test('rules have one canonical form', async (t) => {
  for (const [text, expected] of canonical) {
    t.equal(formatRule(parsed(text)), expected, text)
    t.equal(formatRule(parsed(expected)), expected, `${expected} stays`)
  }
})

const refused: readonly (readonly [text: string, part: string | null])[] = [
  ['', null],
  ['every day', null],
  ['DAILY', null],
  ['FREQ', null],
  ['FREQ=DAILY;', null],
  [' FREQ=DAILY', null],
  [`FREQ=DAILY;BYMONTHDAY=${'1,'.repeat(250)}1`, null],
  ['FREQ=', 'FREQ'],
  ['FREQ=FORTNIGHTLY', 'FREQ'],
  ['FREQ=HOURLY', 'FREQ'],
  ['FREQ=MINUTELY', 'FREQ'],
  ['FREQ=SECONDLY', 'FREQ'],
  ['INTERVAL=2', 'FREQ'],
  ['FREQ=DAILY;FREQ=DAILY', 'FREQ'],
  ['FREQ=DAILY;INTERVAL=0', 'INTERVAL'],
  ['FREQ=DAILY;INTERVAL=-1', 'INTERVAL'],
  ['FREQ=DAILY;INTERVAL=1.5', 'INTERVAL'],
  ['FREQ=DAILY;INTERVAL=1000000001', 'INTERVAL'],
  ['FREQ=DAILY;COUNT=0', 'COUNT'],
  ['FREQ=DAILY;COUNT=', 'COUNT'],
  ['FREQ=DAILY;COUNT=2;UNTIL=20271231', 'UNTIL'],
  ['FREQ=DAILY;UNTIL=2027-12-31', 'UNTIL'],
  ['FREQ=DAILY;UNTIL=20270229', 'UNTIL'],
  ['FREQ=DAILY;UNTIL=20271231T225959', 'UNTIL'],
  ['FREQ=DAILY;UNTIL=20271231T245959Z', 'UNTIL'],
  ['FREQ=DAILY;UNTIL=00001231', 'UNTIL'],
  ['FREQ=YEARLY;BYMONTH=0', 'BYMONTH'],
  ['FREQ=YEARLY;BYMONTH=13', 'BYMONTH'],
  ['FREQ=YEARLY;BYMONTH=-1', 'BYMONTH'],
  ['FREQ=YEARLY;BYMONTH=1,,2', 'BYMONTH'],
  ['FREQ=MONTHLY;BYMONTHDAY=0', 'BYMONTHDAY'],
  ['FREQ=MONTHLY;BYMONTHDAY=32', 'BYMONTHDAY'],
  ['FREQ=MONTHLY;BYMONTHDAY=-32', 'BYMONTHDAY'],
  ['FREQ=WEEKLY;BYMONTHDAY=1', 'BYMONTHDAY'],
  ['FREQ=WEEKLY;BYDAY=XX', 'BYDAY'],
  ['FREQ=WEEKLY;BYDAY=', 'BYDAY'],
  ['FREQ=WEEKLY;BYDAY=1MO', 'BYDAY'],
  ['FREQ=DAILY;BYDAY=-1MO', 'BYDAY'],
  ['FREQ=MONTHLY;BYDAY=0MO', 'BYDAY'],
  ['FREQ=MONTHLY;BYDAY=+MO', 'BYDAY'],
  ['FREQ=MONTHLY;BYDAY=6MO', 'BYDAY'],
  ['FREQ=YEARLY;BYMONTH=3;BYDAY=-6MO', 'BYDAY'],
  ['FREQ=YEARLY;BYDAY=54MO', 'BYDAY'],
  ['FREQ=MONTHLY;BYSETPOS=1', 'BYSETPOS'],
  ['FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0', 'BYSETPOS'],
  ['FREQ=DAILY;BYDAY=MO;BYSETPOS=2', 'BYSETPOS'],
  ['FREQ=WEEKLY;BYDAY=MO;BYSETPOS=8', 'BYSETPOS'],
  ['FREQ=MONTHLY;BYDAY=MO;BYSETPOS=-32', 'BYSETPOS'],
  ['FREQ=YEARLY;BYDAY=MO;BYSETPOS=367', 'BYSETPOS'],
  ['FREQ=WEEKLY;WKST=1', 'WKST'],
  ['FREQ=DAILY;BYHOUR=9', 'BYHOUR'],
  ['FREQ=DAILY;BYMINUTE=0', 'BYMINUTE'],
  ['FREQ=DAILY;BYSECOND=0', 'BYSECOND'],
  ['FREQ=YEARLY;BYYEARDAY=100', 'BYYEARDAY'],
  ['FREQ=YEARLY;BYWEEKNO=20', 'BYWEEKNO'],
  ['FREQ=MONTHLY;RSCALE=GREGORIAN', 'RSCALE'],
  ['FREQ=MONTHLY;SKIP=BACKWARD', 'SKIP'],
  ['DTSTART:20260101\nRRULE:FREQ=DAILY', 'DTSTART'],
  ['FREQ=DAILY;X-COLOR=RED', 'X-COLOR'],
]

t.test('a refusal names the part', async (t) => {
  for (const [text, part] of refused) {
    const fault = parseRule(text, 'schedule')
    t.match(fault, { part, message: /^[A-Z].*\.$/ }, text)
  }
  t.strictSame(parseRule('FREQ=DAILY;BYHOUR=9', 'schedule'), {
    part: 'BYHOUR',
    message: 'BYHOUR is not supported. The time of day is that of the task.',
  })
})

t.test('from the completion, a rule has no days of the calendar', async (t) => {
  const accepted = ['FREQ=DAILY;INTERVAL=3', 'FREQ=MONTHLY;COUNT=4', 'FREQ=YEARLY;UNTIL=20301231']
  for (const text of accepted) t.notMatch(parseRule(text, 'completion'), { message: String }, text)
  for (const part of ['BYMONTH=1', 'BYMONTHDAY=1', 'BYDAY=MO', 'BYMONTH=1;BYSETPOS=1']) {
    const [name] = part.split('=')
    t.match(parseRule(`FREQ=MONTHLY;${part}`, 'completion'), { part: name, message: /completion/ }, part)
  }
})

const implied: readonly (readonly [rule: string, anchor: string, left: string])[] = [
  ['FREQ=WEEKLY;BYDAY=MO', '2026-11-30', 'FREQ=WEEKLY'],
  ['FREQ=WEEKLY;BYDAY=MO', '2026-12-01', 'FREQ=WEEKLY;BYDAY=MO'],
  ['FREQ=WEEKLY;BYDAY=MO,TU', '2026-11-30', 'FREQ=WEEKLY;BYDAY=MO,TU'],
  ['FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;WKST=SU', '2026-11-30', 'FREQ=WEEKLY;INTERVAL=2'],
  ['FREQ=MONTHLY;BYMONTHDAY=30', '2026-11-30', 'FREQ=MONTHLY'],
  ['FREQ=MONTHLY;BYMONTHDAY=-1', '2026-11-30', 'FREQ=MONTHLY;BYMONTHDAY=-1'],
  ['FREQ=MONTHLY;BYDAY=-1MO', '2026-11-30', 'FREQ=MONTHLY;BYDAY=-1MO'],
  ['FREQ=MONTHLY;BYMONTH=11;BYMONTHDAY=30', '2026-11-30', 'FREQ=MONTHLY;BYMONTH=11'],
  ['FREQ=YEARLY;BYMONTH=11;BYMONTHDAY=30', '2026-11-30', 'FREQ=YEARLY'],
  ['FREQ=YEARLY;BYMONTH=11', '2026-11-30', 'FREQ=YEARLY'],
  ['FREQ=YEARLY;BYMONTH=5,11;BYMONTHDAY=30', '2026-11-30', 'FREQ=YEARLY;BYMONTH=5,11'],
  ['FREQ=YEARLY;BYMONTHDAY=30', '2026-11-30', 'FREQ=YEARLY;BYMONTHDAY=30'],
  ['FREQ=DAILY;BYDAY=MO', '2026-11-30', 'FREQ=DAILY;BYDAY=MO'],
  ['FREQ=MONTHLY;BYMONTHDAY=30;BYSETPOS=1', '2026-11-30', 'FREQ=MONTHLY;BYMONTHDAY=30;BYSETPOS=1'],
]

t.test('what the rule takes from the anchor need not be said', async (t) => {
  for (const [rule, anchor, left] of implied)
    t.equal(formatRule(withoutImplied(parsed(rule), anchor)), left, `${rule} from ${anchor}`)
})
