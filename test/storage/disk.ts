import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import t from 'tap'
import type { Test } from 'tap'
import { diskStorage } from '../../src/storage/disk.ts'
import type * as disk from '../../src/storage/disk.ts'
import { FileMissing, FileTooLarge, StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'

const maxBytes = 1_000_000
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const chunks = (...bytes: Uint8Array[]) => Readable.from(bytes, { objectMode: false })

async function storageIn(t: Test) {
  const folder = join(t.testdir(), 'made', 'for', 'this')
  return { folder, storage: await diskStorage(folder) }
}

/** Every file below a folder, wherever the storage may have put it. */
async function filesBelow(folder: string): Promise<string[]> {
  const entries = await fs.readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** The storage on a file system on which some functions of node:fs/promises behave otherwise. */
async function storageWith(t: Test, folder: string, replaced: Partial<typeof fs>) {
  const { diskStorage } = await t.mockImport<typeof disk>('../../src/storage/disk.ts', {
    'node:fs/promises': { ...fs, ...replaced },
    '../../src/storage/storage.ts': await import('../../src/storage/storage.ts'),
  })
  return diskStorage(folder)
}

const failure = (code: string) => Object.assign(new Error(code), { code })

t.test('what is put can be opened, listed and removed', async (t) => {
  const { storage } = await storageIn(t)
  const content = randomBytes(200_000)
  const stored = await storage.put(chunks(content.subarray(0, 70_000), content.subarray(70_000)), {
    maxBytes,
  })

  t.equal(stored.size, content.length)
  t.equal(stored.sha256, sha256(content))
  t.ok(content.equals(await buffer(await storage.open(stored.key))))

  const [listed, ...others] = await Array.fromAsync(storage.list())
  t.equal(listed?.key, stored.key)
  t.ok(Math.abs(Date.now() - Number(listed?.modifiedAt)) < 60_000)
  t.same(others, [])

  await storage.remove(stored.key)
  await t.rejects(storage.open(stored.key), FileMissing)
  await t.resolves(storage.remove(stored.key), 'removing again is fine')
  t.same(await Array.fromAsync(storage.list()), [])
})

t.test('a range is inclusive at both ends', async (t) => {
  const { storage } = await storageIn(t)
  const { key } = await storage.put(chunks(Buffer.from('0123456789')), { maxBytes })
  const read = async (start: number, end: number) => text(await storage.open(key, { start, end }))
  t.equal(await read(0, 0), '0')
  t.equal(await read(2, 5), '2345')
  t.equal(await read(9, 9), '9')
})

t.test('an empty file is a file', async (t) => {
  const { storage } = await storageIn(t)
  const stored = await storage.put(chunks(), { maxBytes })
  t.match(stored, { size: 0, sha256: sha256(Buffer.alloc(0)) })
  t.equal((await buffer(await storage.open(stored.key))).length, 0)
})

t.test('any async iterable is a source', async (t) => {
  const { storage } = await storageIn(t)
  async function* source() {
    yield Uint8Array.of(1, 2)
    yield new Uint8Array([0, 3, 4, 0]).subarray(1, 3)
  }
  const { key } = await storage.put(source(), { maxBytes })
  t.same(await buffer(await storage.open(key)), Buffer.of(1, 2, 3, 4))
})

t.test('only the owner of the process can read', { skip: process.platform === 'win32' }, async (t) => {
  const { folder, storage } = await storageIn(t)
  await storage.put(chunks(Buffer.from('x')), { maxBytes })
  const modes = async (paths: string[]) =>
    new Set(await Promise.all(paths.map(async (path) => ((await fs.stat(path)).mode & 0o777).toString(8))))
  const folders = (await fs.readdir(folder)).map((name) => join(folder, name))
  t.same(await modes([folder, ...folders]), new Set(['700']))
  t.same(await modes(await filesBelow(folder)), new Set(['600']))
})

t.test('a file at the limit is stored, one byte more leaves nothing', async (t) => {
  const { folder, storage } = await storageIn(t)
  const { key } = await storage.put(chunks(Buffer.alloc(600), Buffer.alloc(400)), { maxBytes: 1000 })
  await storage.remove(key)

  const source = chunks(Buffer.alloc(600), Buffer.alloc(401))
  await t.rejects(storage.put(source, { maxBytes: 1000 }), FileTooLarge)
  t.equal(source.destroyed, true)
  t.same(await filesBelow(folder), [])
})

t.test('a source that fails leaves nothing, and its own error is thrown', async (t) => {
  const { folder, storage } = await storageIn(t)
  const gone = failure('ECONNRESET')

  t.test('half-way', async (t) => {
    async function* source() {
      yield Buffer.alloc(100_000)
      t.equal((await filesBelow(folder)).length, 1, 'it is being written')
      throw gone
    }
    await t.rejects(storage.put(source(), { maxBytes }), gone)
  })

  t.test('closed half-way without an error', async (t) => {
    const source = new PassThrough()
    source.write(Buffer.alloc(1000))
    const put = storage.put(source, { maxBytes })
    source.once('drain', () => source.destroy())
    source.write(Buffer.alloc(100_000))
    await t.rejects(put, { code: 'ERR_STREAM_PREMATURE_CLOSE' })
  })

  t.test('before it is read', async (t) => {
    const destroyed = new PassThrough()
    const put = storage.put(destroyed, { maxBytes })
    destroyed.destroy(gone)
    await t.rejects(put, gone)

    const merelyEmitting = new PassThrough()
    const secondPut = storage.put(merelyEmitting, { maxBytes })
    merelyEmitting.emit('error', gone)
    await t.rejects(secondPut, gone)
  })

  t.test('with a code that a disk could have', async (t) => {
    const source = new Readable({ read: () => source.destroy(failure('ENOSPC')) })
    await t.rejects(storage.put(source, { maxBytes }), { name: 'Error', code: 'ENOSPC' })
  })

  t.test('nothing is left', async (t) => t.same(await filesBelow(folder), []))
})

t.test('a slow disk holds the source back', async (t) => {
  const { storage } = await storageIn(t)
  const size = 200 * 65_536
  let produced = 0
  let mostAhead = 0
  let consumed = 0
  async function* bytes() {
    while (produced < size) {
      produced += 65_536
      mostAhead = Math.max(mostAhead, produced - consumed)
      yield Buffer.alloc(65_536)
    }
  }
  const source: AsyncIterable<Uint8Array> = Readable.from(bytes(), { objectMode: false })
  async function* counted() {
    for await (const chunk of source) {
      yield chunk
      consumed += chunk.length
    }
  }
  await storage.put(counted(), { maxBytes: size })
  t.equal(consumed, size)
  t.ok(mostAhead <= 4 * 65_536, `${mostAhead} bytes were waiting in memory`)
})

t.test('parallel puts do not disturb each other', async (t) => {
  const { storage } = await storageIn(t)
  const contents = Array.from({ length: 50 }, () => randomBytes(10_000))
  const stored = await Promise.all(contents.map((content) => storage.put(chunks(content), { maxBytes })))
  t.equal(new Set(stored.map(({ key }) => key)).size, contents.length)
  t.same(
    stored.map((file) => file.sha256),
    contents.map(sha256),
  )
  t.equal((await Array.fromAsync(storage.list())).length, contents.length)
})

t.test('no other string than a key becomes a path', async (t) => {
  const { folder, storage } = await storageIn(t)
  const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
  const others = [
    '',
    '.',
    '..',
    '../../secret',
    `../${key}`,
    `${key}/..`,
    `${key}\0`,
    `${key}\n`,
    key.toUpperCase(),
  ]
  for (const other of others) {
    await t.rejects(storage.open(other), TypeError, JSON.stringify(other))
    await t.rejects(storage.remove(other), TypeError, JSON.stringify(other))
  }
  t.equal((await filesBelow(folder)).length, 1)
})

t.test('a second start finds the files of the first', async (t) => {
  const { folder, storage } = await storageIn(t)
  const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
  const second = await diskStorage(folder)
  t.equal(await text(await second.open(key)), 'x')
})

t.test('abandoned temporary files are removed, current ones and stored ones are not', async (t) => {
  const { folder, storage } = await storageIn(t)
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
  t.same(
    new Set((await Array.fromAsync(storage.list())).map(({ key }) => key)),
    new Set([stored.key, (await put).key]),
  )
})

t.test('check passes and leaves nothing', async (t) => {
  const { folder, storage } = await storageIn(t)
  await storage.check()
  t.same(await filesBelow(folder), [])
})

t.test('a folder that is gone makes the storage unavailable, not empty', async (t) => {
  const { folder, storage } = await storageIn(t)
  const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
  await fs.rm(folder, { recursive: true })
  await fs.writeFile(folder, 'a file in its place')

  const source = chunks(Buffer.from('x'))
  await t.rejects(storage.put(source, { maxBytes }), StorageUnavailable)
  t.equal(source.destroyed, true)
  await t.rejects(storage.check(), StorageUnavailable)
  await t.rejects(storage.open(key), StorageUnavailable)
  await t.rejects(Array.fromAsync(storage.list()), StorageUnavailable)
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
