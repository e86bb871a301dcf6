import { join } from 'node:path'
import t from 'tap'
import { writeArchive } from '../scripts/operate/archive.ts'
import { addDatabase, readBackup } from '../scripts/operate/backup-format.ts'
import { readSchema } from '../src/db/engine/migrate.ts'
import { temporaryFolder } from './fixture/process.ts'

t.test('the revision of an archive is that in its routines, which are known', async (t) => {
  const folder = await temporaryFolder(t)
  const file = join(folder, 'backup.tar')
  const schema = readSchema()
  const { routines } = schema
  await writeArchive(t, file, folder, async (archive) => {
    await addDatabase(archive, [], {
      hasFiles: false,
      schema: { ...schema, routines: { ...routines, revision: 999_999 } },
    })
  })
  const backup = await readBackup(file, folder)
  t.strictSame(backup.schema.routines, routines)
})
