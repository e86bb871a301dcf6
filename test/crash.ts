import { createHash, randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { newId } from '../src/db/shared/ids.ts'
import { environmentFor } from './fixture/database.ts'
import { eventually } from './fixture/eventually.ts'
import { type ServiceProcess, startProcess } from './fixture/process.ts'
import { createClient, fileForm } from './fixture/service.ts'
import { keysIn, openTestClient, testLocation } from './fixture/s3.ts'
import { filesBelow, noS3 } from './fixture/storage.ts'

/**
 * Kills with SIGKILL at each step of uploads and of a deletion. Each process starts with the data that the one before left.
 * Each time, every row has its file and every file its row, files acknowledged with 201 are complete, and those deleted
 * with 204 are gone. `npm run test:s3` runs it with a bucket.
 */

const program = fileURLToPath(new URL('fixture/dying-service.ts', import.meta.url))
const isOnDisk = noS3 !== false

const small = 1_000
/** Bytes: more than one part of an S3 upload. */
const large = 6_000_000

/** The steps of uploads, and the sizes of the uploads, one held at each step. The last step inserts the attachment. */
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

/** The steps of a deletion, by process. A background job performs all but the first, one deletion at a time. */
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

/** A service that dies when a request is held at each of its steps, which count after `countSteps`. */
type Mortal = ServiceProcess & ReturnType<typeof createClient>

/** Starts one with the data that an earlier one left. */
const startMortal = async (
  t: Test,
  environment: Readonly<Record<string, string>>,
  steps: readonly string[],
): Promise<Mortal> => {
  // The lock of the killed process, which would otherwise be waited for until it expires.
  await rm(join(environment.DATA_DIR ?? '', 'lock'), { recursive: true, force: true })
  const service = await startProcess(t, { ...environment, DIE_AFTER: steps.join(',') }, { program })
  return { ...service, ...createClient(service.url) }
}

const countSteps = async (service: Mortal): Promise<void> => {
  void service.end('SIGUSR2')
  await eventually('the service counts its steps', async () => /^counting$/m.test(service.output()))
}

/** The exit code: null after a kill. */
const exitCodeOf = ({ exited }: Mortal): Promise<number | string | null> =>
  Promise.race([exited, pause(30_000, 'alive', { ref: false })])

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

const isReplay = ({ headers }: { readonly headers: Headers }): boolean =>
  headers.get('idempotency-replayed') === 'true'

t.test('rows and files are consistent after a kill at any step', async (t) => {
  const { environment, countFiles } = await prepare(t)

  const start = (deletion: readonly string[]) =>
    startMortal(t, environment, [...uploadSteps, ...deletion, 'insert the task'])

  /** Acknowledged attachments: their digests by id. */
  const acknowledged = new Map<string, string>()
  const deleted = new Set<string>()

  const newUpload = (size: number) => ({ key: newId(), content: randomBytes(size) })

  const upload = async ({ expect }: Mortal, { key, content }: ReturnType<typeof newUpload>) => {
    const sent = { headers: { 'idempotency-key': key }, body: fileForm(content) }
    const reply = await expect('addTaskAttachment', 201, { ...taskRequest, ...sent })
    acknowledged.set(reply.body.id, digestOf(content))
    return reply
  }

  const remove = async (service: Mortal, id: string): Promise<void> => {
    acknowledged.delete(id)
    deleted.add(id)
    await service.expect('deleteAttachment', 204, { token, params: { attach_id: id } })
  }

  /** Compares the attachments with what the service has acknowledged, and checks their count. */
  const verify = async (service: Mortal, count: number): Promise<void> => {
    const { body } = await service.expect('listTaskAttachments', 200, taskRequest)
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
      'acknowledged attachments exist',
    )
    t.same(
      ids.filter((id) => deleted.has(id)),
      [],
      'deleted attachments are gone',
    )
  }

  let service = await start(deletionSteps[0] ?? [])
  const { token } = await service.register('ada')
  const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With files' } })
  const taskRequest = { token, params: { task_id: task.id } }
  const ids: string[] = []
  for (const size of [small, small, small, large]) ids.push((await upload(service, newUpload(size))).body.id)
  await remove(service, ids.pop() ?? '')

  let count = ids.length
  let uploads: ReturnType<typeof newUpload>[] = []
  const creations = deletionSteps.map(() => ({
    token,
    headers: { 'idempotency-key': newId() },
    body: { title: 'Once' },
  }))
  for (const [index, steps] of deletionSteps.entries()) {
    await countSteps(service)
    uploads = [...uploadSizes, small].map(newUpload)
    const running = uploads.map((one) => upload(service, one))
    // One succeeds; each step holds one of the others.
    await Promise.any(running)
    const creation = service.expect('createTask', 201, creations[index])
    const removal = remove(service, ids.pop() ?? '')
    const answers = await Promise.allSettled([creation, ...running, removal])
    t.equal(answers[0]?.status, 'rejected', 'the task was committed without a response')
    t.equal(await exitCodeOf(service), null, `killed after ${steps.join(' and ')}`)
    // Added: the acknowledged one and the one held after its row was inserted. Removed: the deleted one.
    count += 2 - 1
    service = await start(deletionSteps[index + 1] ?? [])
    await verify(service, count)
  }

  await t.test('a repeated request gets the response that was lost', async (t) => {
    const { expect } = service
    const { body: before } = await expect('listTaskAttachments', 200, taskRequest)
    const files = await Promise.all(uploads.map((one) => upload(service, one)))
    const replayed = files.filter(isReplay).map(({ body }) => body.id)
    const known = new Set(before.items.map(({ id }) => id))
    t.equal(replayed.length, 2, 'the acknowledged one, and the one held after its row was inserted')
    t.ok(replayed.every((id) => known.has(id)))
    await verify(service, count + files.length - replayed.length)

    const tasks = await Promise.all(creations.map((creation) => expect('createTask', 201, creation)))
    t.ok(tasks.every(isReplay))
    const { body: found } = await expect('listTasks', 200, { token, query: { q: 'Once' } })
    t.strictSame(
      found.items.toReversed(),
      tasks.map(({ body }) => body),
      'each was created once, and is unchanged',
    )
  })
  await service.end('SIGKILL')
})
