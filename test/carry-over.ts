import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createEmptyDatabase } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { folderState, runProcess, startProcess, temporaryFolder } from './fixture/process.ts'
import { backupOf, dataOf, recordingOf } from './fixture/releases.ts'
import { createClient } from './fixture/service.ts'
import { startReceiver } from './fixture/webhooks.ts'

/** `npm run carry-over`. test/upgrades.ts compares what the service answers before and after it. */

const program = fileURLToPath(new URL('../scripts/operate/carry-over.ts', import.meta.url))
const retired = 'postgres-before-0.3'
const operate = (name: string): string => program.replace('carry-over', name)
const carryOver = (DATA_DIR: string, ...args: readonly string[]) => runProcess({ DATA_DIR }, program, args)

/** Everybody of the recording can sign in, so the service has the data of the release. */
const checkService = async (t: Test, DATA_DIR: string, version: string): Promise<void> => {
  const service = await startProcess(t, { DATA_DIR, LOG_LEVEL: 'info' })
  t.match(service.output(), /postgres-before-0\.3 is the database of 0\.1 or 0\.2.*loses what was written/)
  const { expect } = createClient(service.url)
  for (const { email, password } of Object.values(recordingOf(version).people))
    await expect('login', 200, { body: { email, password } })
  t.equal(await service.end('SIGTERM'), 0)
  const checked = await runProcess({ DATA_DIR }, operate('storage-check'))
  t.match(checked.output, /attachments without their file: 0/)
  t.notMatch(checked.output, /belong to/, 'the files belong to the new database')
}

/** What a start of the service adds. */
const serviceEntries: ReadonlySet<string> = new Set(['compiled', 'libraries', 'postgresql.lock'])
const namesIn = async (DATA_DIR: string) =>
  (await readdir(DATA_DIR)).filter((name) => !serviceEntries.has(name))

/** The names in DATA_DIR after a carry-over. */
const names = ['attachments', 'jwt-secret', 'postgres', retired, 'postgresql']

t.test('carries a folder over, and leaves it and the files as they are', async (t) => {
  const DATA_DIR = await dataOf(t, '0.2.0')
  const before = await folderState(join(DATA_DIR, 'postgres'))
  const filesState = async () =>
    (await folderState(join(DATA_DIR, 'attachments'))).filter((line) => !line.startsWith('owner.json '))
  const files = await filesState()
  const { code, output } = await carryOver(DATA_DIR)
  t.equal(code, 0, output)
  t.match(output, /postgres has \d+ MiB\. .*\d+ MiB of free disk space .* 1\.3 GiB of memory/)
  const { rows } = recordingOf('0.2.0')
  for (const table of ['users', 'tasks', 'events', 'attachments', 'sessions', 'webhooks'])
    t.match(output, new RegExp(`^${table}: ${rows[table]}$`, 'm'))
  t.match(output, /Going back to it loses what is written from now on/)
  t.strictSame(await namesIn(DATA_DIR), names)
  t.strictSame(await folderState(join(DATA_DIR, retired)), before, 'the earlier database is unchanged')
  t.strictSame(await filesState(), files)
  // A folder with files and no PG_VERSION is what 0.1.0 and 0.2.0 refuse.
  t.strictSame(await readdir(join(DATA_DIR, 'postgres')), ['README'])

  const again = await carryOver(DATA_DIR)
  t.equal(again.code, 1)
  t.match(again.output, /has a database of this version: nothing is left to be carried over/)
  await checkService(t, DATA_DIR, '0.2.0')
})

/** Starts a carry-over, and kills it once it has printed a line. */
const killAt = async (DATA_DIR: string, line: RegExp, ...args: readonly string[]): Promise<void> => {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, DATA_DIR },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'close')
  createInterface({ input: child.stdout }).on('line', (text) => line.test(text) && child.kill('SIGKILL'))
  await exited
  // So that the next process need not wait until it expires.
  await rm(join(DATA_DIR, 'lock'), { recursive: true, force: true })
}

