import t, { type Test } from 'tap'
import { startPostgres } from '../../scripts/run/postgres.ts'
import { copyTemplate, type ServiceEnvironment } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { settledImport } from '../fixture/imports.ts'
import { startProcess, temporaryFolder } from '../fixture/process.ts'
import { createClient, fileForm } from '../fixture/service.ts'

/** Kills the service while a file is read and while it is imported: each record is created once, and a new project appears whole. */

const personal = 3_000
const inProject = 600
/** How many tasks exist at a kill, at least. */
const kills = [300, 1_200]

const content = [
  'title,project',
  ...Array.from({ length: personal }, (_, n) => `Task ${n},`),
  ...Array.from({ length: inProject }, (_, n) => `Plant ${n},Garden`),
].join('\n')

const importTable = async (t: Test, environment: ServiceEnvironment): Promise<void> => {
  const start = () => startProcess(t, { ...environment })
  let service = await start()
  let client = createClient(service.url)
  const ada = await client.register('ada')
  const { token } = ada
  const { body: uploaded } = await client.expect('createImport', 201, {
    token,
    body: fileForm(content, 'tasks.csv'),
  })
  const params = { import_id: uploaded.id }
  const again = async (): Promise<void> => {
    t.equal(await service.end('SIGKILL'), null)
    service = await start()
    client = createClient(service.url)
  }
  await again()
  // The lease of the process that was killed has to end.
  await eventually('the file is read', async () => (await read()).status === 'ready', 90_000)
  const { version, preview } = await read()
  t.match(preview, { tasks: personal + inProject, projects: 1, refused: 0 })
  await client.expect('runImport', 200, { token, params, body: { version } })

  for (const [index, wanted] of kills.entries()) {
    await eventually(`${wanted} tasks exist`, async () => (await count()) >= wanted, 90_000)
    t.comment(`kill ${index + 1} with ${await count()} tasks`)
    t.equal((await client.expect('listProjects', 200, { token })).body.items.length, 0, 'no project is seen')
    await again()
  }
  await eventually('it has ended', async () => (await read()).poll_after_seconds === null, 120_000)
  const ended = await settledImport(client, ada, uploaded.id)
  t.match(ended, {
    status: 'finished',
    result: { created: personal + inProject + 1, skipped: 0, refused: 0 },
  })
  t.equal(await count(), personal, 'each once')
  const { body: projects } = await client.expect('listProjects', 200, { token })
  t.match(projects.items, [{ name: 'Garden', open_task_count: inProject }])
  t.equal(await service.end('SIGTERM'), 0)

  async function read() {
    return (await client.expect('getImport', 200, { token, params })).body
  }

  async function count(): Promise<number> {
    const query = { project_id: 'none', limit: 1, include_total: true }
    return (await client.expect('listTasks', 200, { token, query })).body.total ?? 0
  }
}

t.test('on the embedded database', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await importTable(t, { DATA_DIR })
})

t.test('on a server', async (t) =>
  importTable(t, { DATA_DIR: await temporaryFolder(t), DATABASE_URL: await startPostgres(t) }),
)
