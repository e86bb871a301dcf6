import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { writeArchive } from '../scripts/operate/archive.ts'
import { addDatabase } from '../scripts/operate/backup-format.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import { createClient as createSqlClient, type ServerConnection } from '../src/db/engine/connection.ts'
import { migrate, readMigrationState, readSchema, type Schema } from '../src/db/engine/migrate.ts'
import { hasFileHold } from '../src/db/files/holds.ts'
import type { MigrationMeta } from '../src/db/schema/drizzle.ts'
import { readTables } from '../src/db/transfer/read.ts'
import { connectionOf } from '../src/postgres/cluster.ts'
import { copyTemplate, createEmptyDatabase } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { backupOf, schemaOf } from './fixture/releases.ts'
import { createClient, fileForm } from './fixture/service.ts'

/** Backup, restore and migration to a server. The data is compared through the API, with the tokens issued before. */

const program = (name: string): string =>
  fileURLToPath(new URL(`../scripts/operate/${name}.ts`, import.meta.url))
const serverUrl = process.env.DATABASE_URL ?? ''

const DATA_DIR = await temporaryFolder(t)
await copyTemplate(DATA_DIR)
const first = await startProcess(t, { DATA_DIR })
const { expect, register } = createClient(first.url)
const ada = await register('ada')
const bob = await register('bob')
const token = ada.token
await expect('updateUser', 200, { token, params: { user_id: ada.id }, body: { time_zone: 'Asia/Tokyo' } })
const { body: tag } = await expect('createTag', 201, {
  token,
  body: { name: 'Keep “this”', color: '#a0b1c2' },
})
for (const title of ['First', 'Second, with \\ and "quotes"', 'Third 🗄'])
  await expect('createTask', 201, {
    token,
    body: {
      title,
      description: title.repeat(500),
      due_on: '2027-05-14',
      assignee_id: bob.id,
      tag_ids: [tag.id],
    },
  })
const { body: tasks } = await expect('listTasks', 200, { token })
for (const { id } of tasks.items)
  await expect('addTaskAttachment', 201, {
    token,
    params: { task_id: id },
    body: fileForm(`${id}\n`.repeat(5_000), `${id}.txt`),
  })

/** All data that the API returns. */
const everything = async (url: string) => {
  const { expect } = createClient(url)
  const list = { token, query: { limit: 200 } }
  const { body: tasks } = await expect('listTasks', 200, list)
  const files = await Promise.all(
    tasks.items.map(async ({ id: task_id }) => {
      const { body } = await expect('listTaskAttachments', 200, { token, params: { task_id } })
      const contents = await Promise.all(
        body.items.map(async ({ id: attach_id }) => {
          const { body } = await expect('downloadAttachment', 200, { token, params: { attach_id } })
          return Buffer.from(body as unknown as Uint8Array).toString()
        }),
      )
      return { attachments: body, contents }
    }),
  )
  const [tags, users, sessions, audit] = [
    await expect('listTags', 200, list),
    await expect('listUsers', 200, list),
    await expect('listSessions', 200, list),
    await expect('listAuditEvents', 200, list),
  ]
  // The last use of a session is recorded by the minute, and these requests use it.
  const known = sessions.body.items.map(({ id, created_at }) => ({ id, created_at }))
  return { tasks, files, tags: tags.body, users: users.body, sessions: known, audit: audit.body }
}

const before = await everything(first.url)
const { body: known } = await expect('listTaskChanges', 200, { token })

/** Old sync cursors are 410, because a client may have read changes that the copy does not have. */
const startsNewHistory = async (url: string): Promise<void> => {
  const { expect } = createClient(url)
  await expect('listTaskChanges', 410, { token, query: { since: known.next_cursor } })
  const { body } = await expect('listTaskChanges', 200, { token })
  await expect('listTaskChanges', 200, { token, query: { since: body.next_cursor } })
}
const backups = await temporaryFolder(t)
const file = join(backups, 'taskwright.tar')

