import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { OperationId } from '../../src/contract/contract.ts'
import { type Account, type BodyAt, type Call, createClient, fileForm } from '../../test/fixture/service.ts'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../../test/fixture/uploads.ts'

/**
 * People who use the service at a bounded rate. Each does one thing at a time and remembers what was acknowledged, so
 * that every answer is known in advance.
 */

/** What was asked for, and what came of it. */
export interface Tally {
  readonly requests: number
  /** How often each operation was answered with each status. */
  readonly statuses: ReadonlyMap<string, number>
  /** What should not have happened, in words. */
  readonly faults: readonly string[]
}

interface Load {
  readonly tally: () => Tally
  /** Lets everybody finish what they are doing. */
  readonly stop: () => Promise<void>
  /** Holds what is there against what was acknowledged, and resolves to how many things it looked at. */
  readonly verify: () => Promise<number>
}

interface LoadOptions {
  readonly people: number
  /** Things done in a second by all of them together; most are one request or two. */
  readonly rate: number
}

interface Person {
  readonly account: Account
  token: string
  refreshToken: string
  /** Where the files are. */
  readonly folder: string
  /** The titles of tasks. */
  readonly tasks: Map<string, string>
  readonly tags: string[]
  /** The digests of attachments. */
  readonly files: Map<string, string>
}

const mebibyte = 1_048_576
const largeSize = 5 * mebibyte

/** So many a person keeps of each; what is more is removed, the oldest first. */
const most = { tasks: 150, files: 30 }

