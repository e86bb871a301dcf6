// The SDK scenario: every step goes through the generated client, and the first difference ends the program.
import { createHash, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { session } from './http.ts'
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
} from './taskwright.ts'

/** What every generated call resolves with. */
interface Answer {
  readonly status: number
  readonly data: unknown
}

/** The answer, whose status must be the one that is expected. */
const expect = <Given extends Answer, Status extends Given['status']>(
  status: Status,
  answer: Given,
): Extract<Given, { status: Status }>['data'] => {
  if (answer.status !== status) throw new Error(`${answer.status}: ${JSON.stringify(answer.data)}`)
  return answer.data as Extract<Given, { status: Status }>['data']
}

const equal = (what: string, got: unknown, want: unknown): void => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
  }
}

const ok = (step: string): void => console.log('ok', step)

const url = process.env.TASKWRIGHT_URL ?? ''
const username = `orval-${randomBytes(8).toString('hex')}`
const account = { username, email: `${username}@example.com`, password: randomBytes(12).toString('hex') }
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1_000).toISOString()

// Documentation: begin
session.url = url
let tokens = expect(201, await register(account))
session.token = tokens.access_token
const task = expect(
  201,
  await createTask({ title: 'Write the release notes', priority: 'high', due_at: tomorrow }),
)
// Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, 'high')
equal('due_at', task.due_at, tomorrow)
ok('create')

const patched = expect(200, await updateTask(task.id, { status: 'in_progress' }))
equal('status', patched.status, 'in_progress')
equal('due_at', patched.due_at, tomorrow)
ok('patch')

const cleared = expect(200, await updateTask(task.id, { due_at: null }))
equal('due_at', cleared.due_at, null)
equal('title', cleared.title, task.title)
ok('clear')

const tag = expect(201, await createTag({ name: 'release', color: '#d92d20' }))
expect(204, await addTaskTag(task.id, tag.id))
const tagged = expect(200, await getTask(task.id))
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0]?.color, '#d92d20')
ok('tag')

const sent = randomBytes(1_000)
const sha256 = createHash('sha256').update(sent).digest('hex')
const upload = await addTaskAttachment(task.id, { file: new File([sent], 'random.bin'), sha256 })
const attachment = expect(201, upload)
const file = expect(200, await downloadAttachment(attachment.id))
const received = Buffer.from(await file.arrayBuffer())
equal('file name', attachment.file_name, 'random.bin')
equal('same bytes', received.equals(sent), true)
equal('sha256', attachment.sha256, sha256)
ok('file')

const created = [task.id]
for (let number = 1; number <= 5; number += 1) {
  created.push(expect(201, await createTask({ title: `Task ${number}` })).id)
}
const listed: string[] = []
let cursor: string | null = null
do {
  const page: TaskList = expect(200, await listTasks({ limit: 2, ...(cursor === null ? {} : { cursor }) }))
  equal('at most two', page.items.length <= 2, true)
  listed.push(...page.items.map(({ id }) => id))
  cursor = page.next_cursor
} while (cursor !== null)
equal('every task once', listed.toSorted(), created.toSorted())
ok('page')

const project = expect(201, await createProject({ name: 'Launch' }))
const plan = expect(201, await createTask({ title: 'Plan the launch', project_id: project.id }))
const another = { ...account, username: `${username}2`, email: `2${account.email}` }
const { user, access_token } = expect(201, await register(another))
const member = expect(201, await setProjectMember(project.id, user.id, { role: 'editor' }))
equal('role', member.role, 'editor')
session.token = access_token
const shared = expect(200, await getTask(plan.id))
equal('project', shared.project_id, project.id)
equal('tasks of the project', expect(200, await listProjectTasks(project.id)).items, [shared])
session.token = tokens.access_token
expect(204, await deleteProject(project.id))
expect(404, await getTask(plan.id))
ok('project')

const etag = (await getTask(task.id)).headers.get('ETag') ?? ''
const rename = { title: 'Publish the release notes' }
expect(200, await updateTask(task.id, rename, { 'If-Match': etag }))
const conflict: Problem = expect(412, await updateTask(task.id, rename, { 'If-Match': etag }))
equal('code', conflict.code, 'precondition_failed')
ok('conflict')

const invalid: Problem = expect(400, await createTask({ title: 'x'.repeat(501) }))
equal('pointer', invalid.errors?.[0]?.pointer, '/title')
ok('validation')

const before = tokens.access_token
tokens = expect(200, await refreshToken({ refresh_token: tokens.refresh_token }))
session.token = tokens.access_token
equal('a new token', tokens.access_token !== before, true)
equal('me', expect(200, await getCurrentUser()).username, username)
ok('refresh')

expect(204, await logout())
const refused: Problem = expect(401, await getCurrentUser())
equal('code', refused.code, 'unauthorized')
ok('logout')
