import { truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { addFile, readEntries, writeArchive } from '../scripts/operate/archive.ts'
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

t.test('a file that is cut off while it is added does not end the backup', async (t) => {
  const folder = await temporaryFolder(t)
  const [file, growing] = [join(folder, 'backup.tar'), join(folder, 'growing')]
  await writeFile(growing, 'abcdef')
  await writeArchive(t, file, folder, async (archive) => {
    const cutting = {
      async add(...[name, size, content]: Parameters<typeof archive.add>) {
        await truncate(growing, 2)
        await archive.add(name, size, content)
      },
    }
    await addFile(cutting, growing, 'incoming/growing')
    await addFile(archive, join(folder, 'none'), 'incoming/none')
  })
  const entries: [string, string][] = []
  for await (const { name, body } of readEntries(file, folder))
    entries.push([name, Buffer.concat(await Array.fromAsync(body)).toString()])
  t.strictSame(entries, [['incoming/growing', 'ab\0\0\0\0']])
})
