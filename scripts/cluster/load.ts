import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once, EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { components } from '../../generated/openapi.ts'
import { withTimeout } from '../../src/concurrency/deadline.ts'
import type { OperationId } from '../../src/contract/contract.ts'
import { connectionErrorCode } from '../../test/fixture/http-client.ts'
import { type Call, createClient, fileForm, type Reply } from '../../test/fixture/service.ts'

/**
 * Writers and readers that follow docs/guides/concurrency-and-idempotency.md. Each writer has an account of its own and
 * remembers what was acknowledged, so that what is there in the end is known in advance.
 */

type Task = components['schemas']['Task']
type Attachment = components['schemas']['Attachment']

/** What was seen during a fault. */
export interface Observation {
  /** Writes that were acknowledged. */
  acknowledged: number
  /** Requests that were sent again. */
  retries: number
  /** How often a request was answered with each status that is retried, or not at all. */
  readonly refusals: Map<string, number>
  /** The longest time without an acknowledged write, in milliseconds. */
  longestGap: number
  /** What should not have happened, in words. */
  readonly faults: string[]
}

export interface Load {
  /** Starts a new observation, and resumes. */
  resume(): void
  /** Lets everybody finish what they are doing. */
  pause(): Promise<Observation>
  /** Resolves when some writes that were sent from now on have been acknowledged. */
  untilWritten(): Promise<void>
  /** What is wrong with what is there, in words. */
  verify(): Promise<readonly string[]>
  /** The number of tasks that were acknowledged. */
  taskCount(): number
  end(): Promise<void>
}

type Client = ReturnType<typeof createClient>

/** Somebody with an account, who uses one instance until it fails. */
interface Person {
  readonly token: string
  instance: number
}

interface Writer extends Person {
  /** The task that has the files. */
  readonly folder: string
  /** By id, as acknowledged. */
  readonly tasks: Map<string, Pick<Task, 'title' | 'description' | 'version'>>
  /** Digests by id. */
  readonly files: Map<string, string>
}

/** Milliseconds: the service answers within 20 s. */
const answerDeadline = 25_000

/** Milliseconds after which a request that is still refused is a fault. */
const retryDeadline = 90_000

/** Milliseconds in which one write has to be acknowledged after the database is itself again. */
const writeDeadline = 30_000

/** Writes after which the service counts as itself again. */
const writesToSee = 20

/** Milliseconds between two attempts: twice as many each time, from `firstDelay` to `maxDelay`. */
const firstDelay = 1_000
const maxDelay = 2_000

/** Milliseconds between two actions of one person. */
const rest = 100

const writerCount = 4
const readerCount = 2

const isRetried = (status: number): boolean => status >= 500 || status === 429 || status === 408

/** Statuses of which it is not known whether the request was done. */
const isUncertain = (status: number): boolean => status >= 500 && status !== 503

/** Why there is no response. Only without a connection it is known that nothing was done. */
type Loss = 'no connection' | 'connection lost' | 'no answer'

class NoAnswer extends Error {}

interface Settled {
  readonly reply: Reply
  /** Whether an earlier attempt may have been done. */
  readonly isRepeat: boolean
}

