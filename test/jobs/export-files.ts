import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { filesWithoutRows } from '../../src/jobs/inventory.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { createRunExports, type ExportDeps } from '../../src/jobs/run-exports.ts'
import { removeOrphans, removeUnfinishedOrphans } from '../../src/jobs/stored-files.ts'
import { diskStorage } from '../../src/storage/disk.ts'
import { openFolder } from '../../src/storage/free-space.ts'
import { newKey } from '../../src/storage/keys.ts'
import { type Storage, StorageUnavailable } from '../../src/storage/storage.ts'
import { eventually } from '../fixture/eventually.ts'
import { jobDepsOf } from '../fixture/jobs.ts'
import { startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Files of exports in progress, which have no row of their own yet, and the jobs that remove files without a row. */

const folder = await mkdtemp(join(tmpdir(), 'taskwright-export-files-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const storage = await diskStorage(folder)
/** Its own jobs run once, at its start: exports are made by `runExports`. */
const times = { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 }
const service = await startService(t, { storage, jobTimes: times })
const { db } = service.deps
const deps = jobDepsOf(service)
const ada = await service.register('ada')
const { createTask, attachFile } = taskActions(service)
await attachFile(ada, (await createTask(ada)).id)

const { signal } = new AbortController()

const spools = join(folder, 'spools')

const runExports = (
  changes: Partial<Storage> = {},
  options: Partial<Pick<ExportDeps, 'checkSpace' | 'folder' | 'lease'>> = {},
): Promise<void> =>
  createRunExports({
    ...deps,
    storage: { ...storage, ...changes },
    folder: spools,
    checkSpace: async () => undefined,
    lease: 30_000,
    ...options,
  })(signal)

/** Removes files without a row that are older than the grace. */
const sweep = async (): Promise<void> => {
  const options = { grace: jobTimes.grace, stop: signal }
  await removeOrphans(deps, options)
  await removeUnfinishedOrphans(deps, options)
}

/** Makes a file look as old as one that was abandoned. S3 knows of an unfinished file only when it was begun. */
const age = async (path: string): Promise<void> => {
  const longAgo = new Date(Date.now() - 2 * jobTimes.grace)
  await utimes(path, longAgo, longAgo)
}

const newExport = async (fields = { status: 'waiting', writing_key: '' }): Promise<string> => {
  const id = newId()
  await db.run(
    `insert into exports (id, requested_by, user_id, status, writing_key, attempts, lease_id, leased_until)
     values ($1, $2, $2, $3, nullif($4, ''), 1, gen_random_uuid(), now() - interval '1 second')`,
    [id, ada.id, fields.status, fields.writing_key],
  )
  return id
}

const incoming = join(folder, 'incoming')

/** Entries that are unfinished files, by path. */
const unfinished = async (): Promise<readonly string[]> =>
  (await readdir(incoming)).map((name) => join(incoming, name))

const read = async (id: string) => {
  const params = { export_id: id }
  return (await service.expect('getExport', 200, { token: ada.token, params })).body
}

/** Runs exports in a process that has begun its archive and stops at its first attached file until `leave`. */
const stopAtFile = async () => {
  const [reached, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ended = runExports({
    async open(...parameters) {
      const content = await buffer(await storage.open(...parameters))
      reached.resolve()
      await left.promise
      return Readable.from([content])
    },
  })
  await Promise.race([reached.promise, ended])
  // The archive is opened meanwhile.
  await eventually('the archive is begun', async () => (await unfinished()).length > 0)
  return {
    leave: () => {
      left.resolve()
      return ended
    },
  }
}

t.test('a file that is being written is left alone, however long that takes', async (t) => {
  const id = await newExport()
  const { leave } = await stopAtFile()
  const [path = '', ...others] = await unfinished()
  t.strictSame(others, [])
  await age(path)
  t.strictSame(
    await Array.fromAsync(filesWithoutRows(db, storage.listUnfinished())),
    [[]],
    'for the check too',
  )
  await sweep()
  t.strictSame(await unfinished(), [path])
  await leave()
  t.match(await read(id), { status: 'finished' })
})

t.test('so is one that is complete, before its export has finished', async (t) => {
  const id = await newExport()
  await runExports({
    async put(...parameters) {
      const written = await storage.put(...parameters)
      await age(join(folder, written.key.slice(-2), written.key))
      await sweep()
      return written
    },
  })
  t.match(await read(id), { status: 'finished' })
  const params = { export_id: id }
  await service.expect('downloadExport', 200, { token: ada.token, params })
})

t.test('that of a process that died is removed once another one has taken its export', async (t) => {
  const key = newKey()
  const path = join(incoming, key)
  await writeFile(path, 'half an archive')
  await age(path)
  const id = await newExport({ status: 'running', writing_key: key })
  await sweep()
  t.strictSame(await unfinished(), [path], 'its process may be only slow')
  await runExports()
  t.match(await read(id), { status: 'finished' })
  await sweep()
  t.strictSame(await unfinished(), [])
})

t.test('and that of an attempt that failed, after its time', async (t) => {
  const key = newKey()
  const path = join(incoming, key)
  await writeFile(path, 'half an archive')
  await age(path)
  const id = await newExport()
  await runExports({ put: () => Promise.reject(new StorageUnavailable()) })
  t.match(await read(id), { status: 'waiting' })
  await db.run('update exports set writing_key = $2 where id = $1', [id, key])
  await sweep()
  t.strictSame(await unfinished(), [])
})

t.test('a process that has lost its lease leaves the records of the one that took over', async (t) => {
  const id = await newExport()
  const lost = await stopAtFile()
  await db.run(`update exports set leased_until = now() - interval '1 second' where id = $1`, [id])
  const present = await stopAtFile()
  const [row] = await db.run('select lease_id::text from exports where id = $1', [id])
  await lost.leave()
  t.strictSame(await readdir(spools), [row?.lease_id])
  await present.leave()
  t.match(await read(id), { status: 'finished' })
  t.strictSame(await readdir(spools), [])
})

t.test('an export whose records cannot be held is tried again', async (t) => {
  const id = await newExport()
  const noFolder = join(folder, 'file')
  await writeFile(noFolder, '')
  const checkSpace = async () => {
    // A folder that was begun before has failed by then.
    for (let times = 0; times < 20; times += 1) await stat(noFolder)
  }
  await runExports({}, { folder: noFolder, checkSpace })
  t.match(await read(id), { status: 'waiting' })
  await db.run('delete from exports where id = $1', [id])
})

t.test('an export fails if the disk of its records is short, at its beginning or later', async (t) => {
  const checkSpace = () => openFolder(folder, Number.MAX_SAFE_INTEGER, 0)
  const first = await newExport()
  await runExports({}, { checkSpace })
  t.match(await read(first), { status: 'failed', failure: 'storage_full' })

  const second = await newExport()
  const { promise: hasFailed, resolve: fail } = Promise.withResolvers<void>()
  let isFull = false
  await runExports(
    {
      async open(...parameters) {
        isFull = true
        await hasFailed
        return storage.open(...parameters)
      },
    },
    {
      lease: 3_000,
      async checkSpace() {
        if (isFull) await checkSpace()
      },
    },
  )
  fail()
  t.match(await read(second), { status: 'failed', failure: 'storage_full' })
  t.strictSame(await unfinished(), [])
})
