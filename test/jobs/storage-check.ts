import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type Database, openDatabase } from '../../src/db/engine/client.ts'
import { migrate } from '../../src/db/engine/migrate.ts'
import { diskStorage } from '../../src/storage/disk.ts'
import { ownerName } from '../../src/storage/keys.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { environmentFor, openDatabaseOf } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { runProcess, temporaryFolder } from '../fixture/process.ts'
import { fileForm, startService } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { pieceHeaders, tusHeaders } from '../fixture/uploads.ts'

const program = (name: string): string =>
  fileURLToPath(new URL(`../../scripts/operate/${name}.ts`, import.meta.url))

const environment = await environmentFor(t)
const files = join(environment.DATA_DIR, 'attachments')
const owner = join(files, ownerName)

const check = (more: Readonly<Record<string, string>> = {}) =>
  runProcess({ ...environment, ...more }, program('admin'), ['storage', 'check'])

/** Opens and migrates the database. It is closed when the test ends. */
const useDatabase = async (t: Test): Promise<Database> => {
  const database = await openDatabaseOf(environment)
  t.teardown(() => database.close())
  await migrate(database.options)
  const db = openDatabase(database.options)
  t.teardown(() => db.close())
  return db
}

const filesNow = async (): Promise<string[]> => (await filesBelow(files)).map((path) => basename(path))

const plant = async (folder: string, name: string, isOld: boolean): Promise<void> => {
  await mkdir(join(files, folder), { recursive: true })
  await writeFile(join(files, folder, name), 'planted')
  const time = new Date(Date.now() - (isOld ? jobTimes.grace + 60_000 : 0))
  await utimes(join(files, folder, name), time, time)
}

t.test('exit code 2 without a storage', async (t) => {
  const empty = await temporaryFolder(t)
  const { code, output } = await check({ DATA_DIR: empty })
  t.equal(code, 2)
  t.match(output, empty)
  t.same(await readdir(empty), [], 'nothing is created')
})

/** Ids of attachments: one that is kept, one that loses its file, and one that is deleted. */
let [kept, lost, deleted] = ['', '', '']

t.test('exit code 0 while the service runs', async (t) => {
  const service = await startService(t, {
    db: await useDatabase(t),
    storage: await diskStorage(files),
    jobTimes,
  })
  // Before there are files: one whose attachment is not committed yet would look like one of another database.
  await eventually('the ownership marker is written', async () => existsSync(owner))
  const { token } = await service.register('ada')
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  const taskRequest = { token, params: { task_id: task.id } }
  const attach = async () => {
    const upload = { ...taskRequest, body: fileForm('content') }
    return (await service.expect('addTaskAttachment', 201, upload)).body.id
  }
  ;[kept, lost, deleted] = [await attach(), await attach(), await attach()]
  // An upload that waits for its next chunk is not a problem.
  const headers = { ...pieceHeaders(0), ...tusHeaders(5) }
  await service.expect('createUpload', 201, { ...taskRequest, headers, body: Buffer.from('he') })

  const { code, output } = await check()
  t.equal(code, 0, output)
})

/** The epoch of the change history. */
const epochOf = async (t: Test): Promise<unknown> => {
  let epoch: unknown
  await t.test('reading the epoch', async (t) => {
    const db = await useDatabase(t)
    epoch = (await db.run('select epoch from change_history', []))[0]?.epoch
  })
  return epoch
}

t.test('files of another database are reported, and storage adopt adopts them', async (t) => {
  const own = await readFile(owner, 'utf8')
  await writeFile(owner, own.replace('"database":"', '"database":"1'))
  const { code, output } = await check()
  t.equal(code, 1)
  t.match(output, /The files belong to another database, so a background job deletes no unreferenced files/)
  t.match(output, /Problems found: 1/)
  const doctor = await runProcess(environment, program('doctor'))
  t.equal(doctor.code, 1)
  t.match(
    doctor.output,
    /FAIL +files: The files belong to another database, .* npm run admin -- storage adopt\./,
  )
  const before = await epochOf(t)
  const adopted = await runProcess(environment, program('admin'), ['storage', 'adopt'])
  t.equal(adopted.code, 0, adopted.output)
  t.not(await epochOf(t), before, 'clients must synchronize again')
})

const orphans = ['0190c2a0-0000-7000-8000-0000000000aa', '0190c2a0-0000-7000-8000-0000000000bb'] as const
const unfinished = ['0190c2a0-0000-7000-8000-0000000000cc', '0190c2a0-0000-7000-8000-0000000000dd'] as const

t.test('new files may belong to a running upload, and are no problem', async (t) => {
  await plant('aa', orphans[0], false)
  await plant('incoming', unfinished[0], false)
  const { code, output } = await check()
  t.equal(code, 0)
  t.match(output, /No problems found/)
  t.notMatch(output, 'belong')
  t.match(output, new RegExp(`file ${orphans[0]}: .* its upload may be in progress`))
  t.match(output, new RegExp(`unfinished file ${unfinished[0]}: .* its upload may be in progress`))
})

t.test('problems are reported, and nothing is changed', async (t) => {
  await plant('bb', orphans[1], true)
  await plant('incoming', unfinished[1], true)
  let lostKey = ''
  await t.test('preparing the problems', async (t) => {
    const db = await useDatabase(t)
    const [row] = await db.run('select storage_key from attachments where id = $1', [lost])
    lostKey = String(row?.storage_key)
    await db.run('delete from attachments where id = $1', [deleted])
    await db.run(`update file_deletions set created_at = now() - interval '3 hours'`, [])
  })
  await rm(join(files, lostKey.slice(-2), lostKey))
  const before = await filesNow()
  const { code, output } = await check()
  t.equal(code, 1)
  t.match(output, `attachment ${lost}: its file is missing`)
  t.notMatch(output, kept)
  t.match(output, /attachments without their file: 1\n/)
  t.match(output, new RegExp(`file ${orphans[1]}: .*, 21 min old; a background job will delete it`))
  t.match(output, /files without an attachment: 2 \(1 of them may be in use\)\n/)
  t.match(output, new RegExp(`unfinished file ${unfinished[1]}: .* abandoned`))
  t.match(output, /waited for 3 h.*\nfiles of deleted attachments: 1\n/)
  t.match(output, /Problems found: 4/)
  t.same((await filesNow()).toSorted(), before.toSorted(), 'nothing is removed')
  t.match(
    (await runProcess(environment, program('doctor'))).output,
    /ok +files: they belong to this database/,
  )
})
