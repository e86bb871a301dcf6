import ICAL from 'ical.js'
import { createReadStream } from 'node:fs'
import { canonicalInstant, isDay } from '../../domain/shared/dates.ts'
import { firstOccurrence, occurrencesAfter } from '../../domain/tasks/recurrence.ts'
import { dayNumber } from '../../domain/tasks/recurrence-days.ts'
import { formatRule, parseRule } from '../../domain/tasks/recurrence-rule.ts'
import { anchorOf } from '../../domain/tasks/series.ts'
import { canonicalTimeZone, dayOf, instantAtLocal, shift } from '../../domain/shared/time-zones.ts'
import { blankProject, blankTask, dueFields, startFields, tagNamed } from '../blank.ts'
import { type Draft, type Drafts, type Fault, note, refusal } from '../drafts.ts'
import { excerpt } from '../fields.ts'
import { headOf } from '../file-head.ts'
import { isTextEncoding, type ReadOptions, type TextEncoding } from '../import-file.ts'
import { BoundedBytes, linesIn } from '../lines.ts'
import type { InterchangeRecord, Reminder, TaskRecord } from '../records.ts'
import { lostReminder, recurringReminders } from '../recurring-reminders.ts'
import { decode, decoded, guessEncoding } from '../text-encoding.ts'

/**
 * Reads the to-dos of a calendar. ical.js gets each property by itself: one that it cannot parse would take the whole calendar with
 * it, and is one line of the report here.
 */

/** Characters of a component. */
const maxComponent = 4 * 1024 ** 2

/** Notes of what is left out, or not known, with one name each. */
const maxNotes = 20

/** What a line takes beyond its characters, in characters. */
const lineOverhead = 32

const headBytes = 64 * 1024

/** Characters of the name and the parameters of a property that is quoted-printable. */
const maxQuotedHead = 1000

const source = 'icalendar'

interface Property {
  readonly name: string
  readonly parameters: Readonly<Record<string, string | readonly string[]>>
  readonly type: string
  /** Of the first value; `values` has all of them. */
  readonly value: unknown
  readonly values: readonly unknown[]
}

interface Component {
  readonly name: string
  readonly line: number
  readonly lines: string[]
  readonly components: Component[]
}

interface Context extends ReadOptions {
  /** Zones that the calendar defines. */
  readonly zones: Map<string, Zone>
  /** By the UIDs of to-dos that recur, the days of occurrences that are to-dos of their own. */
  readonly instances: Map<string, Set<string>>
  /** The ids of to-dos that were read. */
  readonly read: Set<string>
  /** Zones that nothing is known of, with the number of times in them. */
  readonly unknownZones: Map<string, number>
}

interface Zone {
  readonly zone: ICAL.Timezone
  /** As `canonicalTimeZone` returns it; null if the calendar does not say. */
  readonly name: string | null
}

export async function* readCalendar(path: string, options: ReadOptions): Drafts {
  const file = await fileOf(path)
  const context: Context = {
    ...options,
    zones: new Map(),
    instances: new Map(),
    read: new Set(),
    unknownZones: new Map(),
  }
  const seen = new Set<string>()
  const others = new Map<string, number>()
  const { name: project_id, color } = await headOfCalendar(file)
  if (project_id !== null)
    yield {
      record: { ...blankProject, id: project_id, name: project_id, color },
      part: null,
      row: null,
      faults: [],
    }
  const hasOrder = await findInstances(file, { ...context, unknownZones: new Map() })
  const held: { readonly order: number; readonly drafts: readonly Draft[] }[] = []
  for await (const component of componentsIn(file)) {
    if (typeof component === 'number') {
      const message = 'The component is too long.'
      yield refusal(null, component, { field: null, code: 'too_long', message })
    } else if (component.name === 'VTIMEZONE') addZone(component, context.zones)
    else if (component.name !== 'VTODO') others.set(component.name, (others.get(component.name) ?? 0) + 1)
    else {
      const { named, task, comments, faults, order } = todoOf(component, context)
      const drafts = [...named, { ...task, project_id }, ...comments].map((record) => ({
        record,
        part: null,
        row: component.line,
        faults: record.type === 'task' ? faults : [],
      }))
      if (hasOrder) held.push({ order, drafts })
      else yield* withoutSeen(drafts, seen)
    }
  }
  for (const { drafts } of held.toSorted((one, other) => one.order - other.order))
    yield* withoutSeen(drafts, seen)
  for (const [tzid, count] of [...context.unknownZones].slice(0, maxNotes))
    yield note(
      'invalid_value',
      `${count} times are in the zone ${excerpt(tzid)}, which is not known. They are taken to be in yours.`,
    )
  if (!file.encoding.startsWith('utf-'))
    yield note('encoding', `The calendar is not UTF-8. It is taken to be ${file.encoding}.`)
  for (const [name, count] of [...others].slice(0, maxNotes))
    yield note('not_supported', `${count} of ${name} are left out: only VTODO is read.`)
}

