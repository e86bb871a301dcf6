import t from 'tap'
import { jobTimes } from '../../src/jobs/registry.ts'
import { rowsOf, table, uploadedImport } from '../fixture/imports.ts'
import { startService } from '../fixture/service.ts'

/** Texts of files that cannot be stored. */

const lines: string[] = []
const service = await startService(t, {
  jobTimes: { ...jobTimes, events: 20 },
  config: { logLevel: 'info' },
  logStream: { write: (line) => void lines.push(line) },
})
const { db } = service.deps
const ada = await service.register('ada')

t.test('lines of the report have no U+0000', async (t) => {
  const content = [
    'BEGIN:VCALENDAR',
    'BEGIN:X-\0NOTE',
    'END:X-\0NOTE',
    'BEGIN:VTODO',
    'SUMMARY:A',
    // With more zeros than that it would not be a text.
    `DESCRIPTION:${'a'.repeat(300)}`,
    'END:VTODO',
    'END:VCALENDAR',
    '',
  ].join('\r\n')
  const ready = await uploadedImport(service, ada, { name: 'tasks.ics', content })
  t.match(ready, { status: 'ready', preview: { tasks: 1 } })
  t.match(await rowsOf(service, ada, ready.id), [{ code: 'not_supported', message: /^1 of X-NOTE are/ }])
})

t.test(
  'a file whose text the database refuses is damaged at once, and its cells are not logged',
  async (t) => {
    await db.run(
      `create function refuse_row() returns trigger language plpgsql as $$
     begin
       raise exception using message = 'refused', errcode = substring(new.message from '"(.*)"'), detail = new.message;
     end $$`,
      [],
    )
    await db.run(
      `create trigger refuse_row before insert on import_rows for each row when (new.field = 'due') execute function refuse_row()`,
      [],
    )
    for (const code of ['22P05', '22021'])
      await t.test(code, async (t) => {
        lines.length = 0
        const failed = await uploadedImport(service, ada, table('title,due', `A,${code}`))
        t.match(failed, { status: 'failed', failure: 'damaged' })
        const logged = lines.filter((line) => line.includes(`"import_id":"${failed.id}"`))
        t.match(logged, [/An import failed"/], 'it is not tried again')
        t.match(logged[0], /refused/)
        t.notMatch(logged[0], /is not a date|PL\/pgSQL/, 'neither its detail nor where it was')
      })
  },
)