/** The tasks that the service has acknowledged. */
let taskCount = tasks.items.length

t.test('a backup of the running service is consistent, and stops nothing', async (t) => {
  t.equal(before.files.flatMap(({ contents }) => contents).length, 3)
  const acknowledged: { readonly id: string; readonly at: number }[] = []
  const attachments: string[] = []
  const writing = new AbortController()
  const write = async (): Promise<void> => {
    while (!writing.signal.aborted) {
      const { body: task } = await expect('createTask', 201, {
        token: bob.token,
        body: { title: 'While it runs', description: 'x'.repeat(20_000) },
      })
      const params = { task_id: task.id }
      const { body: attachment } = await expect('addTaskAttachment', 201, {
        token: bob.token,
        params,
        body: fileForm(task.id),
      })
      acknowledged.push({ id: task.id, at: performance.now() })
      taskCount += 1
      attachments.push(attachment.id)
      // The service removes the file at once, if it may.
      const [attach_id = ''] = attachments.splice(0, Math.max(0, attachments.length - 10)).slice(0, 1)
      if (attach_id !== '') await expect('deleteAttachment', 204, { token: bob.token, params: { attach_id } })
    }
  }
  const writers = [write(), write()]
  const startedAt = performance.now()
  const [made, second] = await Promise.all([
    runProcess({ DATA_DIR }, program('backup'), [join(backups, 'running.tar')]),
    eventually('there are writes', async () => acknowledged.length > 20).then(() =>
      runProcess({ DATA_DIR }, program('admin'), ['user', 'list']),
    ),
  ])
  const endedAt = performance.now()
  writing.abort()
  await Promise.all(writers)
  t.equal(made.code, 0, made.output)
  t.match(second.output, /^bob\t/m, 'other commands use the database meanwhile')
  t.strictSame(await readdir(backups), ['running.tar'])
  t.equal(await first.end('SIGTERM'), 0)

  const restored = await temporaryFolder(t)
  const result = await runProcess({ DATA_DIR: restored }, program('restore'), [join(backups, 'running.tar')])
  t.equal(result.code, 0, result.output)
  await rm(join(backups, 'running.tar'))
  const checked = await runProcess({ DATA_DIR: restored }, program('storage-check'))
  t.match(checked.output, /attachments without their file: 0/)
  const service = await startProcess(t, { DATA_DIR: restored })
  const { call } = createClient(service.url)
  const restoredIds = new Set<string>()
  for (const { id } of acknowledged) {
    const params = { task_id: id }
    if ((await call('listTaskAttachments', { token: bob.token, params })).status === 200) restoredIds.add(id)
  }
  const between = acknowledged.filter(({ at }) => at > startedAt && at < endedAt)
  t.ok(between.length > 20, `${between.length} writes during the backup`)
  const last = acknowledged.findLastIndex(({ id }) => restoredIds.has(id))
  t.ok(last > 0, `${last} of ${acknowledged.length} writes are in the backup`)
  for (const { id } of acknowledged.slice(0, Math.max(0, last - 2)))
    t.ok(restoredIds.has(id), 'none before is missing')
  t.strictSame((await everything(service.url)).tasks, before.tasks)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('a backup restores everything', async (t) => {
  const made = await runProcess({ DATA_DIR }, program('backup'), [file])
  t.equal(made.code, 0, made.output)
  t.strictSame(await readdir(backups), ['taskwright.tar'])
  t.equal(
    (await runProcess({ DATA_DIR }, program('backup'), [file])).code,
    1,
    'an existing file is not overwritten',
  )
  const full = await runProcess({ DATA_DIR }, program('restore'), [file])
  t.equal(full.code, 1, 'a folder that is not empty is refused')
  t.match(full.output, /not empty/)

  const restored = await temporaryFolder(t)
  const { code, output } = await runProcess({ DATA_DIR: restored }, program('restore'), [file])
  t.equal(code, 0, output)
  t.strictSame(
    (await readdir(restored)).toSorted(),
    ['attachments', 'jwt-secret', 'postgresql'],
    'no other files remain',
  )
  const service = await startProcess(t, { DATA_DIR: restored })
  t.strictSame(await everything(service.url), before)
  await startsNewHistory(service.url)
  t.equal(await service.end('SIGTERM'), 0)
  t.notMatch(service.output(), 'belong', 'the files belong to the restored database')
})

t.test('a damaged backup is rejected, and leaves nothing', async (t) => {
  const good = await readFile(file)
  const refuse = async (name: string) => {
    const folder = await temporaryFolder(t)
    const { code, output } = await runProcess({ DATA_DIR: folder }, program('restore'), [join(backups, name)])
    t.equal(code, 1, output)
    t.match(
      output,
      /^restore: The archive cannot be used: .*\. Nothing was restored\. .*use another backup$/m,
    )
    t.strictSame(await readdir(folder), [])
  }
  // Within an attachment, where PostgreSQL would not notice the damage.
  const flipped = Buffer.from(good)
  const at = good.indexOf(`${tasks.items[0]?.id}\n${tasks.items[0]?.id}\n`)
  t.ok(at > 0)
  flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at)
  await writeFile(join(backups, 'flipped.tar'), flipped)
  await refuse('flipped.tar')
  await writeFile(join(backups, 'short.tar'), good)
  await truncate(join(backups, 'short.tar'), Math.floor(good.length / 1_024) * 512)
  await refuse('short.tar')
})

t.test('mistakes are reported with what to do', async (t) => {
  const run = async (name: string, ...parameters: readonly string[]) => {
    const { code, output } = await runProcess({ DATA_DIR }, program(name), parameters)
    t.equal(code, 1)
    return output
  }
  t.match(await run('backup'), /^backup: Usage: npm run backup -- <file>, such as /)
  t.match(
    await run('backup', join(backups, 'none', 'x.tar')),
    /The folder \S+none does not exist\. Create it/,
  )
  t.match(await run('backup', file), /already exists\. Name another file/)
  t.match(await run('restore', join(backups, 'none.tar')), /There is no file \S+none\.tar\. Usage: /)
  t.match(await run('restore', backups), /There is no file /)
  t.match(await run('restore', file), /not empty: .*Restore to another DATA_DIR/)
})

/** An archive with the tables of a database, as a version with the schema wrote it. */
const archiveOf = async (t: Test, options: ServerConnection, schema: Schema): Promise<string> => {
  const archive = join(backups, `${schema.routines.revision}-${schema.migrations.length}.tar`)
  await writeArchive(t, archive, await temporaryFolder(t), async (entries) => {
    await readTables(options, (tables) => addDatabase(entries, tables, { hasFiles: true, schema }))
  })
  return archive
}

t.test('an archive of an earlier schema is upgraded', async (t) => {
  const released = schemaOf('0.2.0')
  const [first, second] = [await createEmptyDatabase(t, serverUrl), await createEmptyDatabase(t, serverUrl)]
  await migrate(first.options, { schema: released })
  const db = openDatabase(first.options)
  await db.run(
    `insert into users (id, username, email, display_name, role)
    values ('00000000-0000-7000-8000-000000000001', 'ada', 'ada@example.com', 'Ada', 'member')`,
    [],
  )
  await db.close()
  const archive = await archiveOf(t, first.options, released)
  const target = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: second.options.url }
  const restored = await runProcess(target, program('restore'), [archive])
  t.equal(restored.code, 0, restored.output)
  const { pending, unknown } = await readMigrationState(second.options)
  t.strictSame({ pending, unknown }, { pending: 0, unknown: 0 })
  const users = await runProcess(target, program('admin'), ['user', 'list'])
  t.match(users.output, /^ada\t/m)
})

