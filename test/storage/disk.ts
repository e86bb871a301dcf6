import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import { newKey } from '../../src/storage/keys.ts'
import { StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { eventually } from '../fixture/eventually.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { chunks, failure, maxBytes, testStorage, testUnavailable } from '../fixture/storage-suite.ts'
import { fileForm, startService } from '../fixture/service.ts'
import { diskTestStorage, filesBelow } from '../fixture/storage.ts'

testStorage(t, diskTestStorage, 1_048_576)

type FileSystem = Pick<typeof fs, 'open' | 'rename'>

/** Replaces functions of node:fs/promises for all importers until the test ends. */
function replaceInFileSystem(t: Test, replaced: FileSystem) {
  const { open, rename } = fs
  Object.assign(fs, replaced)
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(fs, { open, rename })
    syncBuiltinESMExports()
  })
}

t.test(
  'files and folders are readable only by the user of the process',
  { skip: process.platform === 'win32' },
  async (t) => {
    const { folder, storage } = await diskTestStorage(t)
    await storage.put(chunks(Buffer.from('x')), { maxBytes })
    const modes = async (paths: string[]) =>
      new Set(await Promise.all(paths.map(async (path) => ((await fs.stat(path)).mode & 0o777).toString(8))))
    const folders = (await fs.readdir(folder)).map((name) => join(folder, name))
    t.same(await modes([folder, ...folders]), new Set(['700']))
    t.same(await modes(await filesBelow(folder)), new Set(['600']))
  },
)

t.test('temporary files are listed as unfinished, and can be removed', async (t) => {
  const { folder, storage } = await diskTestStorage(t)
  const stored = await storage.put(chunks(Buffer.from('stored')), { maxBytes })
  const source = new PassThrough()
  const put = storage.put(source, { maxBytes })
  source.write('being written')
  const unfinished = async () => Array.fromAsync(storage.listUnfinished())
  await eventually('its temporary file exists', async () => (await unfinished()).length === 1)

  const abandoned = join(folder, 'incoming', '0190c2a0-0000-7000-8000-000000000000')
  await fs.writeFile(abandoned, 'abandoned')
  await fs.utimes(abandoned, new Date(0), new Date(0))

  const old = (await unfinished()).filter(({ modifiedAt }) => modifiedAt.getTime() === 0)
  t.same(
    old.map((file) => file.key),
    [basename(abandoned)],
  )
  t.equal((await unfinished()).length, 2)
  await storage.removeUnfinished(basename(abandoned))
  t.equal((await unfinished()).length, 1)
  source.end()
  const { key } = await put
  const listed = await Array.fromAsync(storage.list())
  t.same(listed.map((file) => file.key).toSorted(), [stored.key, key].toSorted())
})

t.test('a missing folder makes the storage unavailable, not empty', async (t) => {
  const { folder, storage } = await diskTestStorage(t)
  const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
  await fs.rm(folder, { recursive: true })
  await t.rejects(storage.open(key), StorageUnavailable, 'like a disk that is not mounted')
  await fs.writeFile(folder, 'a file in its place')

  await testUnavailable(t, storage, key)
  await t.rejects(diskStorage(folder), StorageUnavailable)
  await t.rejects(diskStorage('/proc/nope'), StorageUnavailable, 'a folder that cannot be created')
})

t.test('a disk with only its reserve left is full', async (t) => {
  const folder = await temporaryFolder(t)
  const storage = await diskStorage(folder, { reserveBytes: Number.MAX_SAFE_INTEGER })
  const source = chunks(Buffer.from('x'))
  await t.rejects(storage.put(source, { maxBytes }), StorageFull)
  t.equal(source.destroyed, true)
  const unfinished = { key: newKey(), size: 1 }
  const append = storage.append(unfinished, 0, chunks(Buffer.from('x')), {
    whole: false,
    hold: async () => {},
  })
  await t.rejects(Array.fromAsync(append), StorageFull)
  await t.rejects(storage.check(), StorageFull)
  t.same(await Array.fromAsync(storage.listUnfinished()), [])
  await storage.writeOwner('is small, and not written by clients')
})

/** A storage whose disk fails with `code` at `step`, if one is set. `write on` is any write but the first. */
const brokenStorage = async (t: Test, folder: string) => {
  const broken = { step: '', code: '' }
  const failAt = async <T>(step: string, otherwise: () => Promise<T>) => {
    if (broken.step === step) throw failure(broken.code)
    return otherwise()
  }
  const { open, rename } = fs
  const brokenOpen: FileSystem['open'] = async (path, flags, mode) => {
    const isFolder = flags === 'r'
    const handle = await failAt('open', () => open(path, flags, mode))
    const [write, sync] = [handle.writeFile.bind(handle), handle.sync.bind(handle)]
    let isFirst = true
    handle.writeFile = (...input) => {
      const step = isFirst ? 'write' : 'write on'
      isFirst = false
      return failAt(step, () => write(...input))
    }
    handle.sync = () => failAt(isFolder ? 'sync folder' : 'sync', sync)
    return handle
  }
  replaceInFileSystem(t, {
    open: brokenOpen,
    rename: (from, to) => failAt('rename', () => rename(from, to)),
  })
  return { storage: await diskStorage(folder), broken }
}

const steps = ['open', 'write', 'write on', 'sync', 'rename', 'sync folder']
const faults = [
  { code: 'ENOSPC', expected: StorageFull, status: 507 },
  { code: 'EDQUOT', expected: StorageFull, status: 507 },
  { code: 'EIO', expected: StorageUnavailable, status: 503 },
  { code: 'EROFS', expected: StorageUnavailable, status: 503 },
  { code: 'EACCES', expected: StorageUnavailable, status: 503 },
] as const
for (const { code, expected } of faults) {
  t.test(`${code} while writing, syncing or renaming leaves nothing, and a retry works`, async (t) => {
    const folder = await temporaryFolder(t)
    const { storage, broken } = await brokenStorage(t, folder)
    const put = () => storage.put(chunks(Buffer.from('x'), Buffer.from('y')), { maxBytes })
    broken.code = code
    for (const step of steps) {
      broken.step = step
      await t.rejects(put(), expected, step)
      t.same(await filesBelow(folder), [], `no file remains after ${step}`)
    }
    for (const step of ['open', 'write']) {
      broken.step = step
      await t.rejects(storage.check(), expected, `check: ${step}`)
    }

    broken.step = ''
    t.equal((await put()).size, 2)
  })
}

t.test('503 or 507 for disk faults, and a retry succeeds', async (t) => {
  const folder = await temporaryFolder(t)
  const { storage, broken } = await brokenStorage(t, folder)
  const service = await startService(t, { storage })
  const { token } = await service.register('ada')
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  const taskRequest = { token, params: { task_id: task.id } }
  const content = Buffer.alloc(300_000, 'x')
  const upload = () => ({ ...taskRequest, body: fileForm(content) })
  for (const { code, status } of faults) {
    broken.code = code
    for (const step of steps) {
      broken.step = step
      const { body } = await service.expect('addTaskAttachment', status, upload())
      t.notMatch(JSON.stringify(body), code, `${code} at ${step}`)
      t.same(await filesBelow(folder), [], 'no file remains')
    }
  }
  broken.step = ''
  const { body: list } = await service.expect('listTaskAttachments', 200, taskRequest)
  t.same(list.items, [], 'no row remains')
  const { body } = await service.expect('addTaskAttachment', 201, upload())
  const file = await service.expect('downloadAttachment', 200, { token, params: { attach_id: body.id } })
  t.ok(content.equals(file.body as unknown as Uint8Array))
})
