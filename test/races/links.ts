import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, racesOn, roleSet } from '../fixture/races.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'

/** Writes to the tags and relations of tasks that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { skip, resultAfter } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const caller = await service.register('caller')
const { createProject, setMember } = projectActions(service)
const { createTask, readTask } = taskActions(service)

/** Two tasks of a project, and one that the other is related to; a tag of the project, which the first task has, and another one. */
const prepare = async () => {
  const [project, elsewhere] = [await createProject(admin), await createProject(admin)]
  await setMember(admin, project, caller, 'editor')
  const createTag = async (name: string): Promise<string> => {
    const body = { name, project_id: project.id }
    return (await service.expect('createTag', 201, { token: admin.token, body })).body.id
  }
  const [tag, unused] = [await createTag('Tag'), await createTag('Unused')]
  const fields = { project_id: project.id }
  const task = (await createTask(admin, { ...fields, tag_ids: [tag] })).id
  const [other, related] = [(await createTask(admin, fields)).id, (await createTask(admin, fields)).id]
  const params = { task_id: task, kind: 'blocks', other_task_id: related }
  await service.expect('addTaskRelation', 204, { token: admin.token, params })
  return { project: project.id, elsewhere: elsewhere.id, task, other, related, tag, unused }
}

type Ids = Awaited<ReturnType<typeof prepare>>

/** What happens while a write waits. */
interface Change {
  readonly hold: (ids: Ids) => string
  readonly sql: (ids: Ids) => string
}

const memberOf = ({ project }: Ids) => ({ project, user: caller.id })
const holdProject = ({ project }: Ids) => held(`projects where id = '${project}'`)
const holdTask = ({ task }: Ids) => held(`tasks where id = '${task}'`)

const changes = {
  'the caller becomes a viewer': {
    hold: holdProject,
    sql: (ids) => roleSet(memberOf(ids), 'viewer'),
  },
  'the caller is removed': {
    hold: holdProject,
    sql: (ids) => memberRemoved(memberOf(ids)),
  },
  'the project is moved to the trash': {
    hold: holdProject,
    sql: ({ project }) => `update projects set deleted_at = now() where id = '${project}'`,
  },
  'the project is archived': {
    hold: holdProject,
    sql: ({ project }) => `update projects set archived_at = now() where id = '${project}'`,
  },
  'the task is changed': {
    hold: holdTask,
    sql: ({ task }) => `update tasks set version = version + 1 where id = '${task}'`,
  },
  'the task is moved to the trash': {
    hold: holdTask,
    sql: ({ task }) => `update tasks set deleted_at = now() where id = '${task}'`,
  },
  'the task is moved out of sight': {
    hold: holdTask,
    sql: ({ task, elsewhere }) => `update tasks set project_id = '${elsewhere}' where id = '${task}'`,
  },
  'the tag is deleted': {
    hold: ({ project }) => held(`tags where project_id = '${project}'`),
    sql: ({ project }) => `update tags set deleted_at = now() where project_id = '${project}'`,
  },
  'the tag is removed': {
    hold: holdTask,
    sql: ({ task }) => `delete from task_tags where task_id = '${task}'`,
  },
  'the tag is added': {
    hold: holdTask,
    sql: ({ task, unused }) => `insert into task_tags (task_id, tag_id) values ('${task}', '${unused}')`,
  },
  'the other task is moved to the trash': {
    hold: ({ other, related }) => held(`tasks where id in ('${other}', '${related}')`),
    sql: ({ other, related }) => `update tasks set deleted_at = now() where id in ('${other}', '${related}')`,
  },
  'the other task is moved out of sight': {
    hold: ({ other, related }) => held(`tasks where id in ('${other}', '${related}')`),
    sql: ({ other, related, elsewhere }) =>
      `update tasks set project_id = '${elsewhere}' where id in ('${other}', '${related}')`,
  },
  'the relation is removed': {
    hold: holdTask,
    sql: ({ task }) => `delete from task_relations where task_id = '${task}'`,
  },
  'the relation is added': {
    hold: holdTask,
    sql: ({ task, other }) =>
      `insert into task_relations (id, task_id, kind, other_task_id) values (gen_random_uuid(), '${task}', 'blocks', '${other}')`,
  },
} satisfies Readonly<Record<string, Change>>

type Outcomes = { readonly [What in keyof typeof changes]?: number }

interface Write {
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const always = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
  'the project is archived': 409,
  'the task is moved to the trash': 404,
  'the task is moved out of sight': 404,
} as const

