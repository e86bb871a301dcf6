import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Teardown } from '../../scripts/run/run-to-end.ts'
import { checkDrafts } from '../../src/interchange/check.ts'
import { inspect, readFormat, strictFormats } from '../../src/interchange/formats/formats.ts'
import {
  type CsvMapping,
  type ImportFormat,
  type TextEncoding,
  textEncodings,
} from '../../src/interchange/import-file.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { zipOf } from '../fixture/zip.ts'

/** Files in encodings other than UTF-8, and files without tasks. */

const fileOf = async (t: Teardown, content: Buffer | string): Promise<string> => {
  const path = join(await temporaryFolder(t), 'upload')
  await writeFile(path, content)
  return path
}

const read = async (path: string, format: ImportFormat, mapping: CsvMapping | null = null) => {
  const zone = { timeZone: 'Europe/Berlin', now: '2026-11-26T10:00:00.000Z' }
  const drafts = readFormat(path, { format, mapping, fileName: 'upload.csv', ...zone })
  const items = await Array.fromAsync(checkDrafts(drafts, { isStrict: strictFormats.has(format), ...zone }))
  return {
    titles: items.flatMap((item) => ('title' in item ? item.title : [])),
    report: items.flatMap((item) => ('code' in item ? `${item.code}: ${item.message}` : [])),
  }
}

/** Node only decodes most encodings: this looks each character up among those of all bytes and pairs of bytes. */
const encoderOf = (encoding: TextEncoding): ((text: string) => Buffer) => {
  const decoder = new TextDecoder(encoding)
  const bytes = new Map<string, readonly number[]>()
  for (let first = 0; first < 0x100; first += 1) {
    bytes.set(decoder.decode(Uint8Array.of(first)), [first])
    if (first < 0x81) continue
    for (let second = 0x40; second < 0xff; second += 1) {
      const text = decoder.decode(Uint8Array.of(first, second))
      if (text.length === 1 && !bytes.has(text)) bytes.set(text, [first, second])
    }
  }
  return (text) =>
    Buffer.from(
      Array.from(text).flatMap((character) => {
        const found = bytes.get(character)
        if (found === undefined) throw new Error(`${encoding} has no ${character}`)
        return found
      }),
    )
}

const utf16be = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16()

t.test('what a table is guessed to be in', async (t) => {
  const tables: readonly (readonly [encoding: TextEncoding, text: string])[] = [
    ['shift_jis', '件名,状態,期限日\n牛乳を買う,未対応,2026/03/01\nサーバー移行,完了,\n'],
    ['euc-jp', '件名,状態,期限日\n牛乳を買う,未対応,2026/03/01\nサーバー移行,完了,\n'],
    ['gb18030', '任务名称,状态,截止日期\n买牛奶,进行中,2026-03-01\n写报告给老板,已完成,\n'],
    ['big5', '任務名稱,狀態,截止日期\n買牛奶,進行中,2026-03-01\n寫報告給老闆,已完成,\n'],
    ['euc-kr', '제목,상태,마감일\n우유 사기,진행 중,2026-03-01\n보고서 작성,완료,\n'],
    ['windows-1251', 'Название,Статус,Срок\nКупить молоко,В работе,01.03.2026\nПозвонить маме,Готово,\n'],
    ['windows-1251', 'Issue,Summary\nAB-1,Настроить CI/CD на GitHub\nAB-2,Обновить README и API\n'],
    ['windows-1251', 'title\nСРОЧНО ПОЗВОНИТЬ\n'],
    // Pairs of bytes that could be Japanese or Chinese.
    ['windows-1252', 'title,notes\nDon’t forget,It’s urgent\nWe’ll see,Ada’s\n'],
    ['windows-1252', 'Nom de la tâche;Statut\nCréer le théâtre;À faire\nAller à l’épicerie;Terminé\n'],
    ['windows-1252', 'title\nRéel\nthéâtre\n'],
    ['windows-1252', 'Título,Descripción\nLlamar al señor Peña,mañana\n¿Qué?,¡Sí!\n'],
    ['windows-1252', 'title\nBüro\n'],
  ]
  for (const [encoding, text] of tables) {
    const path = await fileOf(t, encoderOf(encoding)(text))
    const { csv } = await inspect(path)
    t.equal(csv?.mapping.encoding, encoding, text)
    t.strictSame(csv?.rows.at(-1), text.split('\n').at(-2)?.split(/[,;]/), encoding)
  }
})