/** Without tags and users that other to-dos had before. */
function* withoutSeen(drafts: readonly Draft[], seen: Set<string>): Generator<Draft, void> {
  for (const draft of drafts) {
    const { record } = draft
    const key = record.type === 'tag' || record.type === 'user' ? `${record.type} ${record.id}` : null
    if (key !== null && seen.has(key)) continue
    if (key !== null) seen.add(key)
    yield draft
  }
}

/** The name and the color of the calendar, which are before its components. */
const headOfCalendar = async (
  file: CalendarFile,
): Promise<{ readonly name: string | null; readonly color: string | null }> => {
  const found = new Map<string, string>()
  for await (const { text } of unfolded(file)) {
    if (text === null) continue
    const [, name = '', value = ''] =
      /^(NAME|X-WR-CALNAME|X-APPLE-CALENDAR-COLOR)(?:;[^:]*)?:(.*)$/i.exec(text) ?? []
    if (name !== '' && !found.has(name.toUpperCase())) found.set(name.toUpperCase(), value.trim())
    if (/^BEGIN:V(TODO|EVENT|JOURNAL|TIMEZONE)/i.test(text)) break
  }
  const name = found.get('NAME') || found.get('X-WR-CALNAME') || ''
  const [color = null] = /^#[0-9a-f]{6}/i.exec(found.get('X-APPLE-CALENDAR-COLOR') ?? '') ?? []
  const plain = name
    .replaceAll(/\\([\\;,])/g, '$1')
    .replaceAll(/\\[nN]/g, ' ')
    .trim()
  return { name: plain || null, color }
}

/**
 * Fills in `instances`: some programs leave a to-do that recurs on its first date, and add one for each occurrence that is done.
 * Returns whether to-dos have an order of their own.
 */
const findInstances = async (file: CalendarFile, context: Context): Promise<boolean> => {
  let hasOrder = false
  for await (const component of componentsIn(file)) {
    if (typeof component === 'number') continue
    if (component.name === 'VTIMEZONE') addZone(component, context.zones)
    if (component.name !== 'VTODO') continue
    hasOrder ||= component.lines.some((line) => /^X-APPLE-SORT-ORDER/i.test(line))
    if (!component.lines.some((line) => /^RECURRENCE-ID/i.test(line))) continue
    const properties = propertiesOf(component, [])
    const instance = properties.get('RECURRENCE-ID')?.[0] ?? null
    const uid = textValue(properties.get('UID')?.[0] ?? null)
    const date = dateOf(instance, context, [])
    if (date === null) continue
    const days = context.instances.get(uid) ?? new Set()
    context.instances.set(uid, days.add(dayOf(date, zoneOf(instance, context))))
  }
  return hasOrder
}

interface CalendarFile {
  readonly path: string
  readonly encoding: TextEncoding
  /** As of old programs of the Mac. */
  readonly endsLinesWithCr: boolean
}

const fileOf = async (path: string): Promise<CalendarFile> => {
  const head = await headOf(path, headBytes)
  return {
    path,
    encoding: await guessEncoding(createReadStream(path)),
    endsLinesWithCr: head.includes('\r') && !head.includes('\n'),
  }
}

