import t from 'tap'
import { type Account, startService } from '../fixture/service.ts'
import { projectActions } from '../fixture/projects.ts'

/** Writers who use nothing but the header ETag, beside others who comment, and beside each other. */

const service = await startService(t)
const manager = await service.register('manager')
const { createProject, setMember } = projectActions(service)
const project = await createProject(manager)

const memberCalled = async (name: string): Promise<Account> => {
  const account = await service.register(name)
  await setMember(manager, project, account, 'editor')
  return account
}
const writers = await Promise.all(['w1', 'w2', 'w3', 'w4'].map(memberCalled))
const commenters = await Promise.all(['c1', 'c2', 'c3', 'c4'].map(memberCalled))
const rounds = Array.from({ length: 10 }, (_, round) => round)

const newTask = async (title: string): Promise<string> => {
  const body = { title, project_id: project.id }
  return (await service.expect('createTask', 201, { token: manager.token, body })).body.id
}

/** Comments on tasks, until each round is over. */
const comment = async ({ token }: Account, tasks: readonly string[]): Promise<void> => {
  for (const round of rounds)
    for (const task_id of tasks)
      await service.expect('createComment', 201, {
        token,
        params: { task_id },
        body: { body: `Round ${round}` },
      })
}

/** Changes a task with the ETag that the last answer had. Returns the statuses. */
const write = async ({ token }: Account, task_id: string): Promise<readonly number[]> => {
  const request = { token, params: { task_id } }
  let etag = (await service.expect('getTask', 200, request)).headers.get('etag') ?? ''
  const statuses: number[] = []
  for (const round of rounds) {
    const change = { headers: { 'if-match': etag }, body: { description: `Round ${round}` } }
    const { status, headers } = await service.call('updateTask', { ...request, ...change })
    statuses.push(status)
    etag = headers.get('etag') ?? etag
  }
  return statuses
}

/** Adds lines to the description of a task, and reads it again after a conflict. Returns the number of conflicts. */
const append = async ({ token, id }: Account, task_id: string): Promise<number> => {
  const request = { token, params: { task_id } }
  let conflicts = 0
  for (const round of rounds)
    for (let isDone = false; !isDone;) {
      const { body, headers } = await service.expect('getTask', 200, request)
      const { status } = await service.call('updateTask', {
        ...request,
        headers: { 'if-match': headers.get('etag') ?? '' },
        body: { description: `${body.description}${id} ${round}\n` },
      })
      isDone = status === 200
      conflicts += Number(status === 412)
    }
  return conflicts
}

t.test('comments are no conflicts', async (t) => {
  const tasks = await Promise.all(writers.map((_, n) => newTask(`Task ${n}`)))
  const [statuses] = await Promise.all([
    Promise.all(writers.map((writer, n) => write(writer, tasks[n] ?? ''))),
    Promise.all(commenters.map((commenter) => comment(commenter, tasks))),
  ])
  t.strictSame(new Set(statuses.flat()), new Set([200]))
  for (const task_id of tasks) {
    const { body } = await service.expect('getTask', 200, { token: manager.token, params: { task_id } })
    t.match(body, { comment_count: 40, version: 11, revision: 51 })
  }
})

t.test('changes by others are, and none is lost', async (t) => {
  const task_id = await newTask('Shared')
  const [conflicts] = await Promise.all([
    Promise.all(writers.map((writer) => append(writer, task_id))),
    Promise.all(commenters.map((commenter) => comment(commenter, [task_id]))),
  ])
  t.ok(
    conflicts.some((count) => count > 0),
    'there were conflicts',
  )
  const { body } = await service.expect('getTask', 200, { token: manager.token, params: { task_id } })
  const lines = body.description.trim().split('\n')
  t.strictSame(new Set(lines), new Set(writers.flatMap(({ id }) => rounds.map((round) => `${id} ${round}`))))
  t.equal(lines.length, 40)
  t.equal(body.version, 41)
})
