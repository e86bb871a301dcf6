import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import type * as disk from '../../src/storage/disk.ts'
import { StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { chunks, failure, maxBytes, testStorage } from '../fixture/storage-suite.ts'
import { diskTestStorage, filesBelow } from '../fixture/storage.ts'

testStorage(t, diskTestStorage)

/** The storage on a file system on which some functions of node:fs/promises behave otherwise. */
async function storageWith(t: Test, folder: string, replaced: Partial<typeof fs>) {
  const { diskStorage } = await t.mockImport<typeof disk>('../../src/storage/disk.ts', {
    'node:fs/promises': { ...fs, ...replaced },
    '../../src/storage/storage.ts': await import('../../src/storage/storage.ts'),
  })
  return diskStorage(folder)
}

t.test('only the owner of the process can read', { skip: process.platform === 'win32' }, async (t) => {
  const { folder, storage } = await diskTestStorage(t)
  await storage.put(chunks(Buffer.from('x')), { maxBytes })
  const modes = async (paths: string[]) =>
    new Set(await Promise.all(paths.map(async (path) => ((await fs.stat(path)).mode & 0o777).toString(8))))
  const folders = (await fs.readdir(folder)).map((name) => join(folder, name))
  t.same(await modes([folder, ...folders]), new Set(['700']))
  t.same(await modes(await filesBelow(folder)), new Set(['600']))
})

t.test('abandoned temporary files are removed, current ones and stored ones are not', async (t) => {
  const { folder, storage } = await diskTestStorage(t)
  const stored = await storage.put(chunks(Buffer.from('stored')), { maxBytes })
  const source = new PassThrough()
  const put = storage.put(source, { maxBytes })
  source.write('being written')

  const abandoned = join(folder, 'incoming', '0190c2a0-0000-7000-8000-000000000000')
  await fs.writeFile(abandoned, 'abandoned')
  await fs.utimes(abandoned, new Date(0), new Date(0))

  t.equal(await storage.removeAbandoned(new Date(Date.now() - 3_600_000)), 1)
  t.equal(await storage.removeAbandoned(new Date(Date.now() - 3_600_000)), 0)
  source.end()
  const { key } = await put
  const listed = await Array.fromAsync(storage.list())
  t.same(listed.map((file) => file.key).toSorted(), [stored.key, key].toSorted())
})

t.test('a temporary file that cannot be removed does not keep the others', async (t) => {
  const { folder } = await diskTestStorage(t)
  const names = ['1', '2', '3'].map((digit) => `0190c2a0-0000-7000-8000-00000000000${digit}`)
  for (const name of names) {
    await fs.writeFile(join(folder, 'incoming', name), 'abandoned')
    await fs.utimes(join(folder, 'incoming', name), new Date(0), new Date(0))
  }
  const [stuck = ''] = names
  const rm: typeof fs.rm = async (path, options) => {
    if (String(path).endsWith(stuck)) throw failure('EACCES')
    await fs.rm(path, options)
  }
  const storage = await storageWith(t, folder, { rm })
  await t.rejects(storage.removeAbandoned(new Date()), StorageUnavailable, 'it is said')
  t.same(await fs.readdir(join(folder, 'incoming')), [stuck])
})

t.test('a folder that is gone makes the storage unavailable, not empty', async (t) => {
  const { folder, storage } = await diskTestStorage(t)
  const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
  await fs.rm(folder, { recursive: true })
  await fs.writeFile(folder, 'a file in its place')

  const source = chunks(Buffer.from('x'))
  await t.rejects(storage.put(source, { maxBytes }), StorageUnavailable)
  t.equal(source.destroyed, true)
  await t.rejects(storage.check(), StorageUnavailable)
  await t.rejects(storage.open(key), StorageUnavailable)
  await t.rejects(Array.fromAsync(storage.list()), StorageUnavailable)
  await t.rejects(storage.missing([key]), StorageUnavailable)
  await t.rejects(Array.fromAsync(storage.listUnfinished()), StorageUnavailable)
  await t.rejects(storage.removeAbandoned(new Date()), StorageUnavailable)
  await t.rejects(diskStorage(folder), StorageUnavailable)
})

const faults = [
  { code: 'ENOSPC', expected: StorageFull },
  { code: 'EDQUOT', expected: StorageFull },
  { code: 'EIO', expected: StorageUnavailable },
  { code: 'EROFS', expected: StorageUnavailable },
]
for (const { code, expected } of faults) {
  t.test(`${code} while writing, syncing or renaming leaves nothing, and a retry works`, async (t) => {
    const folder = t.testdir()
    const broken = { step: '' }
    const failAt = async <T>(step: string, otherwise: () => Promise<T>) => {
      if (broken.step === step) throw failure(code)
      return otherwise()
    }
    const open: typeof fs.open = async (path, flags, mode) => {
      const isFolder = flags === 'r'
      const handle = await failAt('open', () => fs.open(path, flags, mode))
      const [write, sync] = [handle.writeFile.bind(handle), handle.sync.bind(handle)]
      handle.writeFile = (...input) => failAt('write', () => write(...input))
      handle.sync = () => failAt(isFolder ? 'sync folder' : 'sync', sync)
      return handle
    }
    const rename: typeof fs.rename = (from, to) => failAt('rename', () => fs.rename(from, to))
    const storage = await storageWith(t, folder, { open, rename })

    for (const step of ['open', 'write', 'sync', 'rename', 'sync folder']) {
      broken.step = step
      await t.rejects(storage.put(chunks(Buffer.from('x')), { maxBytes }), expected, step)
      t.same(await filesBelow(folder), [], `nothing is left after ${step}`)
    }
    for (const step of ['open', 'write']) {
      broken.step = step
      await t.rejects(storage.check(), expected, `check: ${step}`)
    }

    broken.step = ''
    t.equal((await storage.put(chunks(Buffer.from('x')), { maxBytes })).size, 1)
  })
}
