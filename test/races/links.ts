import t from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { createClient } from '../../src/db/engine/connection.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, type Outcomes, outcomesOfTask, type RaceIds, racesOn } from '../fixture/races.ts'
import { type Account, type Call, startService } from '../fixture/service.ts'
import { countStatuses, taskActions } from '../fixture/tasks.ts'

/** Writes to the tags and relations of tasks that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
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

interface Write {
  readonly request: (ids: Ids) => Omit<Call, 'token'>
  /** What changes of the tag and of the other task are about. */
  readonly about: (ids: Ids) => RaceIds
  /** The status of the write after each change. */
  readonly outcomes: Outcomes
}

const createOnly = { 'if-none-match': '*' }

const writes: { readonly [Operation in OperationId]?: Write } = {
  addTaskTag: {
    request: ({ task, unused }) => ({ params: { task_id: task, tag_id: unused }, headers: createOnly }),
    about: ({ unused }) => ({ tag: unused }),
    outcomes: {
      ...outcomesOfTask,
      'the task is changed': 204,
      'the tag is deleted': 404,
      'the tag is added': 412,
    },
  },
  removeTaskTag: {
    request: ({ task, tag }) => ({ params: { task_id: task, tag_id: tag }, headers: { 'if-match': '"1"' } }),
    about: ({ tag }) => ({ tag }),
    outcomes: {
      ...outcomesOfTask,
      'the task is changed': 412,
      'the tag is deleted': 404,
      'the tag is removed': 404,
    },
  },
  addTaskRelation: {
    request: ({ task, other }) => ({
      params: { task_id: task, kind: 'blocks', other_task_id: other },
      headers: createOnly,
    }),
    about: ({ other }) => ({ other }),
    outcomes: {
      ...outcomesOfTask,
      'the task is changed': 204,
      'the other task is moved to the trash': 404,
      'the other task is moved out of sight': 404,
      'the relation is added': 412,
    },
  },
  removeTaskRelation: {
    request: ({ task, related }) => ({ params: { task_id: task, kind: 'blocks', other_task_id: related } }),
    about: ({ related }) => ({ other: related }),
    outcomes: {
      ...outcomesOfTask,
      'the task is changed': 204,
      'the other task is moved to the trash': 404,
      'the other task is moved out of sight': 404,
      'the relation is removed': 404,
    },
  },
}

for (const [operation, { request, about, outcomes }] of Object.entries(writes))
  t.test(`${operation} waits`, (t) =>
    expectOutcomes(t, outcomes, {
      prepare: async () => {
        const all = await prepare()
        const { project, elsewhere, task } = all
        return { all, ids: { caller: caller.id, project, elsewhere, task, ...about(all) } }
      },
      send: ({ all }) => service.call(operation as OperationId, { token: caller.token, ...request(all) }),
    }),
  )

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

t.test('only a relation that joins two chains waits for another one that does', async (t) => {
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
