import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { createClient } from '../../test/fixture/service.ts'
import { fileForm } from '../../test/fixture/service.ts'
import { blackPng } from '../../test/fixture/images.ts'

/** A service under attack, and the access token of the attacker. */
export interface Target {
  readonly url: string
  readonly token: string
  readonly client: ReturnType<typeof createClient>
}

/** The most expensive requests that one member or an anonymous client can send. */
export interface Attack {
  readonly name: string
  /** Creates data before the measurement. */
  readonly prepare?: (target: Target) => Promise<unknown>
  /** Resolves to a summary of the responses. */
  readonly run: (target: Target, prepared: unknown) => Promise<string>
}

/** Combining marks whose combining classes descend repeatedly: the worst case for Unicode normalization. */
const marks = (bytes: number): string => '\u0315\u0300\u0316'.repeat(Math.ceil(bytes / 6))

const request = async (
  { url, token }: Target,
  method: string,
  path: string,
  options: { readonly body?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<number> => {
  try {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(options.body !== undefined && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(options.body !== undefined && { body: options.body }),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}

/** The number of responses with each status. 0 means a closed connection. */
const count = (statuses: readonly number[]): string =>
  Object.entries(Object.groupBy(statuses, (status) => status))
    .map(([status, all = []]) => `${all.length} x ${status}`)
    .join(', ')

const inParallel = async (times: number, once: (index: number) => Promise<number>): Promise<string> =>
  count(await Promise.all(Array.from({ length: times }, (_, index) => once(index))))

const createTask = (target: Target, fields: object): Promise<number> =>
  request(target, 'POST', '/tasks', { body: JSON.stringify({ title: 'Costly', ...fields }) })

/** Creates tasks with a description of the maximum length. */
const seedDescriptions = async (target: Target, times: number, character: string): Promise<void> => {
  for (let left = times; left > 0; left -= 8)
    await Promise.all(
      Array.from({ length: Math.min(8, left) }, () =>
        createTask(target, { description: character.repeat(65_536 / character.length) }),
      ),
    )
}

/** Creates tasks with the same tag in batches. Resolves to the id of the tag. */
const seedTagged = async ({ client, token }: Target, times: number): Promise<string> => {
  const { body: tag } = await client.expect('createTag', 201, { token, body: { name: 'everywhere' } })
  const create = Array.from({ length: 500 }, (_, index) => ({ title: `Task ${index}`, tag_ids: [tag.id] }))
  for (let left = times; left > 0; left -= 500)
    await client.expect('batchTasks', 200, { token, body: { create } })
  return tag.id
}

/** Sends requests without reading the responses, and closes the connections after 8 seconds. */
const sendUnread = async ({ url }: Target, connections: number, bytes: string): Promise<void> => {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  for (let left = connections; left > 0; left -= 1) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined).pause()
    sockets.push(socket)
    await once(socket, 'connect').catch(() => undefined)
    socket.write(bytes)
  }
  await pause(8_000)
  for (const socket of sockets) socket.destroy()
}

const listHead = ({ token }: Target): string =>
  `GET /tasks?limit=200 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`

const orFilter = Array.from({ length: 10 }, (_, index) => `description:"zq${index}"`).join(' OR ')

export const attacks: readonly Attack[] = [
  {
    name: 'sign-in with a password of 900 KB of combining marks',
    run: (target) =>
      inParallel(4, () =>
        request(target, 'POST', '/auth/login', {
          body: JSON.stringify({ email: 'a@example.com', password: marks(900_000) }),
        }),
      ),
  },
  {
    name: 'combining marks in a title, a query and a filter',
    run: async (target) =>
      count([
        await createTask(target, { title: marks(160_000) }),
        await request(target, 'GET', `/tasks?q=${encodeURIComponent(marks(8_000))}`),
        await request(target, 'GET', `/tasks?filter=${encodeURIComponent(`title:"${marks(8_000)}"`)}`),
      ]),
  },
  {
    name: 'descriptions that are expensive to fold and split',
    run: async (target) =>
      count([
        await createTask(target, { description: marks(131_072).slice(0, 65_536) }),
        await createTask(target, { description: '\ufdfa'.repeat(65_536) }),
        await createTask(target, { description: '\u6f22\u5b57\u4eee\u540d'.repeat(16_384) }),
        await createTask(target, {
          description: Array.from({ length: 20_000 }, (_, n) => n.toString(36))
            .join(' ')
            .slice(0, 65_536),
        }),
      ]),
  },
  {
    name: 'filters for ten substrings in 300 descriptions of 64 KB',
    prepare: (target) => seedDescriptions(target, 300, 'lorem ipsum dolo'),
    run: (target) =>
      inParallel(256, (index) =>
        pause(index * 20).then(() =>
          request(target, 'GET', `/tasks?filter=${encodeURIComponent(orFilter)}&limit=200`),
        ),
      ),
  },
  {
    name: '300 connections that do not read large lists',
    prepare: (target) => seedDescriptions(target, 200, '\u0001'),
    run: async (target) => {
      await sendUnread(target, 300, listHead(target))
      return 'not read'
    },
  },
  {
    name: '200 pipelined requests for large lists, not read',
    prepare: (target) => seedDescriptions(target, 200, '\u0001'),
    run: async (target) => {
      await sendUnread(target, 1, listHead(target).repeat(200))
      return 'not read'
    },
  },
  {
    name: '70 thumbnails of large images, and one of them 64 times',
    prepare: async ({ client, token }) => {
      const { body: task } = await client.expect('createTask', 201, { token, body: { title: 'Images' } })
      const image = blackPng({ width: 7_000, height: 7_000 })
      const ids: string[] = []
      for (let left = 10; left > 0; left -= 1) {
        const { body } = await client.expect('addTaskAttachment', 201, {
          token,
          params: { task_id: task.id },
          body: fileForm(image, 'large.png', 'image/png'),
        })
        ids.push(body.id)
      }
      return ids
    },
    run: (target, prepared) => {
      const ids = prepared as readonly string[]
      const widths = [16, 32, 64, 128, 256, 512, 1_024]
      return inParallel(134, (index) =>
        index < 70
          ? request(
              target,
              'GET',
              `/attachments/${ids[index % 10]}/thumbnail?width=${widths[Math.floor(index / 10)]}`,
            )
          : request(target, 'GET', `/attachments/${ids[0]}/thumbnail?width=16`),
      )
    },
  },
  {
    name: 'deletion of a tag on 20,000 tasks',
    prepare: (target) => seedTagged(target, 20_000),
    run: async (target, tagId) => {
      const status = await request(target, 'DELETE', `/tags/${String(tagId)}`)
      await pause(10_000)
      return count([status])
    },
  },
  {
    name: '256 lists of tags by a member with 20,000 tasks',
    prepare: (target) => seedTagged(target, 20_000),
    run: (target) => inParallel(256, () => request(target, 'GET', '/tags?limit=1')),
  },
  {
    name: 'deletion of an account with 20,000 tasks',
    prepare: (target) => seedTagged(target, 20_000),
    run: async (target) => {
      const { body: me } = await target.client.expect('getCurrentUser', 200, { token: target.token })
      const status = await request(target, 'DELETE', `/users/${me.id}`)
      await pause(10_000)
      return count([status])
    },
  },
  {
    name: '64 batches of 500 tasks',
    run: (target) => {
      const create = Array.from({ length: 500 }, (_, index) => ({ title: `Task ${index}` }))
      const body = JSON.stringify({ create })
      return inParallel(64, () => request(target, 'POST', '/tasks/batch', { body }))
    },
  },
  {
    name: '256 searches for words of 10,000 tasks',
    prepare: async ({ client, token }) => {
      const create = Array.from({ length: 500 }, (_, index) => ({
        title: `Common ${index}`,
        description: `word${index % 7} \u6f22\u5b57 `.repeat(20),
      }))
      for (let left = 10_000; left > 0; left -= 500)
        await client.expect('batchTasks', 200, { token, body: { create } })
    },
    run: (target) => {
      const searches = ['common', '-common', 'word1 or word2 or word3', '"word4 \u6f22\u5b57"', 'o']
      return inParallel(256, (index) =>
        request(
          target,
          'GET',
          `/tasks?include_total=true&limit=200&q=${encodeURIComponent(searches[index % 5] ?? '')}`,
        ),
      )
    },
  },
  {
    name: '200 concurrent sign-ins',
    run: (target) =>
      inParallel(200, () =>
        request(target, 'POST', '/auth/login', {
          body: JSON.stringify({ email: 'nobody@example.com', password: 'wrong' }),
        }),
      ),
  },
  {
    name: 'headers that could cause backtracking',
    prepare: async ({ client, token }) => {
      const { body } = await client.expect('createTask', 201, { token, body: { title: 'Files' } })
      return body.id
    },
    run: async (target, taskId) =>
      count([
        await request(target, 'POST', `/tasks/${String(taskId)}/uploads`, {
          headers: { 'tus-resumable': '1.0.0', 'upload-length': '1', 'upload-metadata': 'a ,'.repeat(60) },
        }),
      ]),
  },
  {
    name: '300 sort orders of a list',
    run: async (target) => {
      const fields = [
        'created_at',
        'updated_at',
        'due',
        'start',
        'completed_at',
        'priority',
        'status',
        'title',
      ]
      const orders = fields.flatMap((a) =>
        fields.flatMap((b) => (a === b ? [] : [`${a},${b}`, `-${a},${b}`, `${a},-${b}`])),
      )
      const statuses: number[] = []
      for (const order of orders.slice(0, 300))
        statuses.push(await request(target, 'GET', `/tasks?sort=${order}&limit=1`))
      return count(statuses)
    },
  },
  {
    name: 'a path of 60 KB and 500 readiness checks, anonymous',
    run: async (target) => {
      const path = await request(target, 'GET', `/${'a'.repeat(60_000)}`)
      return `${count([path])}; ${await inParallel(500, () => request(target, 'GET', '/health/ready'))}`
    },
  },
]
