import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type Database, openDatabase } from '../src/db/client.ts'
import { sweepTimes } from '../src/sweeper.ts'
import { environmentFor, openDatabaseOf } from './fixture/database.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'
import { filesBelow } from './fixture/storage.ts'
import { pieceHeaders, tusHeaders } from './fixture/uploads.ts'

const script = fileURLToPath(new URL('../scripts/storage-check.ts', import.meta.url))

const environment = await environmentFor(t)
const files = join(environment.DATA_DIR, 'attachments')

const check = (more: Readonly<Record<string, string>> = {}) => runProcess({ ...environment, ...more }, script)

/** The database while no service uses it. */
const withDatabase = async (use: (db: Database) => Promise<unknown>): Promise<void> => {
  const database = await openDatabaseOf(environment)
  const db = openDatabase(database.options)
  try {
    await use(db)
  } finally {
    await db.close()
    await database.close()
  }
}

const filesNow = async (): Promise<string[]> => (await filesBelow(files)).map((path) => basename(path))

const plant = async (folder: string, name: string, isOld: boolean): Promise<void> => {
  await mkdir(join(files, folder), { recursive: true })
  await writeFile(join(files, folder, name), 'planted')
  const time = new Date(Date.now() - (isOld ? sweepTimes.grace + 60_000 : 0))
  await utimes(join(files, folder, name), time, time)
}

t.test('nothing to look at', async (t) => {
  const empty = await temporaryFolder(t)
  const { code, output } = await check({ DATA_DIR: empty })
  t.equal(code, 2)
  t.match(output, empty)
  t.same(await readdir(empty), [], 'nothing is made')
})

t.test('it tells what is there, and changes nothing', async (t) => {
  const service = await startProcess(t, environment)
  const client = createClient(service.url)
  const { token } = await client.register('ada')
  const { body: task } = await client.expect('createTask', 201, { token, body: { title: 'With files' } })
  const attach = async () => {
    const upload = { token, params: { task_id: task.id }, body: fileForm('content') }
    return (await client.expect('addTaskAttachment', 201, upload)).body.id
  }
  const [kept, lost, deleted] = [await attach(), await attach(), await attach()]
  // It waits for its next piece, so nothing is wrong with it.
  const begun = { ...pieceHeaders(0), ...tusHeaders(5) }
  await client.expect('createUpload', 201, {
    token,
    params: { task_id: task.id },
    headers: begun,
    body: Buffer.from('he'),
  })

  const running = await check()
  if (environment.DATABASE_URL === undefined) {
    t.equal(running.code, 2)
    t.match(running.output, /in use by another Taskwright process; stop the service first/)
  } else {
    t.equal(running.code, 0, running.output)
  }
  t.equal(await service.end('SIGTERM'), 0)

  const orphans = ['0190c2a0-0000-7000-8000-0000000000aa', '0190c2a0-0000-7000-8000-0000000000bb'] as const
  const unfinished = ['0190c2a0-0000-7000-8000-0000000000cc', '0190c2a0-0000-7000-8000-0000000000dd'] as const
  await plant('aa', orphans[0], false)
  await plant('incoming', unfinished[0], false)
  const young = await check()
  t.equal(young.code, 0, 'what is young may be of an upload that runs')
  t.match(young.output, /All is well/)
  t.match(young.output, new RegExp(`file ${orphans[0]}: .* its upload may be running`))
  t.match(young.output, new RegExp(`unfinished file ${unfinished[0]}: .* its upload may be running`))

  await plant('bb', orphans[1], true)
  await plant('incoming', unfinished[1], true)
  let lostKey = ''
  await withDatabase(async (db) => {
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
  t.match(output, new RegExp(`file ${orphans[1]}: .*, 21 min old; the sweeper will remove it`))
  t.match(output, /files without an attachment: 2 \(1 of them may be all right\)\n/)
  t.match(output, new RegExp(`unfinished file ${unfinished[1]}: .* abandoned`))
  t.match(output, /waited for 3 h.*\nfiles of deleted attachments: 1\n/)
  t.match(output, /Something is wrong: 4/)
  t.same((await filesNow()).toSorted(), before.toSorted(), 'nothing is removed')
})