t.test('archives that this version does not know are refused by name', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl)
  await migrate(options)
  const current = readSchema()
  const [last] = current.migrations.slice(-1)
  const newer = {
    ...current,
    migrations: [...current.migrations, { ...(last as MigrationMeta), folderMillis: 9e12 }],
  }
  const sql = `${current.routines.sql}\ndrop table users;`
  const hash = createHash('sha256').update(sql).digest('hex')
  const foreign = {
    ...current,
    migrations: current.migrations.slice(1),
    routines: { revision: 1, sql, hash },
  }
  const refusals = [
    [newer, /written by Taskwright \S+, and this is \S+\. Restore it with that version or a newer one/],
    [foreign, /written by an unreleased state of Taskwright/],
  ] as const
  const target = { DATA_DIR: await temporaryFolder(t) }
  for (const [schema, message] of refusals) {
    const { code, output } = await runProcess(target, program('restore'), [
      await archiveOf(t, options, schema),
    ])
    t.equal(code, 1)
    t.match(output, message)
  }
  const { code, output } = await runProcess(target, program('restore'), [await backupOf(t, '0.2.0')])
  t.equal(code, 1)
  t.match(output, /\.tar was written by Taskwright 0\.1 or 0\.2\. "npm run carry-over"/)
  t.strictSame(await readdir(target.DATA_DIR), [])
})