t.test('carries a backup over, also after kills at any moment', async (t) => {
  const file = await backupOf(t, '0.1.0')
  const DATA_DIR = await temporaryFolder(t)
  for (const line of [/^Extracting/, /postgres has/, /^Copying/, /^Upgrading/]) {
    await killAt(DATA_DIR, line, file)
    t.notOk((await readdir(DATA_DIR)).includes('postgresql'))
    if (line.source === '^Extracting') continue
    const { code, output } = await runProcess({ DATA_DIR })
    t.equal(code, 78, output)
  }
  await killAt(DATA_DIR, /^Carried over/, file)
  const { code, output } = await carryOver(DATA_DIR, file)
  t.ok(code === 0 || output.includes('nothing is left'), output)
  t.strictSame(await namesIn(DATA_DIR), names)
  await checkService(t, DATA_DIR, '0.1.0')

  await t.test('between the last two renames', async (t) => {
    const inData = (...path: readonly string[]): string => join(DATA_DIR, ...path)
    const owner = await readFile(inData('attachments', 'owner.json'), 'utf8')
    const finish = async (): Promise<void> => {
      const { code, output } = await carryOver(DATA_DIR)
      t.equal(code, 0, output)
      t.match(output, /^Finishing a carry-over that was interrupted$/m)
      t.strictSame(await namesIn(DATA_DIR), names)
      t.strictSame(await readdir(inData('postgres')), ['README'])
    }
    await mkdir(inData('carrying-over', 'extracted'), { recursive: true })
    await rename(inData('postgres'), inData('carrying-over', 'notice'))
    await finish()

    await mkdir(inData('carrying-over', 'copy'), { recursive: true })
    await rename(inData('postgres'), inData('carrying-over', 'notice'))
    await rename(inData(retired), inData('postgres'))
    await rename(inData('attachments', 'owner.json'), inData('carrying-over', 'owner'))
    const { code, output } = await runProcess({ DATA_DIR })
    t.equal(code, 78, output)
    t.match(output, /has two databases: .* If "npm run carry-over" was interrupted, run it again/)
    await finish()
    t.equal(await readFile(inData('attachments', 'owner.json'), 'utf8'), owner)
  })
})

t.test('refuses what it cannot carry over, and changes nothing', async (t) => {
  const file = await backupOf(t, '0.2.0')
  const refused = async (
    reason: RegExp,
    files: Readonly<Record<string, string>>,
    { args = [], environment = {} }: { args?: readonly string[]; environment?: Record<string, string> } = {},
  ) => {
    const DATA_DIR = await temporaryFolder(t)
    for (const [path, content] of Object.entries(files)) {
      await mkdir(join(DATA_DIR, path, '..'), { recursive: true })
      await writeFile(join(DATA_DIR, path), content)
    }
    const before = await folderState(DATA_DIR)
    const { code, output } = await runProcess({ DATA_DIR, ...environment }, program, args)
    t.equal(code, 1, output)
    t.match(output, reason)
    // The time of DATA_DIR itself is not compared: its lock was there.
    t.strictSame(await folderState(DATA_DIR), before)
  }
  const earlier = { 'postgres/PG_VERSION': '18\n' }
  await refused(/has no database of Taskwright 0\.1 or 0\.2/, {})
  await refused(/does not exist/, {}, { environment: { DATA_DIR: join(await temporaryFolder(t), 'none') } })
  await refused(/postgres-before-0\.3 is left from an earlier/, { ...earlier, [`${retired}/PG_VERSION`]: '' })
  await refused(/DATABASE_URL is set/, earlier, { environment: { DATABASE_URL: 'postgres://localhost/x' } })
  await refused(/is not empty: it contains jwt-secret/, { 'jwt-secret': '' }, { args: [file] })
  await refused(/does not exist/, {}, { args: [`${file}.missing`] })
  await refused(/truncated or damaged/, {}, { args: [program] })
  await refused(/^Usage: npm run carry-over|: Usage: npm run carry-over/m, {}, { args: [file, file] })
  await refused(/earlier version does not start/, earlier)
})

type Installation = Readonly<Record<string, string>>

