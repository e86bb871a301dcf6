// The SDK scenario: every step goes through the generated client, and the first difference ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { client } from './taskwright/client.gen.ts'
import {
  addTaskAttachment,
  addTaskTag,
  createProject,
  createTag,
  createTask,
  deleteProject,
  downloadAttachment,
  getCurrentUser,
  getTask,
  listProjectTasks,
  listTasks,
  logout,
  type Problem,
  refreshToken,
  register,
  setProjectMember,
  type TaskList,
  updateTask,
} from './taskwright/index.ts'

/** What every generated call resolves with. */
interface Answer<Data> {
  readonly data: Data
  readonly error?: unknown
  readonly response?: Response
}

/** The data of an answer, unless it is a problem. */
const success = <Data>({ data, error, response }: Answer<Data>): NonNullable<Data> => {
  if (data === undefined || data === null) {
    throw new Error(`${response?.status ?? 'no answer'}: ${JSON.stringify(error)}`)
  }
  return data
}

/** The problem that a call is refused with. */
const problem = (
  status: number,
  { error, response }: { error?: Problem | undefined; response?: Response },
) => {
  equal('status', response?.status, status)
  if (error === undefined) throw new Error(`not refused with ${status}`)
  return error
}

const equal = (what: string, got: unknown, want: unknown): void => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
  }
}

const ok = (step: string): void => console.log('ok', step)

const url = process.env.TASKWRIGHT_URL ?? ''
const username = `typescript-${randomBytes(8).toString('hex')}`
const account = { username, email: `${username}@example.com`, password: randomBytes(12).toString('hex') }
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1_000).toISOString()

// Documentation: begin
client.setConfig({ baseUrl: url })
let { data: tokens } = await register({ body: account, throwOnError: true })
client.setConfig({ auth: () => tokens.access_token })
const { data: task } = await createTask({
  body: { title: 'Write the release notes', priority: 'high', due_at: tomorrow },
  throwOnError: true,
})
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const path = { task_id: task.id }
const patched = success(await updateTask({ path, body: { status: 'in_progress' } }))
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const cleared = success(await updateTask({ path, body: { due_at: null } }))
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = success(await createTag({ body: { name: 'release', color: '#d92d20' } }))
const added = await addTaskTag({ path: { ...path, tag_id: tag.id } })
equal('status', added.response?.status, 204)
const tagged = success(await getTask({ path }))
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const form = { file: new File([sent], 'random.bin'), sha256 }
const attachment = success(await addTaskAttachment({ path, body: form }))
// Whatever media type the file has, it is bytes that are wanted: not a text, and not parsed JSON.
const file = success(await downloadAttachment({ path: { attach_id: attachment.id }, parseAs: 'blob' }))
const received = Buffer.from(await file.arrayBuffer())
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', received.equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push(success(await createTask({ body: { title: `Task ${number}` } })).id)
}
const listed: string[] = []
let cursor: string | undefined
do {
  const page: TaskList = success(await listTasks({ query: { limit: 2, cursor } }))
  equal('at most two', page.items.length <= 2, true)
  listed.push(...page.items.map(({ id }) => id))
  cursor = page.next_cursor ?? undefined
} while (cursor !== undefined)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

const project = success(await createProject({ body: { name: 'Launch' } }))
const plan = success(await createTask({ body: { title: 'Plan the launch', project_id: project.id } }))
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const { user, access_token: auth } = success(await register({ body: another }))
const place = { project_id: project.id }
const member = success(
  await setProjectMember({ path: { ...place, user_id: user.id }, body: { role: 'editor' } }),
)
equal('role', member.role, 'editor')
const shared = success(await getTask({ path: { task_id: plan.id }, auth }))
equal('project', shared.project_id, project.id)
const planned = success(await listProjectTasks({ path: place, auth }))
equal('tasks of the project', planned.items, [shared])
equal('status', (await deleteProject({ path: place })).response?.status, 204)
problem(404, await getTask({ path: { task_id: plan.id }, auth }))
ok('project')

const etag = (await getTask({ path })).response?.headers.get('ETag') ?? ''
const rename = { path, headers: { 'If-Match': etag }, body: { title: 'Publish the release notes' } }
success(await updateTask(rename))
const conflict = problem(412, await updateTask(rename))
equal('code', conflict.code, 'precondition_failed')
ok('conflict')

const invalid = problem(400, await createTask({ body: { title: 'x'.repeat(501) } }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const before = tokens.access_token
tokens = success(await refreshToken({ body: { refresh_token: tokens.refresh_token } }))
equal('a new token', tokens.access_token !== before, true)
equal('me', success(await getCurrentUser()).username, username)
ok('refresh')

equal('status', (await logout()).response?.status, 204)
const refused = problem(401, await getCurrentUser())
equal('code', refused.code, 'unauthorized')
ok('logout')
