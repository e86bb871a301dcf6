import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, open, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createPostgres, startPostgres } from '../../scripts/run/postgres.ts'
import { copyTemplate } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { blackPng } from '../fixture/images.ts'
import { runProcess, startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient, fileForm } from '../fixture/service.ts'
import { filesBelow } from '../fixture/storage.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../fixture/uploads.ts'

/** The service on a full disk: a small tmpfs. */

const mebibyte = 1_048_576

/** Runs a command as root, in CI by sudo. */
const asRoot = (...command: readonly string[]): void => {
  const [name = '', ...rest] = process.getuid?.() === 0 ? command : ['sudo', '-n', ...command]
  execFileSync(name, rest, { stdio: 'pipe' })
}

interface Disk {
  readonly folder: string
  /** Leaves `left` bytes free. */
  fill(left: number): Promise<void>
  free(): Promise<void>
}

const mountDisk = async (t: Test, mebibytes: number): Promise<Disk> => {
  const folder = await temporaryFolder(t)
  asRoot('mount', '-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=0777`, 'tmpfs', folder)
  t.teardown(async () => asRoot('umount', folder))
  const filler = join(folder, 'filler')
  return {
    folder,
    async fill(left) {
      const { bavail, bsize } = await statfs(folder)
      const bytes = Buffer.alloc(Math.max(0, bavail * bsize - left))
      // If the service writes at the same time, the disk is full as well.
      await writeFile(filler, bytes, { flag: 'a' }).catch((error: unknown) => {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
      })
    },
    free: () => rm(filler, { force: true }),
  }
}

const canMount = ((): boolean => {
  try {
    asRoot('true')
    return process.platform === 'linux'
  } catch {
    return false
  }
})()

// CI never skips it.
const skip = !canMount && process.env.CI === undefined && 'only root can mount a disk'

t.test('full disk with attachments and log', { skip }, async (t) => {
  const DATABASE_URL = await startPostgres(t)
  const disk = await mountDisk(t, 16)
  const DATA_DIR = join(disk.folder, 'data')
  const files = join(DATA_DIR, 'attachments')
  const service = await startProcess(t, { DATA_DIR, DATABASE_URL })
  const { expect, call, register } = createClient(service.url)
  const { token } = await register('ada')
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With files' } })
  const params = { task_id: task.id }
  const image = fileForm(blackPng({ width: 800, height: 600 }), 'black.png', 'image/png')
  const { body: picture } = await expect('addTaskAttachment', 201, { token, params, body: image })
  const creation = { token, params, headers: tusHeaders(2 * mebibyte) }
  const upload_id = uploadIdIn((await expect('createUpload', 201, creation)).headers)
  const before = await filesBelow(files)
  const large = Buffer.alloc(2 * mebibyte, 'x')
  const chunk = { token, params: { upload_id }, body: large, headers: pieceHeaders(0) }

  await disk.fill(mebibyte)
  const whole = await expect('addTaskAttachment', 507, { token, params, body: fileForm(large) })
  t.equal(whole.body.code, 'insufficient_storage')
  t.strictSame(await filesBelow(files), before, 'no partial file remains')
  await expect('appendUpload', 507, chunk)
  await disk.fill(0)
  const thumbnail = { token, params: { attach_id: picture.id }, query: { width: 64 } }
  await expect('getThumbnail', 507, thumbnail)
  await expect('getLiveness', 200)
  await eventually('readiness lists what is degraded', async () => {
    const { body } = await expect('getReadiness', 200)
    return body.degraded.join() === 'attachments'
  })
  await expect('downloadAttachment', 200, { token, params: { attach_id: picture.id } })
  await expect('createTask', 201, { token, body: { title: 'Needs no file' } })

  await disk.free()
  await eventually('readiness lists nothing as degraded', async () => {
    const { body } = await expect('getReadiness', 200)
    return body.degraded.join() === ''
  })
  await expect('addTaskAttachment', 201, { token, params, body: fileForm(large) })
  await expect('getThumbnail', 200, thumbnail)
  const { headers } = await expect('getUploadOffset', 200, {
    token,
    params: { upload_id },
    headers: { 'tus-resumable': '1.0.0' },
  })
  const offset = Number(headers.get('upload-offset'))
  const rest = { ...chunk, body: large.subarray(offset), headers: pieceHeaders(offset) }
  t.equal((await call('appendUpload', rest)).status, 204, `the upload continues from ${offset}`)
  t.equal((await expect('getTask', 200, { token, params })).body.attachment_count, 3)
  t.equal(await service.end('SIGTERM'), 0)

  await t.test('a full disk for the log prevents neither serving nor stopping', async (t) =>
    logOnFullDisk(t, disk, { DATABASE_URL, DATA_DIR }),
  )
})

const server = fileURLToPath(new URL('../../src/main.js', import.meta.url))

const logOnFullDisk = async (t: Test, disk: Disk, environment: NodeJS.ProcessEnv): Promise<void> => {
  const path = join(disk.folder, 'log')
  const log = await open(path, 'a')
  const child = spawn(process.execPath, [server], {
    env: { PATH: process.env.PATH, PORT: '0', RATE_LIMIT: 'off', ...environment },
    stdio: ['ignore', log.fd, log.fd],
  })
  t.teardown(() => log.close())
  t.teardown(async () => child.kill('SIGKILL'))
  const listening = async (): Promise<string | undefined> =>
    /ready and listening; .* (?<url>http\S+)\/docs/.exec(await readFile(path, 'utf8'))?.groups?.url
  while ((await listening()) === undefined)
    await once(child, 'spawn', { signal: AbortSignal.timeout(100) }).catch(() => undefined)
  const { expect } = createClient((await listening()) ?? '')
  await disk.fill(0)
  for (let n = 0; n < 100; n += 1) await expect('getLiveness', 200)
  await disk.free()
  const last = await expect('getLiveness', 200)
  const id = last.headers.get('x-request-id') ?? 'none'
  await eventually('the log is written again', async () => (await readFile(path, 'utf8')).includes(id))
  await disk.fill(0)
  await expect('getLiveness', 200)
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null], 'unwritable log lines do not prevent the stop')
  await disk.free()
}