/** Registers the writers; nobody does anything before `resume`. */
export const createLoad = async (urls: readonly string[]): Promise<Load> => {
  const clients = urls.map((url) => createClient(url, () => undefined))
  const clientOf = ({ instance }: Person): Client => {
    const client = clients[instance % clients.length]
    if (client === undefined) throw new Error('There is no instance')
    return client
  }

  let observation = newObservation()
  let lastWrite = performance.now()
  const written = new EventEmitter<{ written: [sentAt: number] }>()

  const noteGap = (): void => {
    const now = performance.now()
    observation.longestGap = Math.max(observation.longestGap, now - lastWrite)
    lastWrite = now
  }

  const noteWrite = (sentAt: number): void => {
    observation.acknowledged += 1
    noteGap()
    written.emit('written', sentAt)
  }

  const noteRefusal = (what: string): void => {
    observation.refusals.set(what, (observation.refusals.get(what) ?? 0) + 1)
    observation.retries += 1
  }

  const attempt = async (person: Person, operation: OperationId, call: Call): Promise<Reply | Loss> => {
    try {
      const asked = clientOf(person).call(operation, { token: person.token, ...call })
      return await withTimeout(answerDeadline, asked, () => new NoAnswer())
    } catch (error) {
      if (error instanceof NoAnswer) return 'no answer'
      const code = connectionErrorCode(error)
      if (code === null) throw error
      return code === 'ECONNREFUSED' ? 'no connection' : 'connection lost'
    }
  }

  /** Repeats a request, at the next instance, until it is not refused any more. */
  const settle = async (person: Person, operation: OperationId, call: Call): Promise<Settled> => {
    const begun = performance.now()
    let isRepeat = false
    for (let delay = firstDelay; ; delay = Math.min(delay * 2, maxDelay)) {
      const reply = await attempt(person, operation, call)
      if (typeof reply === 'string') {
        noteRefusal(reply)
        if (reply !== 'no connection') isRepeat = true
      } else {
        if (!isRetried(reply.status)) return { reply, isRepeat }
        noteRefusal(String(reply.status))
        if (isUncertain(reply.status)) isRepeat = true
        if (reply.status === 500) observation.faults.push(unexpected(operation, reply).message)
        if (reply.status === 503 && !reply.headers.has('retry-after'))
          observation.faults.push(`${operation} was answered 503 without Retry-After`)
      }
      if (performance.now() - begun > retryDeadline)
        throw new Error(`${operation} was refused for ${retryDeadline / 1_000} s`)
      person.instance += 1
      await pause(delay * (0.5 + Math.random() / 2))
    }
  }

  /** Settles a request and requires a status. */
  const expect = async (
    person: Person,
    operation: OperationId,
    status: number,
    call: Call,
  ): Promise<Reply['body']> => {
    const { reply } = await settle(person, operation, call)
    if (reply.status !== status) throw unexpected(operation, reply)
    return reply.body
  }

  const createTask = async (person: Writer): Promise<void> => {
    const sentAt = performance.now()
    const title = `Task ${randomUUID()}`
    const created = (await expect(person, 'createTask', 201, {
      headers: { 'idempotency-key': randomUUID() },
      body: { title },
    })) as Task
    person.tasks.set(created.id, created)
    noteWrite(sentAt)
  }

  const readTask = async (person: Person, task_id: string, token = person.token): Promise<Task> =>
    (await expect(person, 'getTask', 200, { token, params: { task_id } })) as Task

  const changeTask = async (person: Writer): Promise<void> => {
    const [id, known] = oneOf([...person.tasks])
    const sentAt = performance.now()
    const description = randomUUID()
    const { reply, isRepeat } = await settle(person, 'updateTask', {
      params: { task_id: id },
      headers: { 'if-match': `"${known.version}"` },
      body: { description },
    })
    const isDone = reply.status === 200
    if (!isDone && !(reply.status === 412 && isRepeat)) throw unexpected('updateTask', reply)
    const task = isDone ? (reply.body as Task) : await readTask(person, id)
    if (task.description !== description || task.version !== known.version + 1)
      throw new Error(`Task ${id} is not as its only writer left it`)
    person.tasks.set(id, task)
    noteWrite(sentAt)
  }

  const attach = async (person: Writer): Promise<void> => {
    const sentAt = performance.now()
    const content = randomBytes(randomInt(1, 20_000))
    const attached = (await expect(person, 'addTaskAttachment', 201, {
      params: { task_id: person.folder },
      headers: { 'idempotency-key': randomUUID() },
      body: fileForm(content, 'bytes', 'application/octet-stream'),
    })) as Attachment
    person.files.set(attached.id, digestOf(content))
    noteWrite(sentAt)
  }

  const write = (person: Writer): Promise<void> => {
    const choice = person.tasks.size === 0 ? 0 : randomInt(20)
    if (choice < 10) return createTask(person)
    return choice < 19 ? changeTask(person) : attach(person)
  }

  /** Reads a task that somebody has written: it may not be older than what was acknowledged before. */
  const read = async (reader: Person): Promise<void> => {
    const writer = oneOf(writers)
    if (writer.tasks.size === 0) return
    const [id, { version }] = oneOf([...writer.tasks])
    const task = await readTask(reader, id, writer.token)
    if (task.version < version) throw new Error(`Task ${id} was read as it was before an acknowledged write`)
  }

  const begin = async (name: string, instance: number): Promise<Writer> => {
    const [client] = clients as [Client]
    const { token } = await client.register(name)
    const { body } = await client.expect('createTask', 201, { token, body: { title: `Files of ${name}` } })
    return { token, instance, folder: body.id, tasks: new Map(), files: new Map() }
  }

  const writers: Writer[] = []
  for (let index = 0; index < writerCount; index += 1) writers.push(await begin(`writer${index}`, index))
  const readers = writers.slice(0, readerCount).map(({ token, instance }) => ({ token, instance }))

  let stopping = new AbortController()
  let lives: Promise<void>[] = []
  const live = async (act: () => Promise<void>): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await act()
      } catch (error) {
        observation.faults.push(error instanceof Error ? error.message : String(error))
      }
      await pause(rest * (0.5 + Math.random()))
    }
  }

  const listAll = async <T>(person: Person, operation: OperationId, call: Call): Promise<T[]> => {
    const items: T[] = []
    let cursor: string | null = null
    do {
      const query: Call['query'] = { limit: 200, ...(cursor !== null && { cursor }) }
      const page = (await expect(person, operation, 200, { ...call, query })) as {
        readonly items: readonly T[]
        readonly next_cursor: string | null
      }
      items.push(...page.items)
      cursor = page.next_cursor
    } while (cursor !== null)
    return items
  }

  const verifyTasks = async (person: Writer): Promise<string[]> => {
    const found = (await listAll<Task>(person, 'listTasks', {})).filter(({ id }) => id !== person.folder)
    const byId = new Map(found.map((task) => [task.id, task]))
    return [
      ...[...person.tasks.keys()].filter((id) => !byId.has(id)).map((id) => `lost: task ${id}`),
      ...found.flatMap(({ id, title, description, version }) => {
        const known = person.tasks.get(id)
        if (known === undefined) return [`doubled or unacknowledged: task ${id}`]
        const isAsLeft =
          known.version === version && known.description === description && known.title === title
        return isAsLeft
          ? []
          : [`differs: task ${id} has version ${version}, acknowledged was ${known.version}`]
      }),
    ]
  }

  const verifyFiles = async (person: Writer): Promise<string[]> => {
    const params = { task_id: person.folder }
    const found = await listAll<Attachment>(person, 'listTaskAttachments', { params })
    const ids = new Set(found.map(({ id }) => id))
    const wrong = [
      ...[...person.files.keys()].filter((id) => !ids.has(id)).map((id) => `lost: attachment ${id}`),
      ...[...ids]
        .filter((id) => !person.files.has(id))
        .map((id) => `doubled or unacknowledged: attachment ${id}`),
    ]
    for (const [attach_id, digest] of person.files) {
      if (!ids.has(attach_id)) continue
      const content = await expect(person, 'downloadAttachment', 200, { params: { attach_id } })
      if (digestOf(content as Uint8Array) !== digest)
        wrong.push(`differs: attachment ${attach_id} has other bytes`)
    }
    return wrong
  }

  const stop = async (): Promise<void> => {
    stopping.abort()
    await Promise.all(lives)
  }

  return {
    resume() {
      observation = newObservation()
      lastWrite = performance.now()
      stopping = new AbortController()
      lives = [
        ...writers.map((writer) => live(() => write(writer))),
        ...readers.map((reader) => live(() => read(reader))),
      ]
    },
    async pause() {
      await stop()
      return observation
    },
    async untilWritten() {
      const from = performance.now()
      for (let left = writesToSee; left > 0;) {
        const signal = AbortSignal.timeout(writeDeadline)
        const [sentAt] = (await once(written, 'written', { signal })) as [number]
        if (sentAt >= from) left -= 1
      }
    },
    async verify() {
      const wrong: string[] = []
      for (const writer of writers) wrong.push(...(await verifyTasks(writer)), ...(await verifyFiles(writer)))
      return wrong
    },
    taskCount: () => writers.reduce((sum, { tasks }) => sum + tasks.size + 1, 0),
    end: stop,
  }
}

const newObservation = (): Observation => ({
  acknowledged: 0,
  retries: 0,
  refusals: new Map(),
  longestGap: 0,
  faults: [],
})

const unexpected = (operation: OperationId, { status, body }: Reply): Error =>
  new Error(`${operation} was answered ${status}: ${JSON.stringify(body)}`)

const oneOf = <T>(choices: readonly T[]): T => {
  const chosen = choices[randomInt(choices.length)]
  if (chosen === undefined) throw new Error('There is nothing to choose from')
  return chosen
}

const digestOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')
