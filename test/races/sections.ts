import t, { type Test } from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, memberRemoved, type Race, racesOn, roleSet } from '../fixture/races.ts'
import { type Call, type Reply, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Writes to sections that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { skip, resultAfter } = racesOn({ db, options })
const service = await startService(t, { db })
const admin = await service.register('admin')
const manager = await service.register('manager')
const { createProject, setMember } = projectActions(service)
const { createTask, readTask } = taskActions(service)

/** The response to a write of the manager that waits for another session. */
const race = (
  t: Test,
  { operation, call, ...of }: Race & { readonly operation: OperationId; readonly call: Call },
): Promise<Reply> => resultAfter(t, of, () => service.call(operation, { ...call, token: manager.token }))

const holdProject = (project: string): string => held(`projects where id = '${project}'`)

/** What happens to the project while a write of the manager waits, and the status of the write. */
const changes = {
  'the manager becomes a viewer': {
    sql: (project: string) => roleSet({ project, user: manager.id }, 'viewer'),
    status: 403,
  },
  'the manager is removed': {
    sql: (project: string) => memberRemoved({ project, user: manager.id }),
    status: 404,
  },
  'the project is moved to the trash': {
    sql: (project: string) => `update projects set deleted_at = now() where id = '${project}'`,
    status: 404,
  },
  'the project is archived': {
    sql: (project: string) => `update projects set archived_at = now() where id = '${project}'`,
    status: 409,
  },
} as const

/** A project with two sections, which the manager may edit. */
const newSections = async () => {
  const { id: project } = await createProject(admin)
  await setMember(admin, { id: project }, manager, 'editor')
  const create = async (name: string): Promise<string> => {
    const request = { token: manager.token, params: { project_id: project }, body: { name } }
    return (await service.expect('createSection', 201, request)).body.id
  }
  const [section, other] = [await create('One'), await create('Other')]
  const ofSection = { project_id: project, section_id: section }
  /** The names of the sections after the race. */
  const names = async (): Promise<string> => {
    const rows = await db.run(
      `select name from sections where project_id = '${project}' order by position`,
      [],
    )
    return rows.map(({ name }) => name).join(' ')
  }
  return { project, section, other, ofSection, names }
}

type Sections = Awaited<ReturnType<typeof newSections>>

const writesOfSections: readonly (readonly [OperationId, string, (sections: Sections) => Call])[] = [
  ['createSection', '', ({ project }) => ({ params: { project_id: project }, body: { name: 'New' } })],
  ['updateSection', ' renames and', ({ ofSection }) => ({ params: ofSection, body: { name: 'Changed' } })],
  ['updateSection', ' moves and', ({ ofSection, other }) => ({ params: ofSection, body: { after: other } })],
  ['deleteSection', '', ({ ofSection }) => ({ params: ofSection })],
]

const changesOfSection = {
  'the section is changed': {
    sql: (section: string) => `update sections set version = version + 1 where id = '${section}'`,
    status: 412,
  },
  'the section is deleted': {
    sql: (section: string) => `delete from sections where id = '${section}'`,
    status: 404,
  },
} as const

for (const [operation, how, callOf] of writesOfSections) {
  for (const [what, { sql, status }] of Object.entries(changes))
    t.test(`${operation}${how} waits while ${what}: ${status}`, { skip }, async (t) => {
      const sections = await newSections()
      const { project } = sections
      const hold = [holdProject(project), held(`sections where project_id = '${project}'`)]
      const reply = await race(t, { hold, operation, call: callOf(sections), change: sql(project) })
      t.equal(reply.status, status)
      t.equal(await sections.names(), 'One Other')
    })
  if (operation !== 'createSection')
    for (const [what, { sql, status }] of Object.entries(changesOfSection))
      t.test(`${operation}${how} waits while ${what}: ${status}`, { skip }, async (t) => {
        const sections = await newSections()
        const { section } = sections
        const reply = await race(t, {
          hold: [held(`sections where id = '${section}'`)],
          operation,
          call: { ...callOf(sections), headers: status === 412 ? { 'if-match': '"1"' } : {} },
          change: sql(section),
        })
        t.equal(reply.status, status)
      })
}

for (const [operation, , callOf] of writesOfSections.slice(0, 2))
  t.test(`${operation} waits while the section in \`before\` is deleted: 422`, { skip }, async (t) => {
    const sections = await newSections()
    const { project, other } = sections
    const call = callOf(sections)
    const { status } = await race(t, {
      hold: [holdProject(project), held(`sections where id = '${other}'`)],
      operation,
      call: { ...call, body: { name: 'Placed', before: other } },
      change: `delete from sections where id = '${other}'`,
    })
    t.equal(status, 422)
    t.equal(await sections.names(), 'One')
  })

t.test('deleteSection waits while a task is put into the section: it leaves it', { skip }, async (t) => {
  const { project, section, ofSection } = await newSections()
  const { id } = await createTask(manager, { project_id: project })
  const { status } = await race(t, {
    hold: [`update tasks set section_id = '${section}' where id = '${id}'`],
    operation: 'deleteSection',
    call: { params: ofSection },
  })
  t.equal(status, 204)
  t.equal((await readTask(manager, id)).task.section_id, null)
})

t.test(
  'deleteSection waits while a task is moved to another section: it stays there',
  { skip },
  async (t) => {
    const { project, section, other, ofSection } = await newSections()
    const { id } = await createTask(manager, { project_id: project, section_id: section })
    const { status } = await race(t, {
      hold: [`update tasks set section_id = '${other}' where id = '${id}'`],
      operation: 'deleteSection',
      call: { params: ofSection },
    })
    t.equal(status, 204)
    t.equal((await readTask(manager, id)).task.section_id, other)
  },
)