/** The bytes in an encoding that has those of ASCII, with the line ends of Unix or Windows. */
async function* bytesIn({ path, encoding, endsLinesWithCr }: CalendarFile): AsyncGenerator<Buffer, void> {
  const chunks: AsyncIterable<Buffer> = createReadStream(path)
  for await (const chunk of isUtf16(encoding) ? decoded(chunks, encoding) : chunks) {
    const bytes = Buffer.from(chunk)
    if (endsLinesWithCr) bytes.forEach((byte, index) => byte === 0x0d && bytes.writeUInt8(0x0a, index))
    yield bytes
  }
}

const isUtf16 = (encoding: TextEncoding): boolean => encoding.startsWith('utf-16')

/** Some programs write UTF-8 and a code page in one file. */
const decoderOf = ({ encoding }: CalendarFile): ((bytes: Buffer) => string) => {
  const other = new TextDecoder(encoding.startsWith('utf-') ? 'windows-1252' : encoding)
  return (bytes) => {
    const { text, isValid } = decode(bytes)
    return isValid ? text : other.decode(bytes)
  }
}

/** A property whose value is quoted-printable, as in vCalendar 1.0. */
interface Quoted {
  readonly name: string
  readonly parameters: readonly string[]
  /** Where the value begins. */
  readonly start: number
}

/** Null if the value is not quoted. */
const quotedOf = (line: Buffer): Quoted | null => {
  const [head = ''] = line.toString('latin1', 0, maxQuotedHead).split(':', 1)
  const [name = '', ...all] = head.split(';')
  const parameters = all.filter((text) => !/^(?:ENCODING=)?QUOTED-PRINTABLE$/i.test(text))
  return parameters.length === all.length ? null : { name, parameters, start: head.length + 1 }
}

