import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once, EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { components } from '../../generated/openapi.ts'
import { withTimeout } from '../../src/concurrency/deadline.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { connectionErrorCode } from '../client/http-client.ts'
import {
  type Account,
  type BodyAt,
  type Call,
  createClient,
  fileForm,
  type Reply,
} from '../../test/fixture/service.ts'

/**
 * Writers and readers that follow docs/guides/concurrency-and-idempotency.md. Each writer has its own account and records what was
 * acknowledged, so that the expected data is known.
 */

type Task = components['schemas']['Task']
type Attachment = components['schemas']['Attachment']

/** The results of a period of load. */
export interface Observation {
  /** Number of responses by operation and status. */
  readonly statuses: Map<string, number>
  /** Number of acknowledged writes of tasks and files. */
  acknowledged: number
  /** Number of retries by cause: the status of a response, or why there was none. */
  readonly retryReasons: Map<string, number>
  /** The longest time without an acknowledged write, in milliseconds. */
  longestGap: number
  /** Descriptions of unexpected results. */
  readonly faults: string[]
}

export interface Load {
  /** Starts a new observation and sends requests. */
  resume(): void
  /** Stops sending requests. Resolves when all users have finished their current action. */
  pause(): Promise<Observation>
  /** Resolves when some writes that were sent after this call are acknowledged. */
  untilWritten(): Promise<void>
  /** Compares the data with what was acknowledged. Resolves to descriptions of differences. */
  verify(): Promise<readonly string[]>
  /** Number of acknowledged tasks. */
  taskCount(): number
  end(): Promise<void>
}

/** A user of one instance, who switches to the next instance after an error. */
interface User {
  token: string
  instance: number
}

export interface Writer extends User {
  readonly account: Account
  refreshToken: string
  /** The task with the files. */
  readonly folder: string
  /** Acknowledged tasks by id. */
  readonly tasks: Map<string, Pick<Task, 'title' | 'description' | 'version'>>
  /** Digests by id. */
  readonly files: Map<string, string>
}

/** What actions are made of. Requests are retried, and a response that is not the expected one is an error. */
export interface Requests {
  readonly expect: <Id extends OperationId, Status extends number>(
    user: Writer,
    operation: Id,
    status: Status,
    call: Call,
  ) => Promise<{ readonly headers: Headers; readonly body: BodyAt<Id, Status> }>
  readonly createTask: (user: Writer) => Promise<void>
  /** Resolves to the id of the task. */
  readonly changeTask: (user: Writer) => Promise<string>
  /** Records the task as acknowledged, after an action that changes its version. */
  readonly recordTask: (user: Writer, id: string) => Promise<void>
  readonly attach: (user: Writer, size: number) => Promise<void>
  /** Expects the content that was sent. */
  readonly readFile: (user: Writer, id: string) => Promise<void>
}

interface Behaviour {
  /** Creates the data that a writer begins with. */
  readonly prepare?: (user: Writer) => Promise<void>
  /** The actions of writers, with their weights. */
  readonly actions: readonly (readonly [weight: number, act: (user: Writer) => Promise<unknown>])[]
}

interface LoadOptions {
  readonly writers?: number
  readonly readers?: number
  /** Milliseconds from one action of a user to the next. Users do not catch up after a slow one. */
  readonly interval?: number
  readonly behave?: (requests: Requests) => Behaviour
}

type Client = ReturnType<typeof createClient>

/** Milliseconds. The service responds within 20 s. */
const responseTimeout = 25_000

/** Milliseconds of retries after which a request counts as a fault. */
const retryDeadline = 90_000

/** Milliseconds until a write is acknowledged after the database has recovered. */
const writeDeadline = 30_000

/** Acknowledged writes after which the service counts as recovered. */
const recoveryWrites = 20

/** Milliseconds between attempts. The delay doubles from `firstDelay` to `maxDelay`. */
const firstDelay = 1_000
const maxDelay = 2_000

const isRetryable = (status: number): boolean => status >= 500 || status === 429 || status === 408