t.test('a backup of a server restores to another, and to DATA_DIR', async (t) => {
  const server = await createEmptyDatabase(t, serverUrl)
  const source = { DATA_DIR: await temporaryFolder(t), DATABASE_URL: server.options.url }
  const restored = await runProcess(source, program('restore'), [file])
  t.equal(restored.code, 0, restored.output)
  t.strictSame((await readdir(source.DATA_DIR)).toSorted(), ['attachments', 'jwt-secret'])
  const running = await startProcess(t, source)
  t.strictSame(await everything(running.url), before)
  const archive = join(backups, 'server.tar')
  const made = await runProcess(source, program('backup'), [archive])
  t.equal(made.code, 0, made.output)
  t.equal(await running.end('SIGTERM'), 0)
  t.notMatch(running.output(), 'belong')

  const occupied = await runProcess({ ...source, DATA_DIR: await temporaryFolder(t) }, program('restore'), [
    archive,
  ])
  t.equal(occupied.code, 1)
  t.match(occupied.output, /The table \w+ of the new database is not empty/)

  const own = { DATA_DIR: await temporaryFolder(t) }
  const back = await runProcess(own, program('restore'), [archive])
  t.equal(back.code, 0, back.output)
  const service = await startProcess(t, own)
  t.strictSame(await everything(service.url), before)
  t.equal(await service.end('SIGTERM'), 0)
})

/** Starts a command, and kills it as soon as there is a file or folder. */
const killAt = async (
  name: string,
  environment: { readonly DATA_DIR: string },
  argument: string,
  path: string,
) => {
  const child = spawn(process.execPath, [program(name), argument], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: 'ignore',
  })
  const exited = once(child, 'close')
  await eventually(`there is ${path}`, async () => existsSync(path) || child.exitCode !== null)
  child.kill('SIGKILL')
  await exited
  // So that the next process need not wait until it expires.
  await rm(join(environment.DATA_DIR, 'lock'), { recursive: true, force: true })
}

