import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once, EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { components } from '../../../generated/openapi.ts'
import { withTimeout } from '../../../src/concurrency/deadline.ts'
import type { OperationId } from '../../../src/contract/contract.ts'
import { connectionErrorCode } from '../../../test/fixture/http-client.ts'
import { type Call, createClient, fileForm, type Reply } from '../../../test/fixture/service.ts'

/**
 * Writers and readers that follow docs/guides/concurrency-and-idempotency.md. Each writer has its own account and records what was
 * acknowledged, so that the expected data is acknowledged.
 */

type Task = components['schemas']['Task']
type Attachment = components['schemas']['Attachment']

/** The results of a period of load. */
export interface Observation {
  /** Number of acknowledged writes. */
  acknowledged: number
  retries: number
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

type Client = ReturnType<typeof createClient>

/** A user of one instance, who switches to the next instance after an error. */
interface User {
  readonly token: string
  instance: number
}

interface Writer extends User {
  /** The task with the files. */
  readonly folder: string
  /** Acknowledged tasks by id. */
  readonly tasks: Map<string, Pick<Task, 'title' | 'description' | 'version'>>
  /** Digests by id. */
  readonly files: Map<string, string>
}

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

/** Milliseconds between two actions of a user. */
const rest = 100

const writerCount = 4
const readerCount = 2

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

/** Registers the users. They send no requests before `resume`. */
export const createLoad = async (urls: readonly string[]): Promise<Load> => {
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

  const recordRetry = (reason: string): void => {
    observation.retryReasons.set(reason, (observation.retryReasons.get(reason) ?? 0) + 1)
    observation.retries += 1
  }

  const attempt = async (user: User, operation: OperationId, call: Call): Promise<Reply | Failure> => {
    try {
      const response = clientOf(user).call(operation, { token: user.token, ...call })
      return await withTimeout(responseTimeout, response, () => new ResponseTimeout())
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
        recordRetry(reply)
        if (reply !== 'no connection') isRepeat = true
      } else {
        if (!isRetryable(reply.status)) return { reply, isRepeat }
        recordRetry(String(reply.status))
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
  const expect = async (
    user: User,
    operation: OperationId,
    status: number,
    call: Call,
  ): Promise<Reply['body']> => {
    const { reply } = await sendWithRetries(user, operation, call)
    if (reply.status !== status) throw unexpected(operation, reply)
    return reply.body
  }

  const createTask = async (user: Writer): Promise<void> => {
    const sentAt = performance.now()
    const title = `Task ${randomUUID()}`
    const created = (await expect(user, 'createTask', 201, {
      headers: { 'idempotency-key': randomUUID() },
      body: { title },
    })) as Task
    user.tasks.set(created.id, created)
    recordWrite(sentAt)
  }

  const readTask = async (user: User, task_id: string, token = user.token): Promise<Task> =>
    (await expect(user, 'getTask', 200, { token, params: { task_id } })) as Task

  const changeTask = async (user: Writer): Promise<void> => {
    const [id, acknowledged] = oneOf([...user.tasks])
    const sentAt = performance.now()
    const description = randomUUID()
    const { reply, isRepeat } = await sendWithRetries(user, 'updateTask', {
      params: { task_id: id },
      headers: { 'if-match': `"${acknowledged.version}"` },
      body: { description },
    })
    const isDone = reply.status === 200
    if (!isDone && !(reply.status === 412 && isRepeat)) throw unexpected('updateTask', reply)
    const task = isDone ? (reply.body as Task) : await readTask(user, id)
    if (task.description !== description || task.version !== acknowledged.version + 1)
      throw new Error(`Task ${id} differs from the last write of its only writer`)
    user.tasks.set(id, task)
    recordWrite(sentAt)
  }

  const attach = async (user: Writer): Promise<void> => {
    const sentAt = performance.now()
    const content = randomBytes(randomInt(1, 20_000))
    const attached = (await expect(user, 'addTaskAttachment', 201, {
      params: { task_id: user.folder },
      headers: { 'idempotency-key': randomUUID() },
      body: fileForm(content, 'bytes', 'application/octet-stream'),
    })) as Attachment
    user.files.set(attached.id, digestOf(content))
    recordWrite(sentAt)
  }

  const write = (user: Writer): Promise<void> => {
    const choice = user.tasks.size === 0 ? 0 : randomInt(20)
    if (choice < 10) return createTask(user)
    return choice < 19 ? changeTask(user) : attach(user)
  }

  /** Reads a task of a writer. It must not be older than the last acknowledged version. */
  const read = async (reader: User): Promise<void> => {
    const writer = oneOf(writers)
    if (writer.tasks.size === 0) return
    const [id, { version }] = oneOf([...writer.tasks])
    const task = await readTask(reader, id, writer.token)
    if (task.version < version) throw new Error(`A read of task ${id} was older than an acknowledged write`)
  }

  const createWriter = async (name: string, instance: number): Promise<Writer> => {
    const [client] = clients as [Client]
    const { token } = await client.register(name)
    const { body } = await client.expect('createTask', 201, { token, body: { title: `Files of ${name}` } })
    return { token, instance, folder: body.id, tasks: new Map(), files: new Map() }
  }

  const writers: Writer[] = []
  for (let index = 0; index < writerCount; index += 1)
    writers.push(await createWriter(`writer${index}`, index))
  const readers = writers.slice(0, readerCount).map(({ token, instance }) => ({ token, instance }))

  let stopping = new AbortController()
  let loops: Promise<void>[] = []
  const actUntilStopped = async (act: () => Promise<void>): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await act()
      } catch (error) {
        observation.faults.push(error instanceof Error ? error.message : String(error))
      }
      await pause(rest * (0.5 + Math.random()))
    }
  }

  const listAll = async <T>(user: User, operation: OperationId, call: Call): Promise<T[]> => {
    const items: T[] = []
    let cursor: string | null = null
    do {
      const query: Call['query'] = { limit: 200, ...(cursor !== null && { cursor }) }
      const page = (await expect(user, operation, 200, { ...call, query })) as {
        readonly items: readonly T[]
        readonly next_cursor: string | null
      }
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
    for (const [attach_id, digest] of user.files) {
      if (!ids.has(attach_id)) continue
      const content = await expect(user, 'downloadAttachment', 200, { params: { attach_id } })
      if (digestOf(content as Uint8Array) !== digest)
        differences.push(`differs: the content of attachment ${attach_id}`)
    }
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
        ...writers.map((writer) => actUntilStopped(() => write(writer))),
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
  acknowledged: 0,
  retries: 0,
  retryReasons: new Map(),
  longestGap: 0,
  faults: [],
})

const unexpected = (operation: OperationId, { status, body }: Reply): Error =>
  new Error(`${operation} returned ${status}: ${JSON.stringify(body)}`)

const oneOf = <T>(choices: readonly T[]): T => {
  const chosen = choices[randomInt(choices.length)]
  if (chosen === undefined) throw new Error('There are no choices')
  return chosen
}

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')
