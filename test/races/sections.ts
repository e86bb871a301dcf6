import t, { type Test } from 'tap'
import type { OperationId } from '../../src/contract/contract.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { projectActions } from '../fixture/projects.ts'
import { held, type Race, racesOn } from '../fixture/races.ts'
import { type Call, type Reply, startService } from '../fixture/service.ts'
import { taskActions } from '../fixture/tasks.ts'

/** Writes to sections that wait for a row while what they depend on changes. */

const { db, options } = await openTestDatabase(t)
const { resultAfter, expectOutcomes } = racesOn({ db, options })
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

const projectOutcomes = {
  'the caller becomes a viewer': 403,
  'the caller is removed': 404,
  'the project is moved to the trash': 404,
  'the project is archived': 409,
} as const

const sectionOutcomes = { 'the section is changed': 412, 'the section is deleted': 404 } as const

/** A project with two sections, which the manager may edit. */
const newSections = async () => {
  const { id: project } = await createProject(admin)
  await setMember(admin, { id: project }, manager, 'editor')
  const create = async (name: string): Promise<string> => {
    const request = { token: manager.token, params: { project_id: project }, body: { name } }
    return (await service.expect('createSection', 201, request)).body.id
  }
  const [section, other] = [await create('One'), await create('Other')]
  const path = { project_id: project, section_id: section }
  /** The names of the sections after the race. */
  const names = async (): Promise<string> => {
    const rows = await db.run(
      `select name from sections where project_id = '${project}' order by position`,
      [],
    )
    return rows.map(({ name }) => name).join(' ')
  }
  return { project, section, other, path, names, ids: { caller: manager.id, project, section } }
}

type Sections = Awaited<ReturnType<typeof newSections>>

const ifFirst = { 'if-match': '"1"' }

const writesOfSections: readonly (readonly [OperationId, string, (sections: Sections) => Call])[] = [
  ['createSection', '', ({ project }) => ({ params: { project_id: project }, body: { name: 'New' } })],
  [
    'updateSection',
    ' renames and',
    ({ path }) => ({ params: path, headers: ifFirst, body: { name: 'Changed' } }),
  ],
  [
    'updateSection',
    ' moves and',
    ({ path, other }) => ({ params: path, headers: ifFirst, body: { after: other } }),
  ],
  ['deleteSection', '', ({ path }) => ({ params: path, headers: ifFirst })],
]

for (const [operation, how, callOf] of writesOfSections) {
  const send = (sections: Sections) => service.call(operation, { ...callOf(sections), token: manager.token })
  t.test(`${operation}${how} waits for its project`, (t) =>
    expectOutcomes(t, projectOutcomes, {
      prepare: newSections,
      send: async (sections) => {
        const reply = await send(sections)
        t.equal(await sections.names(), 'One Other')
        return reply
      },
    }),
  )
  if (operation !== 'createSection')
    t.test(`${operation}${how} waits for its section`, (t) =>
      expectOutcomes(t, sectionOutcomes, { prepare: newSections, send }),
    )
}

for (const [operation, , callOf] of writesOfSections.slice(0, 2))
  t.test(`${operation} waits while the section in \`before\` is deleted: 422`, async (t) => {
    const sections = await newSections()
    const { project, other } = sections
    const { headers: _, ...call } = callOf(sections)
    const { status } = await race(t, {
      hold: [holdProject(project), held(`sections where id = '${other}'`)],
      operation,
      call: { ...call, body: { name: 'Placed', before: other } },
      change: `delete from sections where id = '${other}'`,
    })
    t.equal(status, 422)
    t.equal(await sections.names(), 'One')
  })

t.test('deleteSection waits while a task is put into the section: it leaves it', async (t) => {
  const { project, section, path } = await newSections()
  const { id } = await createTask(manager, { project_id: project })
  const { status } = await race(t, {
    hold: [`update tasks set section_id = '${section}' where id = '${id}'`],
    operation: 'deleteSection',
    call: { params: path },
  })
  t.equal(status, 204)
  t.equal((await readTask(manager, id)).task.section_id, null)
})

t.test('deleteSection waits while a task is moved to another section: it stays there', async (t) => {
  const { project, section, other, path } = await newSections()
  const { id } = await createTask(manager, { project_id: project, section_id: section })
  const { status } = await race(t, {
    hold: [`update tasks set section_id = '${other}' where id = '${id}'`],
    operation: 'deleteSection',
    call: { params: path },
  })
  t.equal(status, 204)
  t.equal((await readTask(manager, id)).task.section_id, other)
})
