import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { withEngine } from '../scripts/operate/carry-over/engine.ts'
import { startStopped } from '../scripts/operate/configured-database.ts'
import { passwordHasher } from '../src/auth/passwords.ts'
import { copyDatabase } from '../src/db/transfer/copy.ts'
import { openDatabase } from '../src/db/engine/client.ts'
import type { ServerConnection } from '../src/db/engine/connection.ts'
import { migrate, readSchema } from '../src/db/engine/migrate.ts'
import { restartHistoryIfCopied } from '../src/db/activity/task-changes.ts'
import { claimFiles } from '../src/jobs/ownership.ts'
import { diskStorage } from '../src/storage/disk.ts'
import { filesFolder } from '../src/storage/open.ts'
import { createEmptyDatabase } from './fixture/database.ts'
import { checkDerived } from './fixture/derived.ts'
import { read, type RecordedRead, startInstallation, tokenFor } from './fixture/installation.ts'
import { sendRequest, type Sent } from '../scripts/client/http-client.ts'
import { isRead } from './fixture/matrix.ts'
import { operations, prepareOperations } from './fixture/operations.ts'
import { runProcess, temporaryFolder } from './fixture/process.ts'
import { backupOf, dataOf, recordingOf, schemaOf, versions } from './fixture/releases.ts'
import { authenticator } from './fixture/second-factor.ts'
import { type Service, testHashing } from './fixture/service.ts'

/**
 * Upgrades from every release: an installation with data of every kind answers as its version did. `npm run release:prepare` makes the
 * folders of test/releases.
 */

const serverUrl = process.env.DATABASE_URL ?? ''

/** The versions that ran PostgreSQL in WebAssembly where no server was configured. */
const inWebAssembly: ReadonlySet<string> = new Set(['0.1.0', '0.2.0'])

/** Tables that may be empty in a backup. */
const emptyTables: Readonly<Record<string, string>> = {
  file_deletions: 'a job deletes each file at once',
  leases: 'a job has one while it runs',
  logout_tokens: 'a provider sends one, and it expires within minutes',
  oidc_codes: 'a code is used up at once',
}

interface Installation {
  readonly dataDir: string
  readonly connection: ServerConnection
}

/** The backup of an installation without DATABASE_URL, as an operator brings it to this version. */
const upgradeOwn = async (t: Test, version: string): Promise<Installation> => {
  const dataDir = await temporaryFolder(t)
  const command = inWebAssembly.has(version) ? 'carry-over' : 'restore'
  const program = fileURLToPath(new URL(`../scripts/operate/${command}.ts`, import.meta.url))
  const { code, output } = await runProcess({ DATA_DIR: dataDir }, program, [await backupOf(t, version)])
  t.equal(code, 0, output)
  return { dataDir, connection: await startStopped(t, { dataDir, postgresBin: null }) }
}

/** An installation on a server, whose schema was that of the version. */
const upgradeServer = async (t: Test, version: string): Promise<Installation> => {
  const dataDir = await dataOf(t, version)
  const { options: connection } = await createEmptyDatabase(t, serverUrl)
  await withEngine(join(dataDir, 'postgres'), (earlier) =>
    copyDatabase(earlier, connection, { schema: schemaOf(version) }),
  )
  await migrate(connection)
  const [db, storage] = [openDatabase(connection), await diskStorage(filesFolder({ dataDir }))]
  await claimFiles(storage, await restartHistoryIfCopied(db)).finally(() => db.close())
  return { dataDir, connection }
}

const startUpgraded = (t: Test, { dataDir, connection }: Installation): Promise<Service> =>
  startInstallation(t, dataDir, connection, passwordHasher({ parameters: testHashing }))

