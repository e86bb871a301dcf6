import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { pieceHeaders, tusHeaders, uploadIdIn } from '../../../test/fixture/uploads.ts'
import { chance, digestOf, oneOf, type Requests, type Writer } from '../load.ts'

/** What the users of a service do all day, in a mix of most operations. */

const mebibyte = 1_048_576
const largeSize = 5 * mebibyte

/** Maximum number per user. The oldest are deleted first. */
const max = { tasks: 150, files: 30 }

export const everydayActions =
  (url: string) =>
  ({ expect, createTask, changeTask, recordTask, attach, readFile }: Requests) => {
    const trashTask = async (user: Writer, task_id: string): Promise<void> => {
      const params = { task_id }
      await expect(user, 'deleteTask', 204, { params })
      if (user.tasks.size < max.tasks && chance(2)) {
        await expect(user, 'restoreTask', 200, { params })
        await recordTask(user, task_id)
        return
      }
      user.tasks.delete(task_id)
      if (chance(2)) await expect(user, 'deleteTrashedTask', 204, { params })
    }

    const addTask = async (user: Writer): Promise<void> => {
      await createTask(user)
      if (user.tasks.size > max.tasks) await trashTask(user, oldest(user.tasks))
    }

    const readTask = async (user: Writer): Promise<void> => {
      const params = { task_id: oneOf([...user.tasks.keys()]) }
      const { body, headers } = await expect(user, 'getTask', 200, { params })
      if (body.version !== user.tasks.get(body.id)?.version)
        throw new Error(`The version of task ${body.id} differs`)
      const known = { 'if-none-match': headers.get('etag') ?? '' }
      if (chance(3)) await expect(user, 'getTask', 304, { params, headers: known })
    }

    const listTasks = async (user: Writer): Promise<void> => {
      const query = randomQuery()
      const { body } = await expect(user, 'listTasks', 200, { query })
      const cursor = body.next_cursor
      if (cursor !== null) await expect(user, 'listTasks', 200, { query: { ...query, cursor } })
    }

    const listOthers = async (user: Writer): Promise<void> => {
      const query = { limit: 20 }
      await expect(user, 'listTags', 200, { query })
      await expect(user, 'listTaskAttachments', 200, { params: { task_id: user.folder } })
      await expect(user, 'listTaskChanges', 200, { query })
      await expect(user, 'listTrashedTasks', 200, { query })
    }

    const changeTwice = async (user: Writer): Promise<void> => {
      const task_id = await changeTask(user)
      if (!chance(4)) return
      const version = (user.tasks.get(task_id)?.version ?? 0) - 1
      const headers = { 'if-match': `"${version}"` }
      await expect(user, 'updateTask', 412, { params: { task_id }, headers, body: { title: 'Too late' } })
    }

    const tagTask = async (user: Writer): Promise<void> => {
      const { body: tags } = await expect(user, 'listTags', 200, {})
      const params = { task_id: oneOf([...user.tasks.keys()]), tag_id: oneOf(tags.items).id }
      await expect(user, 'addTaskTag', 204, { params })
      if (chance(2)) await expect(user, 'removeTaskTag', 204, { params })
      await recordTask(user, params.task_id)
    }

    /** After a new file: reads one, and deletes the oldest beyond the maximum. */
    const keepFiles = async (user: Writer): Promise<void> => {
      await readFile(user, oneOf([...user.files.keys()]))
      if (user.files.size <= max.files) return
      const attach_id = oldest(user.files)
      await expect(user, 'deleteAttachment', 204, { params: { attach_id } })
      user.files.delete(attach_id)
    }

    const upload = async (user: Writer, size: number): Promise<void> => {
      await attach(user, size)
      await keepFiles(user)
    }

    const uploadInChunks = async (user: Writer, size: number): Promise<void> => {
      const content = randomBytes(size)
      const creation = { params: { task_id: user.folder }, headers: tusHeaders(size) }
      const params = { upload_id: uploadIdIn((await expect(user, 'createUpload', 201, creation)).headers) }
      if (chance(8)) {
        await expect(user, 'abortUpload', 204, { params, headers: { 'tus-resumable': '1.0.0' } })
        return
      }
      let id = ''
      for (let offset = 0; offset < size;) {
        const body = content.subarray(offset, offset + Math.ceil(size / 3))
        const chunk = { params, headers: pieceHeaders(offset), body }
        const { headers } = await expect(user, 'appendUpload', 204, chunk)
        offset += body.length
        id = headers.get('content-location')?.split('/').at(-1) ?? ''
      }
      user.files.set(id, digestOf(content))
      await keepFiles(user)
    }

    /** Starts and ends a second session, and refreshes the tokens of the first. */
    const signIn = async (user: Writer): Promise<void> => {
      const { email, password } = user.account
      const { body: session } = await expect(user, 'login', 200, {
        token: undefined,
        body: { email, password },
      })
      const second = { token: session.access_token }
      await expect(user, 'getCurrentUser', 200, second)
      await expect(user, 'logout', 204, second)
      await expect(user, 'getCurrentUser', 401, second)
      const { body } = await expect(user, 'refreshToken', 200, {
        token: undefined,
        body: { refresh_token: user.refreshToken },
      })
      user.token = body.access_token
      user.refreshToken = body.refresh_token
    }

    const sendInvalidRequests = async (user: Writer): Promise<void> => {
      await expect(user, 'getTask', 404, { params: { task_id: randomUUID() } })
      await expect(user, 'createTask', 400, { body: { titel: 'Misspelt' } })
      await expect(user, 'listTasks', 401, { token: randomUUID() })
      const email = `nobody-${randomUUID()}@example.com`
      await expect(user, 'login', 401, {
        token: undefined,
        body: { email, password: 'the password of nobody' },
      })
    }

    /** Closes the connection during an upload and during a download. */
    const disconnect = async ({ token, folder, files }: Writer): Promise<void> => {
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

    return {
      /** Creates the maximum, so that growing data is not mistaken for a leak. */
      async prepare(user: Writer): Promise<void> {
        for (const name of ['urgent', 'home', 'work'])
          await expect(user, 'createTag', 201, { body: { name } })
        while (user.tasks.size < max.tasks) await createTask(user)
        while (user.files.size < max.files) await attach(user, user.files.size === 0 ? largeSize : 10_000)
      },
      actions: [
        [24, readTask],
        [16, listTasks],
        [2, listOthers],
        [14, addTask],
        [14, changeTwice],
        [8, tagTask],
        [6, (user: Writer) => trashTask(user, oneOf([...user.tasks.keys()]))],
        [6, (user: Writer) => upload(user, randomInt(1, 100_000))],
        [1, (user: Writer) => upload(user, largeSize)],
        [3, (user: Writer) => uploadInChunks(user, randomInt(3, 300_000))],
        [2, signIn],
        [2, sendInvalidRequests],
        [2, disconnect],
      ] as const,
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

const oldest = (map: ReadonlyMap<string, unknown>): string => oneOf([...map.keys()].slice(0, 1))
