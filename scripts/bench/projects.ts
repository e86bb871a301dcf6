import type { Database } from '../../src/db/engine/client.ts'
import type { OpContext } from '../../src/services/context.ts'
import { selectTaskChanges } from '../../src/db/task-changes.ts'
import { selectTasks } from '../../src/db/task-list.ts'
import { selectTask } from '../../src/db/tasks.ts'
import type { Principal } from '../../src/domain/permissions.ts'
import { taskList, type TaskListQuery } from '../../src/domain/task-filter.ts'
import { withPostgres } from '../postgres.ts'
import { idAt } from './seed-lists.ts'
import { people, seedProjects } from './seed-projects.ts'
import { openWithoutTimeout, seededDatabase } from './list-databases.ts'

/**
 * `npm run bench:projects -- [tasks]`: the cost of projects, on a new PostgreSQL server. Compares lists of a member of 200 projects
 * and of one project, the list of a project in a large and a small installation, and the permission checks of a member of 1,000
 * projects and of an owner. With DATABASE_URL, it seeds databases on that server and keeps them for the next run.
 */

const [large = 1_000_000] = process.argv.slice(2).map(Number)
const small = 10_000
const rounds = 200

const principalOf = (n: number): Principal => ({
  userId: idAt(n),
  role: 'member',
  timeZone: 'UTC',
  taskQuota: null,
  credential: { kind: 'session', sessionId: idAt(n) },
})

const contextOf = (db: Database, person: number): OpContext<Principal> => ({
  db,
  principal: principalOf(person),
  client: { requestId: 'bench', address: '127.0.0.1', userAgent: null },
  ifMatch: null,
  ifNoneMatch: null,
  idempotency: null,
  signal: () => new AbortController().signal,
})

type Read = () => Promise<unknown>

const listRead = (db: Database, person: number, query: TaskListQuery): Read => {
  const principal = principalOf(person)
  const list = taskList(query, { now: new Date(), ...principal })
  if (list === null) throw new Error('A list sorts by a field twice')
  return () => selectTasks(db, principal, list, { limit: 50, offset: 0, position: null, includeTotal: false })
}

const taskRead = (db: Database, person: number, task: string): Read => {
  const ctx = contextOf(db, person)
  return () => selectTask(ctx, task, [])
}

const changesRead = (db: Database, person: number): Read => {
  const ctx = contextOf(db, person)
  return () =>
    selectTaskChanges(ctx, { all: false, projects: null, assignees: null, position: null, limit: 50 })
}

/** The medians of two reads. They alternate, so that other load on the machine affects both. */
const medians = async (reads: readonly [Read, Read]): Promise<readonly [number, number]> => {
  const times: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds + 10; round += 1) {
    for (const [index, read] of reads.entries()) {
      const start = performance.now()
      await read()
      // PostgreSQL decides at the sixth execution of a prepared statement whether to use a generic plan.
      if (round >= 10) times[index as 0 | 1].push(performance.now() - start)
    }
  }
  const median = (values: number[]): number => values.toSorted((a, b) => a - b)[rounds / 2] ?? 0
  return [median(times[0]), median(times[1])]
}

const compare = async (name: string, target: number, reads: readonly [Read, Read]): Promise<void> => {
  const [first, second] = await medians(reads)
  const factor = second / first
  const cells = [name, first.toFixed(2), second.toFixed(2), factor.toFixed(2)]
  console.log([...cells, `<= ${target}${factor <= target ? '' : ' missed'}`].join(' | '))
}

const run = async (url: string): Promise<void> => {
  const open = async (tasks: number) =>
    openWithoutTimeout(
      await seededDatabase(url, { name: `projects_${tasks}`, seed: (client) => seedProjects(client, tasks) }),
    )
  const [db, smallDb] = [await open(large), await open(small)]
  console.log('comparison | p50 ms of the first | p50 ms of the second | factor | target')
  for (const sort of ['-created_at', '-updated_at', 'due', '-due']) {
    const of = (person: number) => listRead(db, person, { sort })
    const reads = [of(people.memberOfOne), of(people.memberOf200)] as const
    await compare(`GET /tasks?sort=${sort}, member of 1 and of 200 projects`, 3, reads)
  }
  const changes = [changesRead(db, people.memberOfOne), changesRead(db, people.memberOf200)] as const
  await compare('GET /tasks/changes, member of 1 and of 200 projects', 3, changes)
  const ofProject = (of: Database, sort: string) =>
    listRead(of, people.memberOf200, { project_id: [idAt(1)], sort })
  for (const sort of ['-created_at', '-updated_at', 'due', 'title']) {
    const reads = [ofProject(smallDb, sort), ofProject(db, sort)] as const
    await compare(`GET /projects/{project_id}/tasks?sort=${sort}, ${small} and ${large} tasks`, 1.5, reads)
  }
  const inProject = idAt(501)
  const personal = idAt(1_000)
  const checks = [taskRead(db, people.owner, personal), taskRead(db, people.memberOf1000, inProject)] as const
  await compare('GET /tasks/{task_id}, owner and member of 1,000 projects', 1.2, checks)
  await db.close()
  await smallDb.close()
}

const { DATABASE_URL } = process.env
await (DATABASE_URL === undefined ? withPostgres(run, { fast: true }) : run(DATABASE_URL))