/** Whether the request may have been executed. */
const isOutcomeUnknown = (status: number): boolean => status >= 500 && status !== 503

/** Why there is no response. Only without a connection, the request was certainly not executed. */
type Failure = 'no connection' | 'connection lost' | 'timeout'

class ResponseTimeout extends Error {}

interface Result {
  readonly reply: Reply
  /** Whether an earlier attempt may have been executed. */
  readonly isRepeat: boolean
}

/** Only what can be repeated when its outcome is unknown. */
const writeTasksAndFiles = ({ createTask, changeTask, attach }: Requests): Behaviour => ({
  actions: [
    [10, createTask],
    [9, changeTask],
    [1, (user) => attach(user, randomInt(1, 20_000))],
  ],
})

/** Registers the users. They send no requests before `resume`. */
export const createLoad = async (
  urls: readonly string[],
  {
    writers: writerCount = 4,
    readers: readerCount = 2,
    interval = 100,
    behave = writeTasksAndFiles,
  }: LoadOptions = {},
): Promise<Load> => {
  const clients = urls.map((url) => createClient(url, () => undefined))
  const clientOf = ({ instance }: User): Client => {
    const client = clients[instance % clients.length]
    if (client === undefined) throw new Error('There is no instance')
    return client
  }

  let observation = newObservation()
  let lastWrite = performance.now()
  const written = new EventEmitter<{ written: [sentAt: number] }>()

  const recordGap = (): void => {
    const now = performance.now()
    observation.longestGap = Math.max(observation.longestGap, now - lastWrite)
    lastWrite = now
  }

  const recordWrite = (sentAt: number): void => {
    observation.acknowledged += 1
    recordGap()
    written.emit('written', sentAt)
  }

  const attempt = async (user: User, operation: OperationId, call: Call): Promise<Reply | Failure> => {
    try {
      const response = clientOf(user).call(operation, { token: user.token, ...call })
      const reply = await withTimeout(responseTimeout, response, () => new ResponseTimeout())
      count(observation.statuses, `${operation} ${reply.status}`)
      return reply
    } catch (error) {
      if (error instanceof ResponseTimeout) return 'timeout'
      const code = connectionErrorCode(error)
      if (code === null) throw error
      return code === 'ECONNREFUSED' ? 'no connection' : 'connection lost'
    }
  }

  /** Sends a request, and retries it on the next instance until the response is final. */
  const sendWithRetries = async (user: User, operation: OperationId, call: Call): Promise<Result> => {
    const startedAt = performance.now()
    let isRepeat = false
    for (let delay = firstDelay; ; delay = Math.min(delay * 2, maxDelay)) {
      const reply = await attempt(user, operation, call)
      if (typeof reply === 'string') {
        count(observation.retryReasons, reply)
        if (reply !== 'no connection') isRepeat = true
      } else {
        if (!isRetryable(reply.status)) return { reply, isRepeat }
        count(observation.retryReasons, String(reply.status))
        if (isOutcomeUnknown(reply.status)) isRepeat = true
        if (reply.status === 500) observation.faults.push(unexpected(operation, reply).message)
        if (reply.status === 503 && !reply.headers.has('retry-after'))
          observation.faults.push(`${operation} returned 503 without Retry-After`)
      }
      if (performance.now() - startedAt > retryDeadline)
        throw new Error(`${operation} was retried for ${retryDeadline / 1_000} s without success`)
      user.instance += 1
      await pause(delay * (0.5 + Math.random() / 2))
    }
  }

  /** Sends a request with retries and expects a status. */
  const expect = async <Id extends OperationId, Status extends number>(
    user: User,
    operation: Id,
    status: Status,
    call: Call,
  ): Promise<{ readonly headers: Headers; readonly body: BodyAt<Id, Status> }> => {
    const { reply } = await sendWithRetries(user, operation, call)
    if (reply.status !== status) throw unexpected(operation, reply)
    return reply as never
  }

  const createTask = async (user: Writer): Promise<void> => {
    const sentAt = performance.now()
    const call = {
      headers: { 'idempotency-key': randomUUID() },
      body: { title: `Task ${randomUUID()}`, priority: 'high', due_at: '2027-05-14T16:00:00.000Z' },
    }
    const { body: created } = await expect(user, 'createTask', 201, call)
    user.tasks.set(created.id, created)
    recordWrite(sentAt)
    if (!chance(4)) return
    const { body: again } = await expect(user, 'createTask', 201, call)
    if (again.id !== created.id) throw new Error('One Idempotency-Key created two tasks')
  }

  const readTask = async (user: User, task_id: string, token = user.token): Promise<Task> =>
    (await expect(user, 'getTask', 200, { token, params: { task_id } })).body

  const changeTask = async (user: Writer): Promise<string> => {
    const [id, acknowledged] = oneOf([...user.tasks])
    const sentAt = performance.now()
    const description = randomUUID()
    const { reply, isRepeat } = await sendWithRetries(user, 'updateTask', {
      params: { task_id: id },
      headers: { 'if-match': `"${acknowledged.version}"` },
      body: { description, status: oneOf(['todo', 'in_progress', 'done']) },
    })
    const isDone = reply.status === 200
    if (!isDone && !(reply.status === 412 && isRepeat)) throw unexpected('updateTask', reply)
    const task = isDone ? (reply.body as Task) : await readTask(user, id)
    if (task.description !== description || task.version !== acknowledged.version + 1)
      throw new Error(`Task ${id} differs from the last write of its only writer`)
    user.tasks.set(id, task)
    recordWrite(sentAt)
    return id
  }

  const attach = async (user: Writer, size: number): Promise<void> => {
    const sentAt = performance.now()
    const content = randomBytes(size)
    const { body: attached } = await expect(user, 'addTaskAttachment', 201, {
      params: { task_id: user.folder },
      headers: { 'idempotency-key': randomUUID() },
      body: fileForm(content, 'bytes', 'application/octet-stream'),
    })
    user.files.set(attached.id, digestOf(content))
    recordWrite(sentAt)
  }

  const readFile = async (user: Writer, attach_id: string): Promise<void> => {
    const { body } = await expect(user, 'downloadAttachment', 200, { params: { attach_id } })
    if (digestOf(body as unknown as Uint8Array) !== user.files.get(attach_id))
      throw new Error(`The content of attachment ${attach_id} differs`)
  }

  const { prepare, actions } = behave({
    expect,
    createTask,
    changeTask,
    async recordTask(user, id) {
      user.tasks.set(id, await readTask(user, id))
    },
    attach,
    readFile,
  })
  const choices = actions.flatMap(([weight, act]) => Array.from({ length: weight }, () => act))

  /** Reads a task of a writer. It must not be older than the last acknowledged version. */
  const read = async (reader: User): Promise<void> => {
    const writer = oneOf(writers)
    const [id, { version }] = oneOf([...writer.tasks])
    const task = await readTask(reader, id, writer.token)
    if (task.version < version) throw new Error(`A read of task ${id} was older than an acknowledged write`)
  }

  const createWriter = async (name: string, instance: number): Promise<Writer> => {
    const [client] = clients as [Client]
    const account = await client.register(name)
    const { token, refreshToken } = account
    const { body } = await client.expect('createTask', 201, { token, body: { title: `Files of ${name}` } })
    const known = { folder: body.id, tasks: new Map(), files: new Map() }
    const user = { account, token, refreshToken, instance, ...known }
    await createTask(user)
    await prepare?.(user)
    return user
  }

  const writers: Writer[] = []
  for (let index = 0; index < writerCount; index += 1)
    writers.push(await createWriter(`writer${index}`, index))
  const readers = writers.slice(0, readerCount).map(({ token, instance }) => ({ token, instance }))

  let stopping = new AbortController()
  let loops: Promise<void>[] = []
  const actUntilStopped = async (act: () => Promise<unknown>): Promise<void> => {
    while (!stopping.signal.aborted) {
      const startedAt = performance.now()
      try {
        await act()
      } catch (error) {
        observation.faults.push(error instanceof Error ? error.message : String(error))
      }
      const rest = interval * (0.5 + Math.random()) - (performance.now() - startedAt)
      await pause(Math.max(0, rest), undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  const listAll = async <T>(user: User, operation: OperationId, call: Call): Promise<T[]> => {
    const items: T[] = []
    let cursor: string | null = null
    do {
      const query: Call['query'] = { limit: 200, ...(cursor !== null && { cursor }) }
      const { body } = await expect(user, operation, 200, { ...call, query })
      const page = body as { readonly items: readonly T[]; readonly next_cursor: string | null }
      items.push(...page.items)
      cursor = page.next_cursor
    } while (cursor !== null)
    return items
  }

  const verifyTasks = async (user: Writer): Promise<string[]> => {
    const found = (await listAll<Task>(user, 'listTasks', {})).filter(({ id }) => id !== user.folder)
    const byId = new Map(found.map((task) => [task.id, task]))
    return [
      ...[...user.tasks.keys()].filter((id) => !byId.has(id)).map((id) => `lost: task ${id}`),
      ...found.flatMap(({ id, title, description, version }) => {
        const acknowledged = user.tasks.get(id)
        if (acknowledged === undefined) return [`duplicated or not acknowledged: task ${id}`]
        const isSame =
          acknowledged.version === version &&
          acknowledged.description === description &&
          acknowledged.title === title
        return isSame
          ? []
          : [`differs: task ${id} has version ${version}; version ${acknowledged.version} was acknowledged`]
      }),
    ]
  }

  const verifyFiles = async (user: Writer): Promise<string[]> => {
    const params = { task_id: user.folder }
    const found = await listAll<Attachment>(user, 'listTaskAttachments', { params })
    const ids = new Set(found.map(({ id }) => id))
    const differences = [
      ...[...user.files.keys()].filter((id) => !ids.has(id)).map((id) => `lost: attachment ${id}`),
      ...[...ids]
        .filter((id) => !user.files.has(id))
        .map((id) => `duplicated or not acknowledged: attachment ${id}`),
    ]
    for (const id of user.files.keys())
      if (ids.has(id)) await readFile(user, id).catch((error: Error) => differences.push(error.message))
    return differences
  }

  const stop = async (): Promise<void> => {
    stopping.abort()
    await Promise.all(loops)
  }

  return {
    resume() {
      observation = newObservation()
      lastWrite = performance.now()
      stopping = new AbortController()
      loops = [
        ...writers.map((writer) => actUntilStopped(() => oneOf(choices)(writer))),
        ...readers.map((reader) => actUntilStopped(() => read(reader))),
      ]
    },
    async pause() {
      await stop()
      return observation
    },
    async untilWritten() {
      const from = performance.now()
      for (let left = recoveryWrites; left > 0;) {
        const signal = AbortSignal.timeout(writeDeadline)
        const [sentAt] = (await once(written, 'written', { signal })) as [number]
        if (sentAt >= from) left -= 1
      }
    },
    async verify() {
      const differences: string[] = []
      for (const writer of writers)
        differences.push(...(await verifyTasks(writer)), ...(await verifyFiles(writer)))
      return differences
    },
    taskCount: () => writers.reduce((sum, { tasks }) => sum + tasks.size + 1, 0),
    end: stop,
  }
}

const newObservation = (): Observation => ({
  statuses: new Map(),
  acknowledged: 0,
  retryReasons: new Map(),
  longestGap: 0,
  faults: [],
})

const count = (counts: Map<string, number>, name: string): void =>
  void counts.set(name, (counts.get(name) ?? 0) + 1)

export const totalOf = (counts: ReadonlyMap<string, number>): number =>
  counts.values().reduce((a, b) => a + b, 0)

const unexpected = (operation: OperationId, { status, body }: Reply): Error =>
  new Error(`${operation} returned ${status}: ${JSON.stringify(body)}`)

export const chance = (oneIn: number): boolean => randomInt(oneIn) === 0

export const oneOf = <T>(choices: readonly T[]): T => {
  const chosen = choices[randomInt(choices.length)]
  if (chosen === undefined) throw new Error('There are no choices')
  return chosen
}

export const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')
