import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Teardown } from '../../scripts/run/run-to-end.ts'
import type { ReadOptions } from '../../src/interchange/import-file.ts'
import { openFileReader, type ReadLimits } from '../../src/interchange/read.ts'
import { temporaryFolder } from '../fixture/process.ts'

const never = new AbortController().signal

const optionsOf = (format: ReadOptions['format']): ReadOptions => ({
  format,
  mapping: null,
  fileName: 'upload',
  timeZone: 'UTC',
  now: '2026-11-26T10:00:00.000Z',
})

const fileOf = async (t: Teardown, content: string): Promise<string> => {
  const path = join(await temporaryFolder(t), 'upload')
  await writeFile(path, content)
  return path
}

const open = (t: Teardown, path: string, limits?: ReadLimits) => {
  const reader = openFileReader(path, never, limits)
  t.teardown(async () => reader.close())
  return reader
}

const read = (t: Teardown, path: string, format: ReadOptions['format'], limits?: ReadLimits) =>
  Array.fromAsync(open(t, path, limits).read(optionsOf(format)))

t.test('a file is read as its batches are taken', async (t) => {
  const rows = Array.from({ length: 1000 }, (_, index) => (index % 100 === 7 ? '' : `Task ${index}`))
  const path = await fileOf(t, ['title,notes', ...rows.map((title) => `${title},x`)].join('\n'))
  const reader = open(t, path)
  t.match(await reader.inspect({ format: null, mapping: null }), {
    format: 'csv',
    csv: { mapping: { columns: ['title', 'description'] } },
  })
  const batches = await Array.fromAsync(reader.read(optionsOf('csv')))
  t.ok(batches.length > 3)
  t.equal(batches.flatMap(({ records }) => records).length, 990)
  t.equal(batches.flatMap(({ report }) => report).length, 10)
  // A reader that is closed early leaves no process behind, or the test would not end.
  for await (const _ of open(t, path).read(optionsOf('csv'))) break
})

const limits: ReadLimits = { deadline: 60_000, total: 60_000, heap: 768, resident: 1024 }

t.test('a file that takes too much memory or time ends its reading only', async (t) => {
  const exhausted = { name: 'UnreadableFile', why: 'exhausted' }
  const large = await fileOf(t, `{"items":[${'{},'.repeat(2_000_000)}{}],"projects":[]}`)
  await t.rejects(read(t, large, 'todoist', { ...limits, heap: 48 }), exhausted)
  await t.rejects(read(t, large, 'todoist', { ...limits, deadline: 1 }), exhausted)
  const long = await fileOf(t, ['title', ...Array.from({ length: 100_000 }, () => 'Task')].join('\n'))
  await t.rejects(read(t, long, 'csv', { ...limits, total: 600 }), exhausted)
  await t.rejects(read(t, await fileOf(t, '{'), 'trello'), { name: 'UnreadableFile', why: 'damaged' })
  const stopped = AbortSignal.abort(new Error('Cancelled'))
  t.throws(() => openFileReader(large, stopped), { message: 'Cancelled' })
})

t.test('memory outside of the heap is limited too', { skip: process.platform !== 'linux' }, async (t) => {
  const path = await fileOf(t, `{"items":["${'x'.repeat(100_000_000)}"],"projects":[]}`)
  await t.rejects(read(t, path, 'todoist', { ...limits, resident: 160 }), {
    why: 'exhausted',
    message: 'Reading the file takes too much memory.',
  })
})

for (const [name, lines] of [
  ['folded in long pieces', ` ${'x'.repeat(74)}\n`.repeat(500_000)],
  ['folded in short pieces', ' x\n'.repeat(2_000_000)],
  ['and 2,000,000 more', 'x\n'.repeat(2_000_000)],
] as const)
  t.test(
    `a to-do with a line ${name} is bounded before it is joined`,
    { skip: process.platform !== 'linux' },
    async (t) => {
      const path = await fileOf(t, `BEGIN:VTODO\nSUMMARY:A\nDESCRIPTION:\n${lines}END:VTODO\n`)
      const batches = await read(t, path, 'icalendar', { ...limits, resident: 192 })
      t.match(batches.flatMap(({ report }) => report)[0], { row: 1, code: 'too_long' })
    },
  )
