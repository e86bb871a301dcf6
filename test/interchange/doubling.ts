import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { archiveFormat, archiveVersion, manifestName, partNames } from '../../src/interchange/archive.ts'
import { checkDrafts } from '../../src/interchange/check.ts'
import { readFormat } from '../../src/interchange/formats/formats.ts'
import type { ImportFormat } from '../../src/interchange/import-file.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { zipOf } from '../fixture/zip.ts'

/** Files that somebody has made to be slow to read: twice as large, they take about twice the time. */

interface Case {
  readonly name: string
  readonly format: ImportFormat
  /** Of the smaller file. */
  readonly size: number
  /** The text, or the entries of a zip. */
  readonly content: (size: number) => string | Readonly<Record<string, string>>
}

const times = (count: number, text: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => text(index)).join('')

const list = <T>(count: number, item: (index: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, index) => item(index))

const dayOf = (index: number): string =>
  new Date(Date.UTC(2000, 0, index + 1)).toISOString().slice(0, 10).replaceAll('-', '')

const instances = (count: number): string =>
  times(
    count,
    (index) => `BEGIN:VTODO\nUID:a\nRECURRENCE-ID;VALUE=DATE:${dayOf(index)}\nSUMMARY:A\nEND:VTODO\n`,
  )

const cases: readonly Case[] = [
  { name: 'instances of one UID', format: 'icalendar', size: 5_000, content: instances },
  {
    name: 'recurring to-dos of one UID, and its instances',
    format: 'icalendar',
    size: 400,
    content: (size) =>
      instances(size) +
      'BEGIN:VTODO\nUID:a\nDTSTART;VALUE=DATE:20000101\nRRULE:FREQ=DAILY\nSUMMARY:A\nEND:VTODO\n'.repeat(
        size,
      ),
  },
  {
    name: 'a table with as many columns as rows',
    format: 'csv',
    size: 5_000,
    content: (size) => `title,tags,tags${times(size, (index) => `,x${index}`)}\n${'A,b,c\n'.repeat(size)}`,
  },
  {
    name: 'tasks below each other',
    format: 'todoist_csv',
    size: 20_000,
    content: (size) => `TYPE,CONTENT,INDENT\n${times(size, (index) => `task,A,${index + 1}\n`)}`,
  },
  {
    name: 'projects below each other',
    format: 'todoist',
    size: 4_000,
    content: (size) =>
      JSON.stringify({
        projects: list(size, (index) => ({
          id: `p${index}`,
          name: 'Project',
          parent_id: index === 0 ? null : `p${index - 1}`,
        })),
        items: [],
      }),
  },
  {
    name: 'options of a custom field',
    format: 'trello',
    size: 2_000,
    content: (size) =>
      JSON.stringify({
        id: 'b',
        customFields: [{ id: 'f', name: 'Size', options: list(size, (index) => ({ id: `o${index}` })) }],
        cards: list(size, (index) => ({
          id: `c${index}`,
          name: 'Card',
          customFieldItems: [{ idCustomField: 'f', idValue: 'other' }],
        })),
      }),
  },
  {
    name: 'projects below each other, each with a task that blocks the one before',
    format: 'vikunja',
    size: 2_000,
    content: (size) => ({
      VERSION: '0.24.0',
      'data.json': JSON.stringify(
        list(size, (index) => ({
          id: index + 1,
          title: 'Project',
          parent_project_id: index,
          buckets: [{ id: index + 1, title: 'Column' }],
          tasks: [{ id: index + 1, title: 'Task', related_tasks: { blocking: [{ id: index }] } }],
        })),
      ),
    }),
  },
  {
    name: 'tasks below each other, each with a comment',
    format: 'taskwright',
    size: 5_000,
    content: (size) => ({
      [manifestName]: JSON.stringify({ format: archiveFormat, version: archiveVersion, parts: [] }),
      [partNames.task]: times(
        size,
        (index) => `{"id":"t${index}","title":"A task","parent_id":"t${index - 1}"}\n`,
      ),
      [partNames.comment]: times(size, (index) => `{"id":"c${index}","task_id":"t0","body":"A comment"}\n`),
    }),
  },
]

t.test('twice the file takes about twice the time', async (t) => {
  const folder = await temporaryFolder(t)
  const options = { mapping: null, fileName: 'upload', timeZone: 'UTC', now: '2026-11-26T10:00:00.000Z' }
  for (const { name, format, size, content } of cases)
    await t.test(name, async (t) => {
      /** Microseconds of the processor. */
      const costOf = async (size: number): Promise<number> => {
        const path = join(folder, 'upload')
        const made = content(size)
        await writeFile(path, typeof made === 'string' ? made : await zipOf(made))
        const start = process.cpuUsage()
        const drafts = readFormat(path, { ...options, format })
        for await (const _ of checkDrafts(drafts, { isStrict: false, timeZone: 'UTC' }));
        const { user, system } = process.cpuUsage(start)
        return user + system
      }
      let [some, twice] = [Infinity, Infinity]
      // The least of three, since others use the processor too.
      for (let n = 0; n < 3; n += 1)
        [some, twice] = [Math.min(some, await costOf(size)), Math.min(twice, await costOf(2 * size))]
      // A quadratic part made the second one cost almost four times as much.
      t.ok(twice < 3 * some, `${twice} after ${some} microseconds`)
    })
})