/** Does not fit on existing pages, however it is compressed. */
const longText = (): string => Buffer.from(crypto.getRandomValues(new Uint8Array(45_000))).toString('base64')

t.test('full disk with PostgreSQL of the service', { skip }, async (t) => {
  const disk = await mountDisk(t, 700)
  const DATA_DIR = join(disk.folder, 'data')
  await mkdir(DATA_DIR)
  await copyTemplate(DATA_DIR)
  let service = await startProcess(t, { DATA_DIR })
  const { token } = await createClient(service.url).register('ada')
  const acknowledged: string[] = []

  /** Writes until a status other than 201. Resolves to it, or to undefined without a response. */
  const write = async (): Promise<number | undefined> => {
    const { call } = createClient(service.url)
    for (;;) {
      const description = longText()
      const headers: Record<string, string> =
        acknowledged.length % 2 === 0 ? {} : { 'idempotency-key': crypto.randomUUID() }
      const reply = await call('createTask', {
        token,
        headers,
        body: { title: 'Before the end', description },
      }).catch(() => null)
      if (reply?.status !== 201) return reply?.status
      acknowledged.push((reply.body as { id: string }).id)
    }
  }

  await t.test('503 without space for rows; writes succeed after space is freed', async (t) => {
    const { call, expect } = createClient(service.url)
    const isDegraded = async (): Promise<boolean> =>
      (await expect('getReadiness', 200)).body.degraded.includes('database')
    // More than PostgreSQL needs at the moment, and less than it may need until the next checkpoint.
    await disk.fill(200 * mebibyte)
    t.equal(await write(), 503)
    await eventually('readiness lists the database while writes are refused', isDegraded)
    await disk.fill(0)
    t.equal(await write(), 503)
    await expect('getLiveness', 200)
    await eventually('readiness lists what is degraded', isDegraded)
    await expect('listTasks', 200, { token })
    const repeated = {
      token,
      headers: { 'idempotency-key': 'with-a-full-disk' },
      body: { title: 'There is room', description: longText() },
    }
    const { status, body } = await call('createTask', repeated)
    t.match([status, body], [503, { code: 'service_unavailable' }], 'with an Idempotency-Key, too')
    await disk.free()
    await eventually('there is room', async () => (await call('createTask', repeated)).status === 201)
    await eventually('readiness lists nothing as degraded', async () => {
      const { body } = await expect('getReadiness', 200)
      return body.degraded.join() === ''
    })
  })

  await t.test('writes end before PostgreSQL does, and no acknowledged one is lost', async (t) => {
    // More than the service leaves for the write-ahead log.
    await disk.fill(330 * mebibyte)
    t.equal(await write(), 503)
    t.ok(acknowledged.length > 20)
    await createClient(service.url).expect('listTasks', 200, { token })
    t.notMatch(service.output(), /PANIC|PostgreSQL has ended/)
    await service.end('SIGKILL')

    await disk.free()
    service = await startProcess(t, { DATA_DIR })
    const { expect } = createClient(service.url)
    for (const task_id of acknowledged) await expect('getTask', 200, { token, params: { task_id } })
    await expect('createTask', 201, { token, body: { title: 'Afterwards' } })
    t.equal(await service.end('SIGTERM'), 0)
  })
})

