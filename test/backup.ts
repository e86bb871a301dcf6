import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { copyTemplate, createEmptyDatabase } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'

/** Backup, restore and migration to a server. The data is compared through the API, with the tokens issued before. */

const program = (name: string): string =>
  fileURLToPath(new URL(`../scripts/operate/${name}.ts`, import.meta.url))
const serverUrl = process.env.DATABASE_URL

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
  const writing = new AbortController()
  const write = async (): Promise<void> => {
    while (!writing.signal.aborted) {
      const { body: task } = await expect('createTask', 201, {
        token: bob.token,
        body: { title: 'While it runs', description: 'x'.repeat(20_000) },
      })
      const params = { task_id: task.id }
      await expect('addTaskAttachment', 201, { token: bob.token, params, body: fileForm(task.id) })
      acknowledged.push({ id: task.id, at: performance.now() })
      taskCount += 1
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
  t.notOk((await readdir(DATA_DIR)).includes('backing-up'))
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

const skip = serverUrl === undefined && 'needs a server'

t.test('migrate-to moves everything to a server', { skip }, async (t) => {
  const { options } = await createEmptyDatabase(t, serverUrl ?? '')
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
    'and no longer to the embedded one',
  )
  const again = await runProcess({ DATA_DIR }, program('migrate-to'), [options.url])
  t.equal(again.code, 1)
  t.match(again.output, /is not empty/)
})