t.test('a restore that was killed starts over, or finishes', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  for (const until of ['restoring', 'restoring/postgresql', 'restoring/attachments']) {
    await killAt('restore', { DATA_DIR }, file, join(DATA_DIR, until))
    t.notOk((await readdir(DATA_DIR)).includes('postgresql'), until)
  }
  const restored = await runProcess({ DATA_DIR }, program('restore'), [file])
  t.equal(restored.code, 0, restored.output)
  // As a kill between the moves of a verified restore leaves it.
  await mkdir(join(DATA_DIR, 'restoring'))
  for (const name of ['attachments', 'postgresql'])
    await rename(join(DATA_DIR, name), join(DATA_DIR, 'restoring', name))
  await writeFile(join(DATA_DIR, 'restoring', 'verified'), 'null')
  const finished = await runProcess({ DATA_DIR }, program('restore'), [file])
  t.equal(finished.code, 0, finished.output)
  t.match(finished.output, /finished the restore that was interrupted/)
  t.strictSame((await readdir(DATA_DIR)).toSorted(), ['attachments', 'jwt-secret', 'postgresql'])
  const service = await startProcess(t, { DATA_DIR })
  t.strictSame(await everything(service.url), before)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('a backup that was killed leaves nothing that counts as one', async (t) => {
  const archive = join(backups, 'killed.tar')
  await killAt('backup', { DATA_DIR }, archive, join(backups, '.killed.tar.unfinished'))
  t.notOk(existsSync(archive))
  const again = await runProcess({ DATA_DIR }, program('backup'), [archive])
  t.equal(again.code, 0, again.output)
  t.notOk(existsSync(join(backups, '.killed.tar.unfinished')))
})

t.test('a backup says how many attachments have no file', async (t) => {
  const folder = join(DATA_DIR, 'attachments')
  const path = (await readdir(folder, { recursive: true })).find((name) => /^..\//.test(name)) ?? ''
  await rename(join(folder, path), join(DATA_DIR, 'kept'))
  t.teardown(() => rename(join(DATA_DIR, 'kept'), join(folder, path)))
  const { code, output } = await runProcess({ DATA_DIR }, program('backup'), [join(backups, 'missing.tar')])
  t.equal(code, 0, output)
  t.match(output, /Attachments whose file is missing, also in the backup: 1\./)
})

t.test('a backup that is interrupted leaves neither a file nor a hold', async (t) => {
  const service = await startProcess(t, { DATA_DIR })
  const connection = await connectionOf(DATA_DIR)
  const db = openDatabase(connection)
  t.teardown(() => db.close())
  const sql = createSqlClient(connection)
  t.teardown(() => sql.end({ timeout: 0 }))
  // That of a backup that was killed.
  await sql`delete from leases where starts_with(name, 'file_hold/')`
  const child = spawn(process.execPath, [program('backup'), join(backups, 'interrupted.tar')], {
    env: { PATH: process.env.PATH, DATA_DIR },
    stdio: 'ignore',
  })
  const exited = once(child, 'close')
  await sql.begin(async (transaction) => {
    await transaction`lock table tags in access exclusive mode`
    await eventually('the backup waits for a table', async () => {
      const copies = `select from pg_stat_activity where wait_event_type = 'Lock' and query like 'copy (%'`
      return (await db.run(copies, [])).length > 0
    })
    t.ok(await hasFileHold(db))
    child.kill('SIGTERM')
    t.strictSame(await exited, [1, null])
  })
  t.strictSame(
    (await readdir(backups)).filter((name) => name.includes('interrupted')),
    [],
  )
  t.notOk(await hasFileHold(db))
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('migrate-to moves everything to a server', async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl)
  const { code, output } = await runProcess({ DATA_DIR }, program('migrate-to'), [options.url])
  t.equal(code, 0, output)
  t.match(output, new RegExp(`^tasks: ${taskCount}$`, 'm'))
  t.match(output, /^users: 2$/m)
  const service = await startProcess(t, { DATA_DIR, DATABASE_URL: options.url })
  t.strictSame(await everything(service.url), before)
  await startsNewHistory(service.url)
  await createClient(service.url).expect('createTask', 201, { token, body: { title: 'On the server' } })
  t.equal(await service.end('SIGTERM'), 0)
  t.notMatch(service.output(), 'belong', 'the files belong to the server database')
  const old = await runProcess({ DATA_DIR }, program('doctor'))
  t.match(
    old.output,
    /FAIL +files: The files belong to another database/,
    'and no longer to the one in DATA_DIR',
  )
  const again = await runProcess({ DATA_DIR }, program('migrate-to'), [options.url])
  t.equal(again.code, 1)
  t.match(again.output, /is not empty/)
})
