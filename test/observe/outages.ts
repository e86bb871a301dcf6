import t from 'tap'
import {
  DatabaseUnavailable,
  NotSent,
  SchemaPending,
  SerializationFailure,
  StatementCancelled,
  TooManyConflicts,
  TooManyStatements,
} from '../../src/db/engine/errors.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { diskStorage } from '../../src/storage/disk.ts'
import { StorageUnavailable } from '../../src/storage/storage.ts'
import { openTestDatabase } from '../fixture/database.ts'
import { temporaryFolder } from '../fixture/process.ts'
import { startService } from '../fixture/service.ts'

/** Log lines during outages of the database and the storage. */

const { db } = await openTestDatabase(t)
const disk = await diskStorage(await temporaryFolder(t))
let isPending = false
let isAway = false
let isSlow = false
let isLate = false
/** Transactions after which others fail. */
let freeTransactions = Infinity
let isBusy = false
const lines: Record<string, unknown>[] = []
const service = await startService(t, {
  config: { logLevel: 'info' },
  logStream: { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  db: {
    ...db,
    async run(...parameters) {
      if (isPending) throw new SchemaPending()
      if (isAway) throw new DatabaseUnavailable({ cause: new Error('connect ECONNREFUSED') })
      if (isLate && /from "?tasks/.test(parameters[0])) throw new NotSent()
      if (isSlow && /from "?tasks/.test(parameters[0])) throw new StatementCancelled()
      if (isBusy && parameters[0].includes('purge.')) throw new TooManyStatements()
      return db.run(...parameters)
    },
    async transaction(...parameters) {
      freeTransactions -= 1
      if (freeTransactions < 0) throw new TooManyConflicts({ cause: new SerializationFailure() })
      return db.transaction(...parameters)
    },
  },
  storage: {
    ...disk,
    async check() {
      if (isAway) throw new StorageUnavailable({ cause: new Error('EIO') })
    },
  },
})
const { token } = await service.register('ada')

t.test('an outage is logged once, and each refused request with the reason', async (t) => {
  lines.length = 0
  isPending = true
  await service.expect('getReadiness', 503)
  isPending = false
  isAway = true
  for (let time = 0; time < 5; time += 1) await service.expect('listTasks', 503, { token })
  await service.expect('getReadiness', 503)
  isAway = false
  await service.expect('listTasks', 200, { token })

  const reported = lines.filter(({ msg }) => msg !== 'request')
  t.match(reported, [
    { level: 50, msg: /^The database is unavailable/, reason: /ECONNREFUSED/ },
    { level: 50, msg: /^The file storage is unavailable/, reason: /EIO/ },
  ])
  t.equal(reported.length, 2)
  const [first, ...others] = lines.filter(({ operation_id: id }) => id === 'listTasks')
  t.match(first, { status: 503, problem: 'service_unavailable', reason: /ECONNREFUSED/ })
  t.equal(others.at(-1)?.status, 200)
  t.notOk(others.at(-1)?.reason)
  t.notMatch(JSON.stringify(lines), /\.ts:/, 'no stack traces')
})

t.test('a write that met others in every attempt is to be sent again, and is no outage', async (t) => {
  lines.length = 0
  freeTransactions = 0
  const { body, headers } = await service.expect('createTask', 503, { token, body: { title: 'Once' } })
  freeTransactions = Infinity
  t.match(body, { code: 'write_conflict', type: '/problems/write_conflict' })
  t.ok(Number(headers.get('retry-after')) > 0)
  await service.expect('createTask', 201, { token, body: { title: 'Once' } })
  t.match(lines, [
    { msg: 'request', status: 503, problem: 'write_conflict', reason: /kept changing/ },
    { msg: 'request', status: 201 },
  ])
  t.equal(lines.length, 2, 'no other line')
})

t.test('a statement that took too long is no outage', async (t) => {
  const { id } = (await service.expect('createTask', 201, { token, body: { title: 'Slow' } })).body
  lines.length = 0
  isSlow = true
  await service.expect('listTasks', 422, { token })
  await service.expect('getTask', 503, { token, params: { task_id: id } })
  isSlow = false
  t.match(lines, [
    { msg: 'request', status: 422, problem: 'list_too_expensive' },
    { msg: 'request', status: 503, problem: 'service_unavailable' },
  ])
  t.equal(lines.length, 2, 'no other line')

  const { forStatements, registry } = createMetrics(() => 0)
  await t.rejects(forStatements('select', () => Promise.reject(new StatementCancelled())))
  t.match(await registry.metrics(), /statement_duration_seconds_count\{outcome="cancelled"\} 1$/m)
})

t.test('a statement that waited too long for its turn is no outage', async (t) => {
  lines.length = 0
  isLate = true
  await service.expect('listTasks', 503, { token })
  isLate = false
  t.match(lines, [{ msg: 'request', status: 503, problem: 'service_unavailable' }])
  t.equal(lines.length, 1, 'no other line')
})

t.test('a write of which a part is committed does not say that nothing was done', async (t) => {
  const { id: project_id } = (await service.expect('createProject', 201, { token, body: { name: 'One' } }))
    .body
  const section = { token, params: { project_id }, body: { name: 'Large' } }
  const { id: section_id } = (await service.expect('createSection', 201, section)).body
  const create = Array.from({ length: 101 }, () => ({ title: 'One of many', project_id, section_id }))
  await service.expect('batchTasks', 200, { token, body: { create } })
  const deletion = { token, params: { project_id, section_id } }
  freeTransactions = 1
  const { body } = await service.expect('deleteSection', 504, deletion)
  freeTransactions = Infinity
  t.match(body, { code: 'outcome_unknown' })
  await service.expect('deleteSection', 204, deletion)
})

t.test('what a job does as well is left to it', async () => {
  const { token: gone } = await service.register('gone')
  isBusy = true
  await service.expect('deleteUser', 204, { token: gone, params: { user_id: 'me' } })
  isBusy = false
})
