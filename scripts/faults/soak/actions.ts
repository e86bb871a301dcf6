import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { OperationId } from '../../../src/contract/contract.ts'
import {
  type Account,
  type BodyAt,
  type Call,
  createClient,
  fileForm,
} from '../../../test/fixture/service.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../../../test/fixture/uploads.ts'

/**
 * Users who use the service at a limited rate. Each performs one action at a time and records what was acknowledged, so that every
 * response can be checked.
 */

export interface LoadResult {
  readonly requests: number
  /** Number of responses by operation and status. */
  readonly statuses: ReadonlyMap<string, number>
  /** Descriptions of unexpected results. */
  readonly faults: readonly string[]
}

interface Load {
  readonly result: () => LoadResult
  /** Resolves when all users have finished their current action. */
  readonly stop: () => Promise<void>
  /** Compares tasks and files with what was acknowledged. Resolves to their number. */
  readonly verify: () => Promise<number>
}

interface LoadOptions {
  readonly users: number
  /** Actions per second of all users together. Most are one or two requests. */
  readonly rate: number
}

interface User {
  readonly account: Account
  token: string
  refreshToken: string
  /** The task with the files. */
  readonly folder: string
  /** Titles of tasks by id. */
  readonly tasks: Map<string, string>
  readonly tags: string[]
  /** Digests of attachments by id. */
  readonly files: Map<string, string>
}

const mebibyte = 1_048_576
const largeSize = 5 * mebibyte

/** Maximum number per user. The oldest are deleted first. */
const max = { tasks: 150, files: 30 }

