import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { foldersIn, isLeftToFinish, retireEarlier } from '../scripts/operate/carry-over/folders.ts'
import { expectComplete } from '../src/data-dir/interrupted.ts'
import { hasDatabase } from '../src/postgres/cluster.ts'
import { runProcess, temporaryFolder } from './fixture/process.ts'

/** DATA_DIR as a kill in the last steps of `npm run restore` and `npm run carry-over` leaves it. */

const program = (name: string): string =>
  fileURLToPath(new URL(`../scripts/operate/${name}.ts`, import.meta.url))

/** Nothing listens there: what is tested must be found before anything connects. */
const DATABASE_URL = 'postgres://127.0.0.1:1/none'

const dataWith = async (t: Test, files: Readonly<Record<string, string>>): Promise<string> => {
  const DATA_DIR = await temporaryFolder(t)
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(DATA_DIR, path)), { recursive: true })
    await writeFile(join(DATA_DIR, path), content)
  }
  return DATA_DIR
}

t.test('a restore is finished only for its own kind of database, and is never thrown away', async (t) => {
  const refuse = async (marker: string, environment: Readonly<Record<string, string>>, reason: RegExp) => {
    const DATA_DIR = await dataWith(t, {
      'restoring/attachments/file': 'content',
      'restoring/verified': marker,
      'backup.tar': '',
    })
    const { code, output } = await runProcess({ DATA_DIR, ...environment }, program('restore'), [
      join(DATA_DIR, 'backup.tar'),
    ])
    t.equal(code, 1, output)
    t.match(output, reason)
    t.strictSame((await readdir(join(DATA_DIR, 'restoring'))).toSorted(), ['attachments', 'verified'])
  }
  await refuse('null', { DATABASE_URL }, /restoring has the files .* to a database in DATA_DIR\. Unset/)
  await refuse('5', {}, /restoring has the files .* to the database of a server\. Set DATABASE_URL/)
})

t.test('no database is created beside a command that must be finished', async (t) => {
  const refuse = async (path: string, command: string) => {
    const DATA_DIR = await dataWith(t, { [path]: 'null', 'attachments/file': '' })
    const message = `DATA_DIR ${DATA_DIR} is incomplete: "npm run ${command}" was interrupted, or is still running. Run the same command again, with the same file`
    await t.rejects(hasDatabase(DATA_DIR), { name: 'CommandInterrupted', message })
    await t.rejects(expectComplete(DATA_DIR), { message })
  }
  await refuse('restoring/attachments/file', 'restore')
  await refuse('carrying-over/extracting/attachments/file', 'carry-over')
})

t.test('a carry-over of a backup is finished by the same command', async (t) => {
  const finish = async (files: Readonly<Record<string, string>>, folder: string) => {
    const DATA_DIR = await dataWith(t, { 'postgresql/PG_VERSION': '18\n', 'attachments/file': '', ...files })
    await mkdir(join(DATA_DIR, folder), { recursive: true })
    const folders = foldersIn(DATA_DIR)
    t.ok(await isLeftToFinish(folders))
    await retireEarlier(folders)
    t.notOk(await isLeftToFinish(folders))
    await expectComplete(DATA_DIR)
    t.strictSame((await readdir(DATA_DIR)).toSorted(), [
      'attachments',
      'postgres',
      'postgres-before-0.3',
      'postgresql',
    ])
    t.equal(await readFile(join(DATA_DIR, 'postgres/README'), 'utf8'), 'notice')
    t.strictSame(await readdir(join(DATA_DIR, 'postgres-before-0.3')), ['PG_VERSION'])
  }
  const notice = { 'carrying-over/notice/README': 'notice' }
  const retired = { 'postgres-before-0.3/PG_VERSION': '18\n' }
  // Before each rename, and before each removal.
  await finish({ ...notice, 'postgres/PG_VERSION': '18\n' }, 'carrying-over')
  await finish({ ...notice, ...retired }, 'carrying-over')
  await finish({ ...retired, 'postgres/README': 'notice' }, 'carrying-over/extracted')
  await finish({ ...retired, 'postgres/README': 'notice' }, 'carrying-over')
})
