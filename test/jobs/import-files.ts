import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { jobTimes } from '../../src/jobs/registry.ts'
import { createRunImports } from '../../src/services/interchange/import-run.ts'
import { uploadedImport } from '../fixture/imports.ts'
import { startService } from '../fixture/service.ts'

/** Files of imports while they are read. */

const folder = await mkdtemp(join(tmpdir(), 'taskwright-import-files-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
/** Its own jobs run at its start, and when a file was uploaded: afterwards, imports are run by `stopAtFile`. */
const service = await startService(t, { jobTimes: { ...jobTimes, cleanupAtStart: false, events: 2 ** 30 } })
const { db, storage, config } = service.deps
const ada = await service.register('ada')

/** Runs imports in a process that stops before it has their file until `leave`. */
const stopAtFile = async () => {
  const [reached, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ended = createRunImports({
    ...config,
    db,
    log: service.app.log,
    storage: {
      ...storage,
      async open(...parameters) {
        reached.resolve()
        await left.promise
        return storage.open(...parameters)
      },
    },
    folder,
    lease: 30_000,
    onlyUserId: null,
  })(new AbortController().signal)
  await Promise.race([reached.promise, ended])
  return {
    leave: () => {
      left.resolve()
      return ended
    },
  }
}

t.test('a process that has lost its lease leaves the file of the one that took over', async (t) => {
  const { id } = await uploadedImport(service, ada)
  await db.run(`update imports set status = 'reading' where id = $1`, [id])
  const lost = await stopAtFile()
  await db.run(`update imports set leased_until = now() - interval '1 second' where id = $1`, [id])
  const present = await stopAtFile()
  const [row] = await db.run('select lease_id::text from imports where id = $1', [id])
  await lost.leave()
  t.strictSame(await readdir(folder), [row?.lease_id])
  await present.leave()
  const params = { import_id: id }
  t.match((await service.expect('getImport', 200, { token: ada.token, params })).body, { status: 'ready' })
  t.strictSame(await readdir(folder), [])
})
