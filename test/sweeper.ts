import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { diskStorage } from '../src/storage/disk.ts'
import { deriveKeys } from '../src/auth/keys.ts'
import { sweep, uploadTimeout } from '../src/sweeper.ts'
import { blackPng } from './fixture/images.ts'
import { fileForm, startService } from './fixture/service.ts'

const folder = await mkdtemp(join(tmpdir(), 'taskwright-sweep-'))
const storage = await diskStorage(folder)
const service = await startService(t, { storage })
const { db, secrets } = service.deps
const round = { db, storage, secondFactorKeys: deriveKeys(secrets, 'second-factor'), auditDays: 365 }
const { token } = await service.register('ada')
t.teardown(() => rm(folder, { recursive: true, force: true }))

const stored = async (): Promise<string[]> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => entry.name)
}

const age = async (path: string): Promise<void> => {
  const longAgo = new Date(Date.now() - 3 * uploadTimeout)
  await utimes(path, longAgo, longAgo)
}

const pathOf = (key: string): string => join(folder, key.slice(-2), key)

t.test('what a crash left behind is removed, and nothing else', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'with a file' } })
  const upload = { token, params: { task_id: task.id }, body: fileForm(blackPng({ width: 8, height: 8 })) }
  const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
  const params = { attach_id: attachment.id }
  const { body: thumbnail } = await service.expect('getThumbnail', 200, { token, params })
  const kept = await stored()
  const orphan = await storage.put(Readable.from([Buffer.from('orphan')]), { maxBytes: 10 })
  const young = await storage.put(Readable.from([Buffer.from('young')]), { maxBytes: 10 })
  const abandoned = join(folder, 'incoming', 'abandoned')
  await writeFile(abandoned, 'half a file')
  for (const path of [...[orphan.key, ...kept].map(pathOf), abandoned]) await age(path)

  await sweep(round)

  t.same((await stored()).toSorted(), [...kept, young.key].toSorted())
  await service.expect('downloadAttachment', 200, { token, params })
  const again = await service.expect('getThumbnail', 200, { token, params })
  t.same(again.body, thumbnail)
})

t.test('a file whose removal failed is removed by the next round', async (t) => {
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'to be deleted' } })
  const before = await stored()
  await service.expect('addTaskAttachment', 201, {
    token,
    params: { task_id: task.id },
    body: fileForm('bytes'),
  })
  // What a crash between the commit and the removal of the file leaves behind.
  await db.run('delete from tasks where id = $1', [task.id])
  t.equal((await stored()).length, before.length + 1)
  await sweep(round)
  t.same((await stored()).toSorted(), before.toSorted())
})

t.test('a key can be used again after 24 hours', async (t) => {
  const request = { token, headers: { 'idempotency-key': 'daily' }, body: { title: 'daily' } }
  const first = await service.expect('createTask', 201, request)
  await db.run(`update idempotency_keys set created_at = now() - interval '23 hours 59 minutes'`, [])
  const replayed = await service.expect('createTask', 201, request)
  t.equal(replayed.body.id, first.body.id, 'just before they are over it is replayed')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  const second = await service.expect('createTask', 201, request)
  t.not(second.body.id, first.body.id, 'after them it creates')
  await db.run(`update idempotency_keys set created_at = now() - interval '24 hours 1 second'`, [])
  await sweep(round)
  t.same(await db.run('select from idempotency_keys', []), [], 'the sweeper forgets it')
})

t.test('sessions end when they are over', async (t) => {
  const eve = await service.register('eve')
  const refresh = { body: { refresh_token: eve.refreshToken } }
  await db.run(`update refresh_tokens set expires_at = now() - interval '1 second'`, [])
  await service.expect('refreshToken', 401, refresh)
  const mallory = await service.register('mallory')
  await db.run(`update sessions set expires_at = now() - interval '1 second' where user_id = $1`, [
    mallory.id,
  ])
  await service.expect('refreshToken', 401, { body: { refresh_token: mallory.refreshToken } })
  const left = 'select from sessions where user_id = $1'
  await sweep(round)
  t.same(await db.run(left, [eve.id]), [], 'showing a token that was idle for too long ends its session')
  t.same(await db.run(left, [mallory.id]), [])
})
