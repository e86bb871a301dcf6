import { createHash, randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { environmentFor } from './fixture/database.ts'
import { startProcess } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'
import { filesBelow, keysIn, noS3, openTestClient, testLocation } from './fixture/storage.ts'

/**
 * kill -9 at each step of uploads and of a deletion. Each process starts on what the one before left, and every time no
 * row is without its file, no file without its row, what was answered 201 is there to the byte, and what was answered 204
 * is gone. `npm run test:s3` does it with a bucket.
 */

const program = fileURLToPath(new URL('fixture/dying-service.ts', import.meta.url))
const isOnDisk = noS3 !== false

const small = 1_000
/** More than one part of an upload to S3. */
const large = 6_000_000

/** The steps of uploads, and the sizes of as many uploads as can be held at them. The last step makes the attachment. */
const uploadSteps = isOnDisk
  ? [
      'make the file',
      'write the file',
      'sync the file',
      'rename the file',
      'sync the folder',
      'insert the row',
    ]
  : ['PutObject', 'CreateMultipartUpload', 'UploadPart', 'CompleteMultipartUpload', 'insert the row']
const uploadSizes = isOnDisk ? uploadSteps.map(() => small) : [small, large, large, large, large]

/** The steps of a deletion. The sweeper does all but the first, one deletion at a time: a process dies at one of them. */
const deletionSteps = [
  ['delete the row', 'claim the file'],
  [isOnDisk ? 'remove the file' : 'DeleteObject'],
  ['empty the outbox'],
]

const prepare = async (t: Test) => {
  const database = await environmentFor(t)
  const { DATA_DIR } = database
  if (isOnDisk) {
    return {
      environment: database,
      countFiles: async () => (await filesBelow(join(DATA_DIR, 'attachments'))).length,
    }
  }
  const location = testLocation()
  const url = new URL(process.env.TEST_STORAGE_URL ?? '')
  url.pathname = location.prefix
  const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = process.env
  const environment = { ...database, STORAGE_URL: url.href, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY }
  const client = openTestClient(t, location)
  return { environment, countFiles: async () => (await keysIn(client, location)).length }
}

/** Starts the service on what an earlier one left; it dies when requests have done all of the steps. */
const startDying = async (
  t: Test,
  environment: Readonly<Record<string, string>>,
  steps: readonly string[],
) => {
  // The lock of a process that is known to be dead; others wait until it has expired.
  await rm(join(environment.DATA_DIR ?? '', 'lock'), { recursive: true, force: true })
  const service = await startProcess(t, { ...environment, DIE_AFTER: steps.join(',') }, { program })
  return { ...service, ...createClient(service.url) }
}

type Running = Awaited<ReturnType<typeof startDying>>

/** Its exit code, which is null after a kill. */
const diedOf = ({ exited }: Running): Promise<number | string | null> =>
  Promise.race([exited, pause(10_000, 'alive', { ref: false })])

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

t.test('rows and files agree whenever the process is killed', async (t) => {
  const { environment, countFiles } = await prepare(t)

  const start = (steps: readonly string[]) => startDying(t, environment, steps)

  /** What was answered: the digests of attachments by their ids. */
  const acknowledged = new Map<string, string>()
  const deleted = new Set<string>()

  const upload = async (service: Running, size: number): Promise<string> => {
    const content = randomBytes(size)
    const { body } = await service.expect('addTaskAttachment', 201, { ...ofTask, body: fileForm(content) })
    acknowledged.set(body.id, digestOf(content))
    return body.id
  }

  const remove = async (service: Running, id: string): Promise<void> => {
    acknowledged.delete(id)
    deleted.add(id)
    await service.expect('deleteAttachment', 204, { token, params: { attach_id: id } })
  }

  /** Holds what is there against what was answered, and what was asked of the process that died. */
  const verify = async (service: Running, count: number): Promise<void> => {
    const { body } = await service.expect('listTaskAttachments', 200, ofTask)
    for (const { id, sha256 } of body.items) {
      const { body } = await service.expect('downloadAttachment', 200, { token, params: { attach_id: id } })
      const digest = digestOf(body as unknown as Uint8Array)
      t.equal(digest, acknowledged.get(id) ?? sha256, 'each row has its file')
    }
    t.equal(await countFiles(), body.items.length, 'each file has its row')
    t.equal(body.items.length, count)
    const ids = body.items.map(({ id }) => id)
    t.same(
      [...acknowledged.keys()].filter((id) => !ids.includes(id)),
      [],
      'what was acknowledged is there',
    )
    t.same(
      ids.filter((id) => deleted.has(id)),
      [],
      'what was deleted is gone',
    )
  }

  const first = await start([])
  const { token } = await first.register('ada')
  const { body: task } = await first.expect('createTask', 201, { token, body: { title: 'With files' } })
  const ofTask = { token, params: { task_id: task.id } }
  const ids = [
    await upload(first, small),
    await upload(first, small),
    await upload(first, small),
    await upload(first, large),
  ]
  await remove(first, ids.pop() ?? '')
  await first.end('SIGKILL')

  let count = ids.length
  for (const steps of deletionSteps) {
    const service = await start([...uploadSteps, ...steps])
    await verify(service, count)
    const uploads = [...uploadSizes, small].map((size) => upload(service, size))
    // Each step holds one of them.
    await Promise.any(uploads)
    const removal = remove(service, ids.pop() ?? '')
    await Promise.allSettled([...uploads, removal])
    t.equal(await diedOf(service), null, `killed after ${steps.join(' and ')}`)
    // One was answered, and the one that was held behind its row may as well have been; one was deleted.
    count += 2 - 1
  }

  const last = await start([])
  await verify(last, count)
  await last.end('SIGKILL')
})

t.test('who never got the answer gets it when they repeat the request', async (t) => {
  const { environment, countFiles } = await prepare(t)
  const first = await startDying(t, environment, [])
  const { token } = await first.register('ada')
  const { body: folder } = await first.expect('createTask', 201, { token, body: { title: 'With files' } })
  await first.end('SIGKILL')

  const newTask = { token, headers: { 'idempotency-key': 'a-task' }, body: { title: 'Once' } }
  const content = randomBytes(small)
  const newFile = { token, params: { task_id: folder.id }, headers: { 'idempotency-key': 'a-file' } }
  const createBoth = ({ expect }: Running) =>
    [
      expect('createTask', 201, newTask),
      expect('addTaskAttachment', 201, { ...newFile, body: fileForm(content) }),
    ] as const

  const dying = await startDying(t, environment, ['insert the task', 'insert the row'])
  const answers = await Promise.allSettled(createBoth(dying))
  t.strictSame(
    answers.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.equal(await diedOf(dying), null, 'killed when both were committed, and before it answered')

  const last = await startDying(t, environment, [])
  const { expect } = last
  const [task, file] = await Promise.all(createBoth(last))
  for (const { headers } of [task, file]) t.equal(headers.get('idempotency-replayed'), 'true')
  const { body: tasks } = await expect('listTasks', 200, { token, query: { q: 'Once' } })
  t.strictSame(tasks.items, [task.body], 'it is there once, as it was')
  const { body: files } = await expect('listTaskAttachments', 200, { token, params: newFile.params })
  t.strictSame(files.items, [file.body])
  t.equal(await countFiles(), 1, 'and the bytes of the repeat are gone')
  await last.end('SIGKILL')
})