/** An entity tag without the hash of an expanded representation, which new fields change. */
const withoutHash = (value: unknown, path: string): unknown =>
  path === '/headers/etag' ? String(value).replace(/\.[\w-]+"$/, '"') : value

/** The names since 0.3 of fields of responses. */
const renamedFields: Readonly<Record<string, string>> = { enabled: 'is_enabled', finished_at: 'ended_at' }

/** A recorded value with the names of 0.3, and the fields of an occurrence in one object, as they are since. */
const asNow = (recorded: unknown): unknown => {
  if (Array.isArray(recorded)) return recorded.map(asNow)
  if (typeof recorded !== 'object' || recorded === null) return recorded
  const values = Object.fromEntries(
    Object.entries(recorded).map(([name, value]) => [renamedFields[name] ?? name, asNow(value)]),
  )
  if (!('occurrence_number' in values)) return values
  const { series_id, occurrence_number: number, occurrence_at: at, occurrence_on: on, ...others } = values
  const { next_task_id, ...rest } = others
  return { ...rest, occurrence: series_id === null ? null : { series_id, number, at, on, next_task_id } }
}

/** The paths of what a recorded value has and the current one has not. New fields are allowed. */
const differences = (recorded: unknown, current: unknown, path = ''): readonly string[] => {
  if (typeof recorded !== 'object' || recorded === null || typeof current !== 'object' || current === null)
    return withoutHash(recorded, path) === withoutHash(current, path)
      ? []
      : [`${path}: ${JSON.stringify(current)} instead of ${JSON.stringify(recorded)}`]
  if (Array.isArray(recorded) && Array.isArray(current) && recorded.length !== current.length)
    return [`${path}: ${current.length} items instead of ${recorded.length}`]
  const fields = new Map<string, unknown>(Object.entries(current))
  return Object.entries(recorded).flatMap(([name, value]) =>
    differences(value, fields.get(name), `${path}/${name}`),
  )
}

t.test('migrations that were released stay as they were', async (t) => {
  const current = readSchema()
  for (const version of versions) {
    const { migrations, routines } = schemaOf(version)
    t.strictSame(current.migrations.slice(0, migrations.length), migrations, `migrations of ${version}`)
    const isNewer = current.routines.revision > routines.revision
    t.ok(isNewer || current.routines.hash === routines.hash, 'changed routines have a higher revision')
  }
})

t.test('the newest release has rows in every table', async (t) => {
  for (const version of versions.slice(-1)) {
    const { rows } = recordingOf(version)
    const empty = Object.keys(rows).filter((table) => rows[table] === 0)
    t.strictSame(
      empty.filter((table) => emptyTables[table] === undefined),
      [],
      version,
    )
  }
})

/** Compares every read with what it answered before the upgrade. */
const checkReads = async (t: Test, service: Service, version: string): Promise<void> => {
  const { people, reads } = recordingOf(version)
  const sessions = new Map<string, string>()
  for (const [name, { refresh_token }] of Object.entries(people))
    sessions.set(
      name,
      (await service.expect('refreshToken', 200, { body: { refresh_token } })).body.access_token,
    )
  for (const { answer, ...request } of reads) {
    const { operation, by, method, path } = request
    const person = people[by ?? '']
    const token = person && tokenFor(operation, person, sessions.get(by ?? ''))
    t.strictSame(differences(asNow(answer), await read(service.url, request, token)), [], `${method} ${path}`)
  }
}

for (const version of inWebAssembly)
  t.test(`an upgrade from ${version} on a server`, async (t) => {
    const service = await startUpgraded(t, await upgradeServer(t, version))
    await checkReads(t, service, version)
    await checkDerived(t, service.deps.db)
  })

for (const version of versions)
  t.test(`an upgrade from ${version}`, async (t) => {
    const { people, guarded, creation, reads } = recordingOf(version)
    const service = await startUpgraded(t, await upgradeOwn(t, version))
    await t.test('every read is answered as then', (t) => checkReads(t, service, version))

    /** Access tokens of new sessions. */
    const tokens = new Map<string, string>()
    await t.test('passwords, second factors and recovery codes are accepted', async (t) => {
      for (const [name, { email, password }] of Object.entries(people))
        tokens.set(
          name,
          (await service.expect('login', 200, { body: { email, password } })).body.access_token,
        )
      const { email, password, secret, recovery_code } = guarded
      for (const code of [authenticator(secret)(), recovery_code]) {
        const { challenge } = (await service.expect('login', 401, { body: { email, password } })).body
        t.equal((await service.call('completeLogin', { body: { challenge, code } })).status, 200, code)
      }
    })

    await t.test('a repeated creation gets the stored response', async (t) => {
      const { task, body, ...request } = creation
      // As it was: without the fields that tasks have got since.
      const replayed = await sendRequest(`${service.url}/tasks`, {
        method: 'POST',
        headers: {
          ...request.headers,
          authorization: `Bearer ${tokens.get('owner')}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
      })
      t.equal(replayed.headers.get('idempotency-replayed'), 'true')
      t.strictSame(await json(replayed.body), task)
    })

    const admin = await service.register('new-admin')
    const promotion = { params: { user_id: admin.id }, body: { role: 'admin' } }
    await service.expect('updateUser', 200, { token: tokens.get('admin'), ...promotion })
    const { requestTo } = await prepareOperations(service, admin, { prefix: 'new' })

    await t.test('every event and notification of then has a subject', async (t) => {
      const query = { all: true, limit: 200 }
      const seen = []
      for (let cursor: string | null | undefined; cursor !== null;) {
        const { body } = await service.expect('listEvents', 200, {
          token: admin.token,
          query: { ...query, ...(cursor !== undefined && { cursor }) },
        })
        seen.push(...body.items)
        cursor = body.next_cursor
      }
      for (const token of tokens.values()) {
        const { body } = await service.expect('listNotifications', 200, { token, query: { limit: 200 } })
        seen.push(...body.items)
      }
      t.ok(seen.length > 0)
      for (const { subject } of seen) t.match(subject, { type: /^[a-z]+$/, id: /^[0-9a-f-]{36}$/ })
    })

    /** The write of the first of the methods that the path of a read has. */
    const writeOf = ({ operation, path }: RecordedRead, ...methods: readonly string[]) => {
      const resource = operations.find(({ id }) => id === operation)?.path
      const writes = methods.flatMap((method) =>
        operations.filter((write) => write.path === resource && write.method === method),
      )
      return writes.slice(0, 1).map((write) => ({ write, target: path.split('?', 1)[0] ?? '' }))
    }
    const send = async (target: string, by: string | null, sent: Sent): Promise<number> => {
      const headers = { authorization: `Bearer ${tokens.get(by ?? '')}`, ...sent.headers }
      const { status, body } = await sendRequest(`${service.url}${target}`, { ...sent, headers })
      body.resume()
      return status
    }

    await t.test('what was read then can be changed, with its ETag of then', async (t) => {
      const changed = new Set<string>()
      for (const recorded of reads)
        for (const { write, target } of writeOf(recorded, 'PATCH', 'PUT')) {
          const { etag } = recorded.answer.headers
          if (etag === undefined || changed.has(target)) continue
          changed.add(target)
          const body = JSON.stringify((await requestTo(write)).body)
          const headers = { 'if-match': etag, 'content-type': 'application/json' }
          t.equal(await send(target, recorded.by, { method: write.method, headers, body }), 200, target)
        }
      t.ok(changed.size > 0)
    })

    await t.test('every write succeeds', async (t) => {
      for (const operation of operations) {
        if (isRead(operation)) continue
        const { status, body } = await service.call(operation.id, await requestTo(operation))
        t.ok(status < 300, operation.id, { body })
      }
    })

    await t.test('what was read then can be deleted', async (t) => {
      const deleted = new Set<string>()
      // Subtasks before their parents.
      for (const recorded of reads.toReversed())
        for (const { target } of writeOf(recorded, 'DELETE')) {
          // The owner manages projects with other members.
          if (deleted.has(target) || target.startsWith('/users/')) continue
          deleted.add(target)
          const { by, headers } = recorded
          t.equal(await send(target, by, { method: 'DELETE', headers }), 204, target)
        }
      t.ok(deleted.size > 0)
    })

    await checkDerived(t, service.deps.db)
  })