export const startLoad = async (url: string, { people, rate }: LoadOptions): Promise<Load> => {
  const { call, register } = createClient(url, () => undefined)
  const statuses = new Map<string, number>()
  const faults: string[] = []
  let requests = 0

  /** Asks, and requires a status. */
  const ask = async <Id extends OperationId, Status extends number>(
    operation: Id,
    status: Status,
    asked: Call,
  ): Promise<{ readonly headers: Headers; readonly body: BodyAt<Id, Status> }> => {
    const reply = await call(operation, asked)
    const seen = `${operation} ${reply.status}`
    requests += 1
    statuses.set(seen, (statuses.get(seen) ?? 0) + 1)
    if (reply.status !== status)
      throw new Error(`${operation} answered ${reply.status}, not ${status}: ${JSON.stringify(reply.body)}`)
    return reply as never
  }

  const createTask = async (person: Person): Promise<void> => {
    const { token, tasks } = person
    const body = { title: `Task ${randomUUID()}`, priority: 'high', due_at: '2027-05-14T16:00:00.000Z' }
    const asked = { token, body, headers: { 'idempotency-key': randomUUID() } }
    const created = await ask('createTask', 201, asked)
    if (chance(4)) {
      const again = await ask('createTask', 201, asked)
      if (again.body.id !== created.body.id) throw new Error('One Idempotency-Key made two tasks')
    }
    tasks.set(created.body.id, body.title)
    if (tasks.size > most.tasks) await trashTask(person, oldest(tasks))
  }

  const readTask = async ({ token, tasks }: Person): Promise<void> => {
    const task_id = oneOf([...tasks.keys()])
    const { body, headers } = await ask('getTask', 200, { token, params: { task_id } })
    if (body.title !== tasks.get(task_id)) throw new Error(`Task ${task_id} has another title`)
    const known = { 'if-none-match': headers.get('etag') ?? '' }
    if (chance(3)) await ask('getTask', 304, { token, params: { task_id }, headers: known })
  }

  const listTasks = async ({ token }: Person): Promise<void> => {
    const query = randomQuery()
    const { body } = await ask('listTasks', 200, { token, query })
    const cursor = body.next_cursor
    if (cursor !== null) await ask('listTasks', 200, { token, query: { ...query, cursor } })
  }

  const listOthers = async ({ token, folder }: Person): Promise<void> => {
    await ask('listTags', 200, { token, query: { limit: 20 } })
    await ask('listTaskAttachments', 200, { token, params: { task_id: folder } })
    await ask('listTaskChanges', 200, { token, query: { limit: 20 } })
    await ask('listTrash', 200, { token, query: { limit: 20 } })
  }

  const changeTask = async ({ token, tasks }: Person): Promise<void> => {
    const params = { task_id: oneOf([...tasks.keys()]) }
    const { headers } = await ask('getTask', 200, { token, params })
    const ifMatch = { 'if-match': headers.get('etag') ?? '' }
    const body = { title: `Changed ${randomUUID()}`, status: oneOf(['todo', 'in_progress', 'done']) }
    await ask('updateTask', 200, { token, params, headers: ifMatch, body })
    tasks.set(params.task_id, body.title)
    if (chance(4))
      await ask('updateTask', 412, { token, params, headers: ifMatch, body: { title: 'Too late' } })
  }

  const tagTask = async ({ token, tasks, tags }: Person): Promise<void> => {
    const params = { task_id: oneOf([...tasks.keys()]), tag_id: oneOf(tags) }
    await ask('addTaskTag', 204, { token, params })
    if (chance(2)) await ask('removeTaskTag', 204, { token, params })
  }

  const trashTask = async ({ token, tasks }: Person, task_id: string): Promise<void> => {
    const params = { task_id }
    await ask('deleteTask', 204, { token, params })
    if (tasks.size < most.tasks && chance(2)) {
      await ask('restoreTask', 200, { token, params })
      return
    }
    tasks.delete(task_id)
    if (chance(2)) await ask('deleteTrashedTask', 204, { token, params })
  }

  const remember = async (person: Person, id: string, content: Uint8Array): Promise<void> => {
    const { token, files } = person
    files.set(id, digestOf(content))
    await readFile(person, oneOf([...files.keys()]))
    if (files.size <= most.files) return
    const attach_id = oldest(files)
    await ask('deleteAttachment', 204, { token, params: { attach_id } })
    files.delete(attach_id)
  }

  const readFile = async ({ token, files }: Person, attach_id: string): Promise<void> => {
    const { body } = await ask('downloadAttachment', 200, { token, params: { attach_id } })
    if (digestOf(body as unknown as Uint8Array) !== files.get(attach_id))
      throw new Error(`Attachment ${attach_id} has other bytes`)
  }

  const upload = async (person: Person, size: number): Promise<void> => {
    const content = randomBytes(size)
    const { body } = await ask('addTaskAttachment', 201, {
      token: person.token,
      params: { task_id: person.folder },
      headers: { 'idempotency-key': randomUUID() },
      body: fileForm(content, 'bytes', 'application/octet-stream'),
    })
    await remember(person, body.id, content)
  }

  const uploadInPieces = async (person: Person, size: number): Promise<void> => {
    const { token, folder } = person
    const content = randomBytes(size)
    const begun = await ask('createUpload', 201, {
      token,
      params: { task_id: folder },
      headers: tusHeaders(size),
    })
    const params = { upload_id: uploadIdIn(begun.headers) }
    if (chance(8)) {
      await ask('abortUpload', 204, { token, params, headers: { 'tus-resumable': '1.0.0' } })
      return
    }
    let id = ''
    for (let offset = 0; offset < size;) {
      const body = content.subarray(offset, offset + Math.ceil(size / 3))
      const { headers } = await ask('appendUpload', 204, {
        token,
        params,
        headers: pieceHeaders(offset),
        body,
      })
      offset += body.length
      id = headers.get('content-location')?.split('/').at(-1) ?? ''
    }
    await remember(person, id, content)
  }

  /** A second session of a person, and a new pair of tokens for the first. */
  const signIn = async (person: Person): Promise<void> => {
    const { email, password } = person.account
    const { body: session } = await ask('login', 200, { body: { email, password } })
    await ask('getCurrentUser', 200, { token: session.access_token })
    await ask('logout', 204, { token: session.access_token })
    await ask('getCurrentUser', 401, { token: session.access_token })
    const { body } = await ask('refreshToken', 200, { body: { refresh_token: person.refreshToken } })
    person.token = body.access_token
    person.refreshToken = body.refresh_token
  }

  const makeMistakes = async ({ token }: Person): Promise<void> => {
    await ask('getTask', 404, { token, params: { task_id: newTaskId() } })
    await ask('createTask', 400, { token, body: { titel: 'Misspelt' } })
    await ask('listTasks', 401, { token: randomUUID() })
    const email = `nobody-${randomUUID()}@example.com`
    await ask('login', 401, { body: { email, password: 'the password of nobody' } })
  }

  /** A client that goes away in the middle of what it sends, and of what it is sent. */
  const goAway = async ({ token, folder, files }: Person): Promise<void> => {
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
    const gone = new Promise((resolve) => sending.once('close', resolve))
    // That it did not end well is what it says.
    sending.on('error', () => undefined)
    sending.write('--x\r\nContent-Disposition: form-data; name="file"; filename="lost"\r\n\r\n')
    sending.write(randomBytes(mebibyte), () => sending.destroy())
    await gone
    const attachment = `${url}/attachments/${oneOf([...files.keys()])}`
    const response = await fetch(attachment, { headers: { authorization } })
    await response.body?.cancel()
  }

  /** What people do, each as often as its number says. */
  const habits: readonly (readonly [times: number, act: (person: Person) => Promise<void>])[] = [
    [24, readTask],
    [16, listTasks],
    [2, listOthers],
    [14, createTask],
    [14, changeTask],
    [8, tagTask],
    [6, (person) => trashTask(person, oneOf([...person.tasks.keys()]))],
    [6, (person) => upload(person, randomInt(1, 100_000))],
    [1, (person) => upload(person, largeSize)],
    [3, (person) => uploadInPieces(person, randomInt(3, 300_000))],
    [2, signIn],
    [2, makeMistakes],
    [2, goAway],
  ]
  const choices = habits.flatMap(([times, act]) => Array.from({ length: times }, () => act))

  const begin = async (name: string): Promise<Person> => {
    const account = await register(name)
    const { token, refreshToken } = account
    const { body: folder } = await ask('createTask', 201, { token, body: { title: 'With files' } })
    const person = {
      account,
      token,
      refreshToken,
      folder: folder.id,
      tasks: new Map<string, string>(),
      tags: [] as string[],
      files: new Map<string, string>(),
    }
    for (const tag of ['urgent', 'home', 'work']) {
      const { body } = await ask('createTag', 201, { token, body: { name: tag } })
      person.tags.push(body.id)
    }
    // From the start as many as will be kept: what is there grows no more, and so must be told from what leaks.
    for (let left = most.tasks; left > 0; left -= 1) await createTask(person)
    for (let left = most.files; left > 0; left -= 1) await upload(person, left === 1 ? largeSize : 10_000)
    return person
  }

  const stopping = new AbortController()

  /** Notes what goes wrong, and goes on. */
  const attempt = async (act: () => Promise<void>): Promise<void> => {
    try {
      await act()
    } catch (error) {
      faults.push(error instanceof Error ? error.message : String(error))
    }
  }

  const live = async (person: Person): Promise<void> => {
    const interval = (people / rate) * 1_000
    while (!stopping.signal.aborted) {
      const begun = performance.now()
      await attempt(() => oneOf(choices)(person))
      // Whoever was slow does not hurry.
      const rest = interval * (0.5 + Math.random()) - (performance.now() - begun)
      await pause(Math.max(0, rest), undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  const everybody: Person[] = []
  // The first of them is the administrator.
  for (let index = 0; index < people; index += 1) everybody.push(await begin(`person-${index}`))
  const lives = everybody.map(live)

  return {
    tally: () => ({ requests, statuses, faults }),
    async stop() {
      stopping.abort()
      await Promise.all(lives)
    },
    async verify() {
      let seen = 0
      for (const person of everybody) {
        for (const [task_id, title] of person.tasks)
          await attempt(async () => {
            const { body } = await ask('getTask', 200, { token: person.token, params: { task_id } })
            if (body.title !== title) throw new Error(`Task ${task_id} has another title`)
          })
        for (const id of person.files.keys()) await attempt(() => readFile(person, id))
        seen += person.tasks.size + person.files.size
      }
      return seen
    },
  }
}

/** One of many kinds of lists: each combination of filters and orders is a statement of its own. */
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
  if (chosen === undefined) throw new Error('There is nothing to choose from')
  return chosen
}

const oldest = (map: ReadonlyMap<string, unknown>): string => oneOf([...map.keys()].slice(0, 1))

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

/** The id of no task. */
const newTaskId = (): string => randomUUID()