/** A quoted-printable line as iCalendar writes it; others as they are. */
const unquoted = (line: Buffer, textOfLine: (bytes: Buffer) => string): string => {
  const quoted = quotedOf(line)
  if (quoted === null) return textOfLine(line)
  const value = line
    .toString('latin1', quoted.start)
    .replaceAll(/=([0-9a-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
  const bytes = Buffer.from(value, 'latin1')
  const isCharset = (parameter: string): boolean => /^CHARSET=/i.test(parameter)
  const charset = quoted.parameters.find(isCharset)?.slice('CHARSET='.length).toLowerCase() ?? ''
  const text = isTextEncoding(charset) ? new TextDecoder(charset).decode(bytes) : textOfLine(bytes)
  const others = quoted.parameters.filter((parameter) => !isCharset(parameter))
  return `${[quoted.name, ...others].join(';')}:${text.replaceAll(/\r?\n/g, String.raw`\n`)}`
}

/** Whether a quoted-printable line goes on in the next one. */
const isContinued = (line: Buffer | null): line is Buffer => line?.at(-1) === 0x3d && quotedOf(line) !== null

/** A line with the ones that continue it. */
interface UnfoldedLine {
  readonly number: number
  /** Null if it is longer than a component can be. */
  readonly text: string | null
}

async function* unfolded(file: CalendarFile): AsyncGenerator<UnfoldedLine, void> {
  const textOfLine = decoderOf(file)
  // Bytes are joined before they are decoded: programs fold within characters.
  const held = new BoundedBytes(maxComponent)
  let first: number | null = null
  const unfold = (number: number): UnfoldedLine => {
    const bytes = held.joined()
    return { number, text: bytes && unquoted(bytes, textOfLine) }
  }
  for await (const { number, bytes } of linesIn(bytesIn(file))) {
    const line = bytes?.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes
    if (line?.length === 0) continue
    const present = held.joined()
    if (first !== null && (line?.[0] === 0x20 || line?.[0] === 0x09)) held.append(line.subarray(1))
    else if (first !== null && isContinued(present)) {
      held.keep(present.length - 1)
      held.append(line)
    } else {
      if (first !== null) yield unfold(first)
      first = number
      held.keep(0)
      held.append(line)
    }
  }
  if (first !== null) yield unfold(first)
}

const isOutermost = ({ name }: Component): boolean => /^V(TODO|EVENT|JOURNAL|TIMEZONE|FREEBUSY)$/.test(name)

/** The components within the calendar; the line of one that is too long. */
async function* componentsIn(file: CalendarFile): AsyncGenerator<Component | number, void> {
  const open: Component[] = []
  let length = 0
  for await (const { number, text } of unfolded(file)) {
    const [, edge, name = ''] = /^(BEGIN|END):\s*(\S+)\s*$/i.exec(text ?? '') ?? []
    const current = open.at(-1)
    if (edge?.toUpperCase() === 'BEGIN') {
      if (name.toUpperCase() === 'VCALENDAR') continue
      const component = { name: name.toUpperCase(), line: number, lines: [], components: [] }
      const [unended] = open
      if (unended !== undefined && isOutermost(component)) {
        // Somebody forgot its end.
        open.length = 0
        yield length > maxComponent ? unended.line : unended
        length = 0
      }
      length += text?.length ?? 0
      if (length <= maxComponent) open.at(-1)?.components.push(component)
      open.push(component)
    } else if (edge !== undefined) {
      if (current?.name !== name.toUpperCase()) continue
      open.pop()
      if (open.length > 0) continue
      yield length > maxComponent ? current.line : current
      length = 0
    } else if (current !== undefined) {
      length += (text?.length ?? maxComponent) + lineOverhead
      if (text !== null && length <= maxComponent) current.lines.push(text)
    }
  }
  const [left] = open
  if (left !== undefined) yield length > maxComponent ? left.line : left
}

const addZone = (component: Component, zones: Map<string, Zone>): void => {
  try {
    const parsed = new ICAL.Component(ICAL.parse(textOf(component)) as unknown[])
    const tzid = parsed.getFirstPropertyValue('tzid')
    const name = canonicalTimeZone(String(parsed.getFirstPropertyValue('x-lic-location')))
    if (typeof tzid === 'string')
      zones.set(tzid, { zone: new ICAL.Timezone({ component: parsed, tzid }), name })
  } catch {
    // Its times are taken to be in the zone of the user.
  }
}

const textOf = ({ name, lines, components }: Component): string =>
  [`BEGIN:${name}`, ...lines, ...components.map(textOf), `END:${name}`].join('\r\n')

const propertiesOf = ({ lines }: Component, faults: Fault[]): ReadonlyMap<string, readonly Property[]> => {
  const found = lines.flatMap((line): Property[] => {
    const name = /^[A-Za-z0-9-]+/.exec(line)?.[0].toUpperCase() ?? excerpt(line)
    try {
      const [, parameters, type, ...values] = ICAL.parse.property(
        isDateName(name) ? withCompactDate(line) : line,
        ICAL.design.icalendar,
      ) as [string, Record<string, string | string[]>, string, ...unknown[]]
      return [{ name, parameters, type, value: values[0], values }]
    } catch {
      faults.push({ field: name, code: 'invalid_value', message: `cannot be read: ${excerpt(line)}` })
      return []
    }
  })
  return Map.groupBy(found, ({ name }) => name)
}

const isDateName = (name: string): boolean =>
  /^(DTSTART|DUE|COMPLETED|CREATED|LAST-MODIFIED|RECURRENCE-ID|EXDATE)$/.test(name)

/** A date as iCalendar writes it, where a program has written that of ISO 8601. */
const withCompactDate = (line: string): string =>
  line.replace(
    /:\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?Z?)?$/i,
    (date) => `:${date.replaceAll(/\.\d+|[-:]/g, '')}`,
  )

const todoOf = (component: Component, context: Context) => {
  const faults: Fault[] = []
  const properties = propertiesOf(component, faults)
  const first = (name: string): Property | null => properties.get(name)?.[0] ?? null
  const text = (name: string): string => textValue(first(name))
  const date = (name: string): string | null => dateOf(first(name), context, faults)
  const instance = text('RECURRENCE-ID')
  const uid = text('UID') || `line ${component.line}`
  const id = instance === '' ? uid : `${uid} ${instance}`
  const tags = (properties.get('CATEGORIES') ?? [])
    .flatMap(({ values }) => values.map(String))
    .map((name) => name.trim())
  const assignee = first('ATTENDEE')
  const assignee_id = textValue(assignee) || null
  const parent = (properties.get('RELATED-TO') ?? []).find(
    ({ parameters }) => (parameters.reltype ?? 'PARENT').toString().toUpperCase() === 'PARENT',
  )
  const completed = date('COMPLETED')
  const status = statusOf(text('STATUS'), text('PERCENT-COMPLETE'), completed !== null)
  const start = date('DTSTART')
  const due = date('DUE') ?? (start === null ? null : endOf(start, text('DURATION'), context))
  const isSame = due !== null && due === start
  for (const { type, value } of properties.get('ATTACH') ?? [])
    faults.push(
      type === 'binary'
        ? { field: 'ATTACH', code: 'not_supported', message: 'is left out: files in a calendar are not read' }
        : { field: 'ATTACH', code: 'remote_file', message: `is not fetched: ${excerpt(String(value))}` },
    )
  const places = { location: text('LOCATION'), url: text('URL') }
  const task: TaskRecord = {
    ...blankTask,
    id,
    title: text('SUMMARY') || (text('DESCRIPTION').split('\n')[0] ?? ''),
    description: text('DESCRIPTION'),
    status,
    priority: priorityOf(text('PRIORITY'), faults),
    ...startFields(isSame ? null : start),
    ...dueFields(due),
    completed_at: completed === null || completed.includes('T') ? completed : `${completed}T00:00:00.000Z`,
    created_at: instantOnly(date('CREATED')),
    updated_at: instantOnly(date('LAST-MODIFIED')),
    assignee_id,
    parent_id: textValue(parent ?? null) || null,
    tag_ids: [...new Set(tags)].filter((name) => name !== ''),
    recurrence:
      instance !== '' || status === 'done' || status === 'cancelled'
        ? null
        : recurrenceOf(first('RRULE'), zoneOf(first('DTSTART') ?? first('DUE'), context), faults),
    reminders: remindersOf(component, context, faults).map((reminder) =>
      reminderAtDates(reminder, isSame ? null : start, due),
    ),
    metadata: Object.fromEntries(Object.entries(places).filter(([, place]) => place !== '')),
    external_source: source,
    external_id: uid,
  }
  const lost = () => faults.push({ field: 'VALARM', code: 'not_supported', message: lostReminder })
  const named: InterchangeRecord[] = task.tag_ids.map(tagNamed)
  if (assignee_id !== null) {
    const name = String(assignee?.parameters.cn ?? assignee_id.replace(/^mailto:/i, ''))
    named.push({ type: 'user', id: assignee_id, username: null, display_name: name })
  }
  const comments = (properties.get('COMMENT') ?? []).map(
    (property, index) =>
      ({
        type: 'comment',
        id: `${id} ${index + 1}`,
        task_id: id,
        author_id: null,
        author_name: null,
        body: textValue(property),
        created_at: null,
        edited_at: null,
      }) as const,
  )
  if (instance !== '' && status !== 'done' && status !== 'cancelled')
    faults.push({
      field: 'RECURRENCE-ID',
      code: 'not_supported',
      message: 'is left out: an occurrence that differs becomes a task of its own',
    })
  for (const name of ['RDATE', 'GEO'])
    if (properties.has(name)) faults.push({ field: name, code: 'not_supported', message: 'is left out' })
  const exceptions = new Set(
    (properties.get('EXDATE') ?? []).flatMap((property) =>
      property.values.flatMap((value) => {
        const date = dateOf({ ...property, value }, context, [])
        return date === null ? [] : [dayOf(date, zoneOf(property, context))]
      }),
    ),
  )
  const placed = { ...task, reminders: recurringReminders(task, context.timeZone, lost) }
  // Others with its id are refused, each of which would look for its occurrences too.
  const moved = context.read.has(id)
    ? placed
    : movedOn(placed, [exceptions, context.instances.get(uid) ?? new Set()])
  context.read.add(id)
  const next = anchorOf(moved)?.date ?? null
  const zone = moved.recurrence?.time_zone
  if (next !== null && zone !== undefined && [...exceptions].some((day) => day > dayOf(next, zone)))
    faults.push({ field: 'EXDATE', code: 'not_supported', message: 'is left out' })
  return { task: moved, named, comments, faults, order: orderOf(text('X-APPLE-SORT-ORDER'), task.created_at) }
}

/** As Nextcloud, Apple and tasks.org order to-dos: without a number, by the seconds from 2001 until they were created. */
const orderOf = (text: string, created_at: string | null): number => {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  return created_at === null ? 0 : (Date.parse(created_at) - Date.UTC(2001, 0, 1)) / 1000
}

/** Occurrences that are looked at for one that is left. */
const maxMoves = 1000

/**
 * The task on the first of its occurrences that is not on one of the days. It is done if there is none. The sets stay apart: each to-do of
 * a UID has the same days of the others, which can be thousands.
 */
const movedOn = (task: TaskRecord, days: readonly ReadonlySet<string>[]): TaskRecord => {
  const { recurrence } = task
  const anchor = anchorOf(task)
  if (recurrence === null || anchor === null) return task
  const series = { ...recurrence, anchor: anchor.date }
  const first = firstOccurrence(series)
  const rule = parseRule(recurrence.rule, recurrence.from)
  const isLeftOut = (day: string): boolean => days.some((some) => some.has(day))
  if (!isLeftOut(first.on) || !isDay(first.on) || 'message' in rule) return task
  const leftOut = days.reduce((sum, { size }) => sum + size, 0)
  const { items, hasMore } = occurrencesAfter(series, first, Math.min(leftOut, maxMoves))
  const next = items.find(({ on }) => !isLeftOut(on))
  if (next === undefined) return hasMore ? task : { ...task, status: 'done', recurrence: null }
  const move = (date: string | null): string | null =>
    date && shift(date, dayNumber(next.on) - dayNumber(first.on), recurrence.time_zone)
  const count = rule.count && rule.count - (next.number - 1)
  return {
    ...task,
    start_at: move(task.start_at),
    start_on: move(task.start_on),
    due_at: move(task.due_at),
    due_on: move(task.due_on),
    recurrence: { ...recurrence, rule: formatRule({ ...rule, count }) },
  }
}

const textValue = (property: Property | null): string =>
  typeof property?.value === 'string' || typeof property?.value === 'number' ? String(property.value) : ''

const instantOnly = (date: string | null): string | null => (date?.includes('T') ? date : null)

/** The name of a zone, which some programs have after a prefix, such as `/freeassociation.sourceforge.net/Europe/Berlin`. */
const zoneNamed = (tzid: string, { zones }: Context): string | null => {
  const parts = tzid.split('/')
  return (
    canonicalTimeZone(tzid) ??
    zones.get(tzid)?.name ??
    canonicalTimeZone(parts.slice(-3).join('/')) ??
    canonicalTimeZone(parts.slice(-2).join('/'))
  )
}

const tzidOf = (property: Property | null): string => String(property?.parameters.tzid ?? '')

const zoneOf = (property: Property | null, context: Context): string =>
  zoneNamed(tzidOf(property), context) ?? context.timeZone

/** A day, or an instant: in UTC, in a zone, or in that of the user. */
const dateOf = (property: Property | null, context: Context, faults: Fault[]): string | null => {
  if (property === null) return null
  // What ical.js makes of dates without a time, or seconds.
  const text = textValue(property)
    .replace(/T::$/, '')
    .replace(/:(Z?)$/, ':00$1')
  if (text === '--') return null
  const found = isDay(text) ? text : instantOf(text, property, context)
  if (found === null)
    faults.push({ field: property.name, code: 'invalid_value', message: `is not a date: ${excerpt(text)}` })
  return found
}

const instantOf = (text: string, property: Property, context: Context): string | null => {
  if (/Z$/i.test(text)) return canonicalInstant(text)
  const tzid = tzidOf(property)
  const zone = context.zones.get(tzid)?.zone
  const local = text.slice(0, 19)
  const name = zoneNamed(tzid, context)
  if (name !== null) return instantAtLocal(local, name)
  if (zone === undefined) {
    if (tzid !== '') context.unknownZones.set(tzid, (context.unknownZones.get(tzid) ?? 0) + 1)
    return instantAtLocal(local, context.timeZone)
  }
  try {
    const offset = zone.utcOffset(ICAL.Time.fromDateTimeString(local))
    return canonicalInstant(new Date(Date.parse(`${local}Z`) - offset * 1000).toISOString())
  } catch {
    return instantAtLocal(local, context.timeZone)
  }
}

const endOf = (start: string, duration: string, { timeZone }: Context): string | null => {
  if (duration === '') return null
  try {
    const { weeks, days, hours, minutes, seconds, isNegative } = ICAL.Duration.fromString(duration)
    if (isNegative) return null
    const moved = shift(start, weeks * 7 + days, timeZone)
    if (moved === null || isDay(moved)) return moved
    const time = (hours * 60 + minutes) * 60 + seconds
    return canonicalInstant(new Date(Date.parse(moved) + time * 1000).toISOString())
  } catch {
    return null
  }
}

const statusOf = (status: string, percent: string, isCompleted: boolean): TaskRecord['status'] => {
  if (status.toUpperCase() === 'CANCELLED') return 'cancelled'
  if (status.toUpperCase() === 'COMPLETED' || isCompleted || Number(percent) >= 100) return 'done'
  return status.toUpperCase() === 'IN-PROCESS' || Number(percent) > 0 ? 'in_progress' : 'todo'
}

/** 1 is the highest; 5 is in the middle, and 9 the lowest. */
const priorityOf = (text: string, faults: Fault[]): TaskRecord['priority'] => {
  const number = Number(text)
  if (text === '' || number === 0) return 'none'
  if (number === 1) return 'urgent'
  if (number > 1 && number < 5) return 'high'
  if (number === 5) return 'medium'
  if (number > 5 && number < 10) return 'low'
  faults.push({ field: 'PRIORITY', code: 'invalid_value', message: `is not from 0 to 9: ${excerpt(text)}` })
  return 'none'
}

/** How `last_day` is written in iCalendar. */
const lastDay = /;BYMONTHDAY=28(?:,29)?(?:,30)?,(29|30|31);BYSETPOS=-1$/

const recurrenceOf = (
  property: Property | null,
  time_zone: string,
  faults: Fault[],
): TaskRecord['recurrence'] => {
  if (property === null) return null
  const text = ruleText(property.value)
  const canonical = parseRule(text, 'schedule')
  if ('message' in canonical) {
    faults.push({ field: 'RRULE', code: 'not_supported', message: `is left out: ${canonical.message}` })
    return null
  }
  const rule = formatRule(canonical)
  const [, last] = lastDay.exec(rule) ?? []
  const common = { time_zone, from: 'schedule', missed: 'skip' } as const
  return last === undefined
    ? { ...common, rule, month_end: 'skip' }
    : { ...common, rule: rule.replace(lastDay, `;BYMONTHDAY=${last}`), month_end: 'last_day' }
}

/** ical.js has a rule as an object. */
const ruleText = (value: unknown): string => {
  if (typeof value !== 'object' || value === null) return String(value)
  return Object.entries(value as Record<string, unknown>)
    .map(
      ([part, item]) => `${part}=${part === 'until' ? String(item).replaceAll(/[-:]/g, '') : String(item)}`,
    )
    .join(';')
}

/** Programs write alarms of the start for tasks that are only due. Alarms of a day count from its first minute. */
const reminderAtDates = (reminder: Reminder, start: string | null, due: string | null): Reminder => {
  if ('at' in reminder) return reminder
  const relative_to = reminder.relative_to === 'start' && start === null ? 'due' : reminder.relative_to
  const date = relative_to === 'due' ? due : start
  if (date === null || date.includes('T')) return { ...reminder, relative_to }
  const offset_minutes = Math.floor(reminder.offset_minutes / 1440) * 1440
  const minutes = reminder.offset_minutes - offset_minutes
  const pad = (number: number): string => String(number).padStart(2, '0')
  return { relative_to, offset_minutes, time_of_day: `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}` }
}

/** A time of iCalendar, which old programs write without its type. */
const compactTime = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(Z?)$/

const isoTime = ([year, month, day, hour, minute, second, zulu]: readonly string[]): string =>
  `${year}-${month}-${day}T${hour}:${minute}:${second}${zulu}`

/** A snooze is an alarm of its own, which names the one that it postpones (RFC 9074, section 7). */
const remindersOf = ({ components }: Component, context: Context, faults: Fault[]): readonly Reminder[] => {
  const alarms = components
    .filter(({ name }) => name === 'VALARM')
    .flatMap((alarm) => {
      const properties = propertiesOf(alarm, faults)
      const snoozed = (properties.get('RELATED-TO') ?? []).find(
        ({ parameters }) => String(parameters.reltype).toUpperCase() === 'SNOOZE',
      )
      return reminderOf(properties, context, faults).map((reminder) => ({
        uid: textValue(properties.get('UID')?.[0] ?? null),
        snoozes: textValue(snoozed ?? null),
        reminder,
      }))
    })
  const uids = new Set(alarms.map(({ uid }) => uid))
  const snoozes = new Map(
    alarms.flatMap(({ snoozes, reminder }) =>
      snoozes !== '' && uids.has(snoozes) && 'at' in reminder ? [[snoozes, reminder.at]] : [],
    ),
  )
  return alarms.flatMap(({ uid, snoozes: of, reminder }) => {
    if (snoozes.has(of)) return []
    const snoozed_until = snoozes.get(uid)
    return [snoozed_until === undefined ? reminder : { ...reminder, snoozed_until }]
  })
}

const reminderOf = (
  properties: ReadonlyMap<string, readonly Property[]>,
  context: Context,
  faults: Fault[],
): readonly Reminder[] => {
  const trigger = properties.get('TRIGGER')?.[0] ?? null
  // Apple's for no alarm, where there would be one by default. It has a trigger in 1976.
  if (trigger === null || textValue(properties.get('ACTION')?.[0] ?? null).toUpperCase() === 'NONE') return []
  if (properties.has('X-APPLE-PROXIMITY') || properties.has('PROXIMITY')) {
    faults.push({ field: 'VALARM', code: 'not_supported', message: 'is left out: it is of a place' })
    return []
  }
  const lost = (field: string, message: string) => faults.push({ field, code: 'not_supported', message })
  if (properties.has('ATTENDEE')) lost('ATTENDEE', 'is left out: a reminder is for you alone')
  if (properties.get('REPEAT')?.some(({ value }) => value !== 0) === true)
    lost('REPEAT', 'is left out: a reminder fires once')
  const time = compactTime.exec(textValue(trigger))?.slice(1)
  if (trigger.type === 'date-time' || time !== undefined) {
    const value = time === undefined ? trigger.value : isoTime(time)
    const at = instantOnly(dateOf({ ...trigger, value }, context, faults))
    return at === null ? [] : [{ at }]
  }
  const relative_to = String(trigger.parameters.related ?? 'START').toUpperCase() === 'END' ? 'due' : 'start'
  try {
    const seconds = ICAL.Duration.fromString(textValue(trigger)).toSeconds()
    return [{ relative_to, offset_minutes: Math.round(seconds / 60), time_of_day: null }]
  } catch {
    faults.push({ field: 'TRIGGER', code: 'invalid_value', message: 'is not a duration' })
    return []
  }
}