t.test('an encoding that is chosen, of which the rest is guessed', async (t) => {
  const texts: Partial<Record<TextEncoding, string>> = {
    'windows-1250': 'Nazwa;Termin\nŻółty ząb;2026-03-01\n',
    'iso-8859-2': 'Nazwa;Termin\nŻółty ząb;2026-03-01\n',
    'windows-1252': 'Name;Termin\n“Größe” – 5 €;2026-03-01\n',
    'windows-1253': 'Τίτλος;Due\nΑγορά γάλακτος;2026-03-01\n',
    'windows-1254': 'Başlık;Due\nSüt almayı unutma ğ;2026-03-01\n',
    'windows-1255': 'כותרת;Due\nלקנות חלב;2026-03-01\n',
    'windows-1256': 'العنوان;Due\nشراء الحليب;2026-03-01\n',
    'windows-1257': 'Pavadinimas;Due\nPieno žąsų;2026-03-01\n',
    'windows-874': 'ชื่องาน;Due\nซื้อนม;2026-03-01\n',
    'utf-16le': 'Name;Due\n牛乳;2026-03-01\n',
    shift_jis: '件名;期限\n表示;2026-03-01\n',
    macintosh: 'Titel;Due\nÜbung für später;2026-03-01\n',
  }
  const unread = { delimiter: ',', has_header: false, date_order: 'ymd', columns: [] } as const
  for (const encoding of textEncodings) {
    t.equal(new TextDecoder(encoding).encoding, encoding)
    const text = texts[encoding]
    if (text === undefined) continue
    const bytes = encoding === 'utf-16le' ? Buffer.from(text, 'utf16le') : encoderOf(encoding)(text)
    const path = await fileOf(t, bytes)
    const { csv } = await inspect(path, { format: 'csv', mapping: { encoding, ...unread } })
    t.match(csv?.mapping, { encoding, delimiter: ';', has_header: true, columns: ['title', 'due'] }, encoding)
    const [names = '', row = ''] = text.split('\n')
    t.strictSame([csv?.names, csv?.rows], [names.split(';'), [row.split(';')]])
    t.strictSame((await read(path, 'csv', csv?.mapping)).titles, [row.split(';')[0]])
  }
})

t.test('characters that are in two chunks of a file', async (t) => {
  const titles = Array.from({ length: 20_000 }, (_, index) => `表示を直す${'x'.repeat(index % 3)}`)
  const path = await fileOf(t, encoderOf('shift_jis')(`件名\n${titles.join('\n')}\n`))
  const { csv } = await inspect(path)
  t.equal(csv?.mapping.encoding, 'shift_jis')
  const found = await read(path, 'csv')
  t.strictSame(found, { titles, report: [] })
  // The first chunk has ASCII only.
  const late = await fileOf(t, encoderOf('shift_jis')(`title\n${'x\n'.repeat(40_000)}${titles.join('\n')}`))
  t.equal((await inspect(late)).csv?.mapping.encoding, 'shift_jis')
})

t.test('a table of Todoist that Excel has saved, in a zip', async (t) => {
  const zip = await zipOf({
    'Home.csv': encoderOf('windows-1251')('TYPE;CONTENT;INDENT\ntask;Купить молоко;1\n'),
    'Work.csv': Buffer.from('\ufeffTYPE\tCONTENT\ntask\t牛乳\n', 'utf16le'),
  })
  const path = await fileOf(t, zip)
  t.match(await inspect(path), { format: 'todoist_csv' })
  t.strictSame(await read(path, 'todoist_csv'), { titles: ['Купить молоко', '牛乳'], report: [] })
})

t.test('JSON in UTF-16, with and without a mark', async (t) => {
  const board = '{"id":"b","name":"Board","lists":[],"cards":[{"id":"a","name":"Größe 牛乳"}]}'
  for (const bytes of [
    Buffer.from(`\ufeff${board}`),
    Buffer.from(`\ufeff${board}`, 'utf16le'),
    Buffer.from(board, 'utf16le'),
    utf16be(`\ufeff${board}`),
    utf16be(board),
  ]) {
    const path = await fileOf(t, bytes)
    t.match(await inspect(path), { format: 'trello' })
    t.strictSame(await read(path, 'trello'), { titles: ['Größe 牛乳'], report: [] })
  }
})