export const startLoad = async (url: string, { users: userCount, rate }: LoadOptions): Promise<Load> => {
  const { call, register } = createClient(url, () => undefined)
  const statuses = new Map<string, number>()
  const faults: string[] = []
  let requests = 0

  /** Calls an operation and expects a status. */
  const expect = async <Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    request: Call,
  ): Promise<{ readonly headers: Headers; readonly body: BodyAt<Id, Status> }> => {
    const reply = await call(operation, request)
    const key = `${operation} ${reply.status}`
    requests += 1
    statuses.set(key, (statuses.get(key) ?? 0) + 1)
    if (reply.status !== status)
      throw new Error(
        `${operation} returned ${reply.status} instead of ${status}: ${JSON.stringify(reply.body)}`,
      )
    return reply as never
  }

  const createTask = async (user: User): Promise<void> => {
    const { token, tasks } = user
    const body = { title: `Task ${randomUUID()}`, priority: 'high', due_at: '2027-05-14T16:00:00.000Z' }
    const request = { token, body, headers: { 'idempotency-key': randomUUID() } }
    const created = await expect('createTask', 201, request)
    if (chance(4)) {
      const again = await expect('createTask', 201, request)
      if (again.body.id !== created.body.id) throw new Error('One Idempotency-Key created two tasks')
    }
    tasks.set(created.body.id, body.title)
    if (tasks.size > max.tasks) await trashTask(user, oldest(tasks))
  }

  const readTask = async ({ token, tasks }: User): Promise<void> => {
    const task_id = oneOf([...tasks.keys()])
    const { body, headers } = await expect('getTask', 200, { token, params: { task_id } })
    if (body.title !== tasks.get(task_id)) throw new Error(`The title of task ${task_id} differs`)
    const known = { 'if-none-match': headers.get('etag') ?? '' }
    if (chance(3)) await expect('getTask', 304, { token, params: { task_id }, headers: known })
  }

  const listTasks = async ({ token }: User): Promise<void> => {
    const query = randomQuery()
    const { body } = await expect('listTasks', 200, { token, query })
    const cursor = body.next_cursor
    if (cursor !== null) await expect('listTasks', 200, { token, query: { ...query, cursor } })
  }

  const listOthers = async ({ token, folder }: User): Promise<void> => {
    await expect('listTags', 200, { token, query: { limit: 20 } })
    await expect('listTaskAttachments', 200, { token, params: { task_id: folder } })
    await expect('listTaskChanges', 200, { token, query: { limit: 20 } })
    await expect('listTrash', 200, { token, query: { limit: 20 } })
  }

  const changeTask = async ({ token, tasks }: User): Promise<void> => {
    const params = { task_id: oneOf([...tasks.keys()]) }
    const { headers } = await expect('getTask', 200, { token, params })
    const ifMatch = { 'if-match': headers.get('etag') ?? '' }
    const body = { title: `Changed ${randomUUID()}`, status: oneOf(['todo', 'in_progress', 'done']) }
    await expect('updateTask', 200, { token, params, headers: ifMatch, body })
    tasks.set(params.task_id, body.title)
    if (chance(4))
      await expect('updateTask', 412, { token, params, headers: ifMatch, body: { title: 'Too late' } })
  }

  const tagTask = async ({ token, tasks, tags }: User): Promise<void> => {
    const params = { task_id: oneOf([...tasks.keys()]), tag_id: oneOf(tags) }
    await expect('addTaskTag', 204, { token, params })
    if (chance(2)) await expect('removeTaskTag', 204, { token, params })
  }

  const trashTask = async ({ token, tasks }: User, task_id: string): Promise<void> => {
    const params = { task_id }
    await expect('deleteTask', 204, { token, params })
    if (tasks.size < max.tasks && chance(2)) {
      await expect('restoreTask', 200, { token, params })
      return
    }
    tasks.delete(task_id)
    if (chance(2)) await expect('deleteTrashedTask', 204, { token, params })
  }

  const recordFile = async (user: User, id: string, content: Uint8Array): Promise<void> => {
    const { token, files } = user
    files.set(id, digestOf(content))
    await readFile(user, oneOf([...files.keys()]))
    if (files.size <= max.files) return
    const attach_id = oldest(files)
    await expect('deleteAttachment', 204, { token, params: { attach_id } })
    files.delete(attach_id)
  }

  const readFile = async ({ token, files }: User, attach_id: string): Promise<void> => {
    const { body } = await expect('downloadAttachment', 200, { token, params: { attach_id } })
    if (digestOf(body as unknown as Uint8Array) !== files.get(attach_id))
      throw new Error(`The content of attachment ${attach_id} differs`)
  }

  const upload = async (user: User, size: number): Promise<void> => {
    const content = randomBytes(size)
    const { body } = await expect('addTaskAttachment', 201, {
      token: user.token,
      params: { task_id: user.folder },
      headers: { 'idempotency-key': randomUUID() },
      body: fileForm(content, 'bytes', 'application/octet-stream'),
    })
    await recordFile(user, body.id, content)
  }

  const uploadInChunks = async (user: User, size: number): Promise<void> => {
    const { token, folder } = user
    const content = randomBytes(size)
    const creation = await expect('createUpload', 201, {
      token,
      params: { task_id: folder },
      headers: tusHeaders(size),
    })
    const params = { upload_id: uploadIdIn(creation.headers) }
    if (chance(8)) {
      await expect('abortUpload', 204, { token, params, headers: { 'tus-resumable': '1.0.0' } })
      return
    }
    let id = ''
    for (let offset = 0; offset < size;) {
      const body = content.subarray(offset, offset + Math.ceil(size / 3))
      const { headers } = await expect('appendUpload', 204, {
        token,
        params,
        headers: pieceHeaders(offset),
        body,
      })
      offset += body.length
      id = headers.get('content-location')?.split('/').at(-1) ?? ''
    }
    await recordFile(user, id, content)
  }

  /** Starts and ends a second session, and refreshes the tokens of the first. */
  const signIn = async (user: User): Promise<void> => {
    const { email, password } = user.account
    const { body: session } = await expect('login', 200, { body: { email, password } })
    await expect('getCurrentUser', 200, { token: session.access_token })
    await expect('logout', 204, { token: session.access_token })
    await expect('getCurrentUser', 401, { token: session.access_token })
    const { body } = await expect('refreshToken', 200, { body: { refresh_token: user.refreshToken } })
    user.token = body.access_token
    user.refreshToken = body.refresh_token
  }

  const sendInvalidRequests = async ({ token }: User): Promise<void> => {
    await expect('getTask', 404, { token, params: { task_id: missingTaskId() } })
    await expect('createTask', 400, { token, body: { titel: 'Misspelt' } })
    await expect('listTasks', 401, { token: randomUUID() })
    const email = `nobody-${randomUUID()}@example.com`
    await expect('login', 401, { body: { email, password: 'the password of nobody' } })
  }

  /** Closes the connection during an upload and during a download. */
  const disconnect = async ({ token, folder, files }: User): Promise<void> => {
    const authorization = `Bearer ${token}`
    const sending = request(`${url}/tasks/${folder}/attachments`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization,
        'content-type': 'multipart/form-data; boundary=x',
        'content-length': largeSize,
        expect: '100-continue',
      },
    })
    sending.flushHeaders()
    await once(sending, 'continue')
    const closed = new Promise((resolve) => sending.once('close', resolve))
    // The error is expected, because the request is destroyed.
    sending.on('error', () => undefined)
    sending.write('--x\r\nContent-Disposition: form-data; name="file"; filename="lost"\r\n\r\n')
    sending.write(randomBytes(mebibyte), () => sending.destroy())
    await closed
    const attachment = `${url}/attachments/${oneOf([...files.keys()])}`
    const response = await fetch(attachment, { headers: { authorization } })
    await response.body?.cancel()
  }

  /** The actions of users, with their weights. */
  const actions: readonly (readonly [weight: number, act: (user: User) => Promise<void>])[] = [
    [24, readTask],
    [16, listTasks],
    [2, listOthers],
    [14, createTask],
    [14, changeTask],
    [8, tagTask],
    [6, (user) => trashTask(user, oneOf([...user.tasks.keys()]))],
    [6, (user) => upload(user, randomInt(1, 100_000))],
    [1, (user) => upload(user, largeSize)],
    [3, (user) => uploadInChunks(user, randomInt(3, 300_000))],
    [2, signIn],
    [2, sendInvalidRequests],
    [2, disconnect],
  ]
  const choices = actions.flatMap(([weight, act]) => Array.from({ length: weight }, () => act))

  const createUser = async (name: string): Promise<User> => {
    const account = await register(name)
    const { token, refreshToken } = account
    const { body: folder } = await expect('createTask', 201, { token, body: { title: 'With files' } })
    const user = {
      account,
      token,
      refreshToken,
      folder: folder.id,
      tasks: new Map<string, string>(),
      tags: [] as string[],
      files: new Map<string, string>(),
    }
    for (const tag of ['urgent', 'home', 'work']) {
      const { body } = await expect('createTag', 201, { token, body: { name: tag } })
      user.tags.push(body.id)
    }
    // Starts with the maximum, so that growing data is not mistaken for a leak.
    for (let left = max.tasks; left > 0; left -= 1) await createTask(user)
    for (let left = max.files; left > 0; left -= 1) await upload(user, left === 1 ? largeSize : 10_000)
    return user
  }

  const stopping = new AbortController()

  /** Records an error as a fault. */
  const attempt = async (act: () => Promise<void>): Promise<void> => {
    try {
      await act()
    } catch (error) {
      faults.push(error instanceof Error ? error.message : String(error))
    }
  }

  const actUntilStopped = async (user: User): Promise<void> => {
    const interval = (userCount / rate) * 1_000
    while (!stopping.signal.aborted) {
      const startedAt = performance.now()
      await attempt(() => oneOf(choices)(user))
      // Users do not catch up after a slow action.
      const rest = interval * (0.5 + Math.random()) - (performance.now() - startedAt)
      await pause(Math.max(0, rest), undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  const users: User[] = []
  // The first user is the administrator.
  for (let index = 0; index < userCount; index += 1) users.push(await createUser(`user-${index}`))
  const loops = users.map(actUntilStopped)

  return {
    result: () => ({ requests, statuses, faults }),
    async stop() {
      stopping.abort()
      await Promise.all(loops)
    },
    async verify() {
      let verified = 0
      for (const user of users) {
        for (const [task_id, title] of user.tasks)
          await attempt(async () => {
            const { body } = await expect('getTask', 200, { token: user.token, params: { task_id } })
            if (body.title !== title) throw new Error(`The title of task ${task_id} differs`)
          })
        for (const id of user.files.keys()) await attempt(() => readFile(user, id))
        verified += user.tasks.size + user.files.size
      }
      return verified
    },
  }
}

/** A random combination of filters and a sort order. Each combination is a different statement. */
const randomQuery = (): Record<string, string | number | readonly string[]> => ({
  limit: randomInt(5, 50),
  ...(chance(3) && { status: ['todo', 'in_progress'] }),
  ...(chance(4) && { priority: 'high' }),
  ...(chance(4) && { sort: oneOf(['-priority,due_at', 'title', '-updated_at', 'status,-created_at']) }),
  ...(chance(4) && { q: oneOf(['task', 'changed', '"with files"', 'a', 'ch or ta']) }),
  ...(chance(5) && { due_after: '2027-01-01T00:00:00Z' }),
  ...(chance(6) && { include_total: 'true' }),
  ...(chance(6) && { has_attachments: 'false' }),
  ...(chance(3) && {
    filter: oneOf([
      'status = todo AND due_at < now+7d',
      'priority >= high OR tags:"urgent"',
      'NOT assignee_id:* title:"changed"',
      `attachment_count < ${randomInt(1, 100)} version > 1`,
    ]),
  }),
})

const chance = (oneIn: number): boolean => randomInt(oneIn) === 0

const oneOf = <T>(choices: readonly T[]): T => {
  const chosen = choices[randomInt(choices.length)]
  if (chosen === undefined) throw new Error('There are no choices')
  return chosen
}

const oldest = (map: ReadonlyMap<string, unknown>): string => oneOf([...map.keys()].slice(0, 1))

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

/** The id of a task that does not exist. */
const missingTaskId = (): string => randomUUID()