t.test('a start on a full disk fails with one line', { skip }, async (t) => {
  const disk = await mountDisk(t, 500)
  const DATA_DIR = join(disk.folder, 'data')
  const refused =
    /DATA_DIR \S+ is full: the database needs more than the \d+ MiB that are free\. Free up space/
  const expectRefused = async (t: Test): Promise<void> => {
    const { code, output } = await runProcess({ DATA_DIR })
    t.equal(code, 1)
    const lines = output.split('\n').filter((line) => !/^taskwright: (starting )?PostgreSQL/.test(line))
    t.match(lines, [/^taskwright: version/, refused])
    const doctor = fileURLToPath(new URL('../../scripts/operate/doctor.ts', import.meta.url))
    const diagnosis = await runProcess({ DATA_DIR }, doctor)
    t.equal(diagnosis.code, 1)
    t.match(diagnosis.output, /^FAIL +folder: The disk with DATA_DIR \S+ is full/m)
    t.notMatch(diagnosis.output, /^ +at /m, 'no stack trace')
  }

  await t.test('at the first start', async (t) => {
    await disk.fill(0)
    await expectRefused(t)
    await disk.free()
  })

  await t.test('at a later start', async (t) => {
    const service = await startProcess(t, { DATA_DIR })
    t.equal(await service.end('SIGTERM'), 0)
    await disk.fill(0)
    await expectRefused(t)
    await disk.free()
    t.equal(await (await startProcess(t, { DATA_DIR })).end('SIGTERM'), 0)
  })
})

t.test('uploads leave a reserve for the database', { skip }, async (t) => {
  const disk = await mountDisk(t, 560)
  const reserve = 380 * mebibyte
  const service = await startProcess(t, {
    DATA_DIR: join(disk.folder, 'data'),
    DISK_RESERVE_BYTES: String(reserve),
    ATTACHMENT_MAX_BYTES: String(256 * mebibyte),
  })
  const { call, expect, register } = createClient(service.url)
  const { token } = await register('ada')
  const { body: task } = await expect('createTask', 201, { token, body: { title: 'With files' } })
  const taskRequest = { token, params: { task_id: task.id } }
  const freeBytes = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(disk.folder)
    return bavail * bsize
  }
  const before = await freeBytes()
  t.ok(before > reserve + 4 * mebibyte)

  // More than can arrive between two checks of the free space.
  const large = fileForm(Buffer.alloc(before - reserve + 16 * mebibyte))
  await expect('addTaskAttachment', 507, { ...taskRequest, body: large })
  // Without a Content-Length, the size is unknown in advance.
  const encoded = new Response(large)
  const chunked = await fetch(`${service.url}/tasks/${task.id}/attachments`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': encoded.headers.get('content-type') ?? '',
    },
    body: encoded.body,
    duplex: 'half',
  })
  t.equal(chunked.status, 507)
  for (;;) {
    const { status } = await call('addTaskAttachment', {
      ...taskRequest,
      body: fileForm(Buffer.alloc(4 * mebibyte)),
    })
    if (status === 507) break
    t.equal(status, 201)
  }
  // The database may have started another WAL segment.
  t.ok((await freeBytes()) > reserve - 20 * mebibyte)
  await expect('createTask', 201, { token, body: { title: 'Needs no file' } })
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('full disk of the database server', { skip }, async (t) => {
  // PostgreSQL itself takes about 60 MiB.
  const disk = await mountDisk(t, 160)
  const server = await createPostgres(t, disk.folder)
  await server.start()
  const service = await startProcess(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: server.url })
  const { call, expect, register } = createClient(service.url)
  const { token } = await register('ada')
  const acknowledged: string[] = []

  /** Writes until a status other than 201, and resolves to it. */
  const write = async (): Promise<number> => {
    for (;;) {
      const { status, body } = await call('createTask', {
        token,
        body: { title: 'Before the end', description: longText() },
      })
      if (status !== 201) return status
      acknowledged.push((body as { id: string }).id)
    }
  }
  const count = async (): Promise<number | null> =>
    (await expect('listTasks', 200, { token, query: { limit: 1, include_total: true } })).body.total

  await disk.fill(0)
  t.equal(await write(), 503)
  await expect('getLiveness', 200)
  const found = await count().catch(() => null)
  t.ok(found === null || found === acknowledged.length, 'no write is partial')

  await disk.free()
  const ready = async (): Promise<boolean> =>
    (await call('createTask', { token, body: { title: 'Room' } })).status === 201
  await eventually('writes succeed again', ready)
  for (const task_id of acknowledged) await expect('getTask', 200, { token, params: { task_id } })
  t.equal(await count(), acknowledged.length + 1)
  // Log lines are buffered, and flushed at the stop.
  t.equal(await service.end('SIGTERM'), 0)
  t.match(service.output(), /"reason":.*No space left.*"msg":"The database is unavailable; /)
})