t.test('calendars in other encodings, and with other line ends', async (t) => {
  const calendar = (title: string) =>
    `BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTODO\r\nUID:a\r\nSUMMARY:${title}\r\n and more\r\nEND:VTODO\r\nEND:VCALENDAR\r\n`
  const german = calendar('Größe')
  for (const bytes of [
    Buffer.from(`\ufeff${german}`),
    Buffer.from(`\r\n \r\n\n${german}`),
    Buffer.from(`\ufeff\r\n${german}`),
    Buffer.from(german.replaceAll('\r\n', '\r')),
    Buffer.from(`\ufeff${german}`, 'utf16le'),
    Buffer.from(german, 'utf16le'),
    utf16be(`\ufeff${german}`),
    utf16be(`\ufeff${german.replaceAll('\r\n', '\r')}`),
  ]) {
    const path = await fileOf(t, bytes)
    t.match(await inspect(path), { format: 'icalendar' })
    t.strictSame(await read(path, 'icalendar'), { titles: ['Größeand more'], report: [] })
  }
  for (const [encoding, title] of [
    ['windows-1252', 'Größe'],
    ['shift_jis', '牛乳を買う'],
    ['windows-1251', 'Купить молоко'],
  ] as const)
    t.strictSame(await read(await fileOf(t, encoderOf(encoding)(calendar(title))), 'icalendar'), {
      titles: [`${title}and more`],
      report: [`encoding: The calendar is not UTF-8. It is taken to be ${encoding}.`],
    })
})

t.test('a calendar of vCalendar 1.0, in which each property has an encoding', async (t) => {
  const quoted = (bytes: Buffer) => [...bytes].map((byte) => `=${byte.toString(16).toUpperCase()}`).join('')
  const japanese = quoted(encoderOf('shift_jis')('牛乳を買う'))
  const lines = [
    `SUMMARY;CHARSET=SHIFT_JIS;ENCODING=QUOTED-PRINTABLE:${japanese.slice(0, 6)}=`,
    `${japanese.slice(6)}=`,
    '=21',
    'END:VTODO',
    'BEGIN:VTODO',
    'SUMMARY;QUOTED-PRINTABLE;CHARSET=UTF-8:Gr=C3=B6=C3=9Fe, a=3Db',
    'DESCRIPTION;ENCODING=QUOTED-PRINTABLE:a=0D=0Ab',
    'END:VTODO',
    'BEGIN:VTODO',
    'SUMMARY:a=',
  ]
  const vcalendar = ['BEGIN:VCALENDAR', 'VERSION:1.0', 'BEGIN:VTODO', ...lines, 'END:VTODO', 'END:VCALENDAR']
  const { titles, report } = await read(await fileOf(t, vcalendar.join('\r\n')), 'icalendar')
  t.strictSame(titles, ['牛乳を買う!', 'Größe, a=b', 'a='])
  t.strictSame(report, [])
})

t.test('files without tasks say so', async (t) => {
  const noTasks = 'no_tasks: The file has no tasks that can be imported.'
  const event = 'BEGIN:VEVENT\nSUMMARY:A\nEND:VEVENT\n'
  const events = 'not_supported: 2 of VEVENT are left out: only VTODO is read.'
  const files: readonly (readonly [format: ImportFormat, content: string, report: readonly string[]])[] = [
    ['icalendar', `BEGIN:VCALENDAR\nX-WR-CALNAME:Work\n${event}${event}END:VCALENDAR\n`, [events, noTasks]],
    ['icalendar', `${event}${event}`, [events, noTasks]],
    ['icalendar', 'BEGIN:VCALENDAR\nEND:VCALENDAR\n', [noTasks]],
    ['csv', 'title,due\n', [noTasks]],
    ['todoist_csv', 'TYPE,CONTENT\n', [noTasks]],
    ['todoist', '{"items":[],"projects":[]}', [noTasks]],
    ['trello', '{"id":"b","name":"Board","lists":[],"cards":[]}', [noTasks]],
  ]
  for (const [format, content, report] of files) {
    const path = await fileOf(t, content)
    t.match(await inspect(path), { format })
    t.strictSame(await read(path, format), { titles: [], report }, content)
  }
})