const createOnly = { 'if-none-match': '*' }

const writes: { readonly [Operation in OperationId]?: Write } = {
  addTaskTag: {
    request: ({ task, unused }) => ({ params: { task_id: task, tag_id: unused }, headers: createOnly }),
    outcomes: { ...always, 'the task is changed': 204, 'the tag is deleted': 404, 'the tag is added': 412 },
  },
  removeTaskTag: {
    request: ({ task, tag }) => ({ params: { task_id: task, tag_id: tag }, headers: { 'if-match': '"1"' } }),
    outcomes: { ...always, 'the task is changed': 412, 'the tag is deleted': 404, 'the tag is removed': 404 },
  },
  addTaskRelation: {
    request: ({ task, other }) => ({
      params: { task_id: task, kind: 'blocks', other_task_id: other },
      headers: createOnly,
    }),
    outcomes: {
      ...always,
      'the task is changed': 204,
      'the other task is moved to the trash': 404,
      'the other task is moved out of sight': 404,
      'the relation is added': 412,
    },
  },
  removeTaskRelation: {
    request: ({ task, related }) => ({ params: { task_id: task, kind: 'blocks', other_task_id: related } }),
    outcomes: {
      ...always,
      'the task is changed': 204,
      'the other task is moved to the trash': 404,
      'the other task is moved out of sight': 404,
      'the relation is removed': 404,
    },
  },
}

for (const [operation, { request, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, { skip }, async (t) => {
    for (const [what, status] of Object.entries(outcomes)) {
      const ids = await prepare()
      const { hold, sql } = changes[what as keyof typeof changes]
      const race = { hold: [hold(ids)], change: sql(ids) }
      const reply = await resultAfter(t, race, () =>
        service.call(operation as OperationId, { token: caller.token, ...request(ids) }),
      )
      t.equal(reply.status, status, what)
    }
  })

const block = ({ token }: Account, task_id: string, other_task_id: string) =>
  service.call('addTaskRelation', {
    token,
    params: { task_id, kind: 'blocks', other_task_id },
  })

/** Chains of tasks, each of which blocks the next one of its chain. */
const createChains = async (lengths: readonly number[]): Promise<readonly (readonly string[])[]> => {
  const chains = []
  for (const length of lengths) {
    const chain: string[] = []
    for (let index = 0; index < length; index += 1) chain.push((await createTask(caller)).id)
    for (const [index, next] of chain.slice(1).entries()) await block(caller, chain[index] ?? '', next)
    chains.push(chain)
  }
  return chains
}

for (const lengths of [
  [1, 1],
  [2, 1],
  [2, 2],
  [1, 1, 1],
  [2, 1, 1],
  [1, 2, 2],
  [2, 2, 2],
  [3, 1, 2, 1],
])
  t.test(
    `${lengths.length} relations that make a cycle of chains of ${lengths.join(', ')} tasks: one is refused`,
    { skip },
    async (t) => {
      const chains = await createChains(lengths)
      const all = chains.flat()
      const race = { hold: [held(`tasks where id in ('${all.join(`', '`)}')`)], waiting: lengths.length }
      const replies = await resultAfter(t, race, () =>
        Promise.all(
          chains.map((chain, index) =>
            // One caller cannot use four sessions.
            block(
              index % 2 === 0 ? caller : admin,
              chain.at(-1) ?? '',
              chains[(index + 1) % chains.length]?.[0] ?? '',
            ),
          ),
        ),
      )
      t.strictSame(countStatuses(replies), { 204: lengths.length - 1, 409: 1 })
    },
  )

t.test('only a relation that joins two chains waits for another one that does', { skip }, async (t) => {
  const [[first = '', last = ''] = [], [start = ''] = [], [one = ''] = [], [other = ''] = []] =
    await createChains([2, 2, 1, 1])
  const holder = createClient(options, { connection: { application_name: 'holder' } })
  t.teardown(() => holder.end())
  await holder.unsafe('begin')
  await holder.unsafe(`select pg_advisory_xact_lock(hashtext('task_relations'))`)
  for (const [task, blocked] of [
    [one, first],
    [last, other],
    [one, other],
  ] as const)
    t.equal((await block(caller, task, blocked)).status, 204)
  const joining = block(caller, last, start)
  await holder.unsafe('commit')
  t.equal((await joining).status, 204)
  t.equal((await readTask(caller, start)).task.is_blocked, true)
})
