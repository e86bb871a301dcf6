import t from 'tap'
import { type Call, startService } from '../fixture/service.ts'
import { unknownId } from '../fixture/tasks.ts'

const service = await startService(t)
const admin = await service.register('admin')
const ada = await service.register('ada')
const bob = await service.register('bob')

t.test('createProject', async (t) => {
  const { token } = ada

  t.test('201: the creator manages it', async (t) => {
    const { body, headers } = await service.expect('createProject', 201, {
      token,
      body: { name: ' Website ' },
    })
    const { id, created_at, updated_at, ...rest } = body
    t.strictSame(rest, {
      name: 'Website',
      description: '',
      color: null,
      archived_at: null,
      role: 'manager',
      member_count: 1,
      open_task_count: 0,
      version: 1,
    })
    t.equal(created_at, updated_at)
    t.equal(headers.get('location'), `/projects/${id}`)
    const read = await service.expect('getProject', 200, { token, params: { project_id: id } })
    t.strictSame(read.body, body)
    t.equal(read.headers.get('etag'), headers.get('etag'))
  })
})

t.test('getProject', async (t) => {
  const { body: project } = await service.expect('createProject', 201, {
    token: ada.token,
    body: { name: 'Seen' },
  })
  const params = { project_id: project.id }

  t.test('200: an administrator who is no member has no role', async (t) => {
    const { body } = await service.expect('getProject', 200, { token: admin.token, params })
    t.strictSame(body, { ...project, role: null })
  })

  t.test('404: for others, as if it did not exist', async () => {
    await service.expect('getProject', 404, { token: bob.token, params })
    await service.expect('getProject', 404, { token: ada.token, params: { project_id: unknownId } })
  })
})

t.test('listProjects', async (t) => {
  const carl = await service.register('carl')
  const { token } = carl
  const create = async (name: string) =>
    (await service.expect('createProject', 201, { token, body: { name } })).body
  const created = [await create('Beta'), await create('Äpfel'), await create('gamma')]
  const names = async (query: NonNullable<Call['query']>, as = token) =>
    (await service.expect('listProjects', 200, { token: as, query })).body.items.map(({ name }) => name)

  t.test('200: own projects, newest first', async (t) => {
    const { body } = await service.expect('listProjects', 200, { token })
    t.strictSame(body.items, created.toReversed())
  })

  t.test('200: sorted and searched', async (t) => {
    t.strictSame(await names({ sort: 'name' }), ['Äpfel', 'Beta', 'gamma'])
    t.strictSame(await names({ sort: '-name', limit: 2 }), ['gamma', 'Beta'])
    t.strictSame(await names({ sort: 'updated_at' }), ['Beta', 'Äpfel', 'gamma'])
    t.strictSame(await names({ q: 'APF' }), ['Äpfel'])
  })

  t.test('200: all of the installation, for an administrator', async (t) => {
    t.strictSame(await names({}, admin.token), [])
    t.ok((await names({ all: true }, admin.token)).includes('gamma'))
  })
})