t.test('a carry-over, restores and a move to a server lose and repeat nothing', async (t) => {
  const { admin, owner } = recordingOf('0.2.0').people
  if (admin === undefined || owner === undefined) throw new Error('nobody was recorded')
  const token = owner.api_token
  let { refresh_token } = owner

  /** The tasks whose creation the receiver has accepted. */
  const accepted: (string | null)[] = []
  let isDown = false
  const receiver = await startReceiver(t, (response, index) => {
    if (!isDown) accepted.push(receiver.received[index]?.message.data.task_id ?? null)
    response.writeHead(isDown ? 503 : 204).end()
  })
  const created: { readonly id: string; readonly etag: string | null }[] = []
  let cursor = ''

  /** Uses an installation, and leaves it with an event that the receiver has not accepted. */
  const use = async (installation: Installation): Promise<void> => {
    const service = await startProcess(t, { ...installation, WEBHOOK_ALLOW: '127.0.0.1' })
    const { expect } = createClient(service.url)
    const create = async (): Promise<void> => {
      const { id: assignee_id } = (await expect('getCurrentUser', 200, { token: admin.api_token })).body
      const body = { title: `Task ${created.length}`, assignee_id }
      const reply = await expect('createTask', 201, { token, body })
      created.push({ id: reply.body.id, etag: reply.headers.get('etag') })
    }
    const allAccepted = () => eventually('all are accepted', async () => accepted.length === created.length)
    const ids = (): readonly string[] => created.map(({ id }) => id)

    const { body: session } = await expect('refreshToken', 200, { body: { refresh_token } })
    refresh_token = session.refresh_token
    const webhook = { url: receiver.url, event_types: ['task.created'] }
    if (cursor === '') await expect('createWebhook', 201, { token, body: webhook })
    else await expect('listTaskChanges', 410, { token, query: { since: cursor } })

    isDown = false
    await allAccepted()
    await create()
    await allAccepted()
    isDown = true
    const before = receiver.received.length
    await create()
    await receiver.expect(before + 1)
    t.strictSame(accepted, ids().slice(0, -1), 'each event once, in order')

    for (const { id, etag } of created) {
      const { headers } = await expect('getTask', 200, { token, params: { task_id: id } })
      t.equal(headers.get('etag'), etag)
    }
    await eventually('the assignee is notified of each task once, in order', async () => {
      const { body } = await expect('listNotifications', 200, {
        token: admin.api_token,
        query: { limit: 200 },
      })
      const notified = body.items
        .map(({ task_id }) => task_id)
        .filter((id) => id !== null && ids().includes(id))
      return JSON.stringify(notified.toReversed()) === JSON.stringify(ids())
    })
    const changed: string[] = []
    for (let more = true, since: string | undefined; more;) {
      const { body } = await expect('listTaskChanges', 200, { token, query: { ...(since && { since }) } })
      changed.push(...body.changed.map(({ id }) => id))
      more = body.has_more
      cursor = since = body.next_cursor
    }
    t.strictSame(changed.filter((id) => ids().includes(id)).toSorted(), ids().toSorted())
    t.equal(await service.end('SIGTERM'), 0)
  }

  const backups = await temporaryFolder(t)
  const command = async (name: string, installation: Installation, argument: string): Promise<void> => {
    const { code, output } = await runProcess(installation, operate(name), [argument])
    t.equal(code, 0, output)
  }
  /** An installation in a new folder, from a backup. */
  const restored = async (installation: Installation): Promise<Installation> => {
    const file = join(backups, `${created.length}.tar`)
    await command('backup', installation, file)
    const other = { DATA_DIR: await temporaryFolder(t) }
    await command('restore', other, file)
    return other
  }

  const carried = { DATA_DIR: await dataOf(t, '0.2.0') }
  const { code, output } = await carryOver(carried.DATA_DIR)
  t.equal(code, 0, output)
  await use(carried)
  const moved = await restored(carried)
  await use(moved)
  const { options } = await createEmptyDatabase(t, process.env.DATABASE_URL ?? '')
  await command('migrate-to', moved, options.url)
  const onServer = { ...moved, DATABASE_URL: options.url }
  await use(onServer)
  await use(await restored(onServer))
})
