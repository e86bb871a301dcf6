import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import manifest from '../../package.json' with { type: 'json' }
import { skip } from '../run/commands.ts'
import { findBreaking, findEarlyRemovals, findOasdiff, validateVersion } from './breaking-changes.ts'

/**
 * Fails if openapi.yaml breaks clients of the last released contract without a matching version, or if CHANGELOG.md has no entry
 * for the version. The default for the released contract is that of the newest folder in test/releases; an argument overrides it.
 */

const inRepository = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

const currentFile = inRepository('openapi.yaml')
const [newest] = globSync('test/releases/*/openapi.json', { cwd: inRepository('') }).toSorted((one, other) =>
  other.localeCompare(one, 'en', { numeric: true }),
)
const releasedFile = process.argv[2] ?? (newest === undefined ? null : inRepository(newest))

interface Schema {
  readonly required: string[]
  readonly properties: Record<string, { maxLength?: number; default?: unknown }>
}

type Enum = { enum: string[] }

type GrowingEnum = { 'x-extensible-enum': string[] }

interface Operation {
  readonly responses: Record<string, unknown>
  readonly parameters: unknown[]
  deprecated?: boolean
  'x-sunset'?: string
}

/** The parts of openapi.yaml that the known changes modify. */
interface Document {
  readonly info: { readonly version: string }
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly responses: { readonly TaskRead: { readonly headers: Record<string, unknown> } }
    readonly schemas: {
      readonly Task: Schema
      readonly TaskCreate: Schema
      readonly TaskTitle: { maxLength: number }
      readonly TaskStatus: Enum
      readonly TaskPriority: Enum
      readonly AuditAction: GrowingEnum
      readonly ProblemCode: GrowingEnum
    }
  }
}

const read = (file: string): Document => load(readFileSync(file, 'utf8')) as Document

type Schemas = Document['components']['schemas']

const operationOf = ({ paths }: Document, path: string, method: string): Operation => {
  const operation = paths[path]?.[method]
  if (operation === undefined) throw new Error(`openapi.yaml has no ${method} ${path}`)
  return operation
}

const growing = ({ enum: values, ...schema }: Enum) => ({ ...schema, 'x-extensible-enum': values })

const inSchemas =
  (change: (schemas: Schemas) => void) =>
  ({ components }: Document): void =>
    change(components.schemas)

type Change = (document: Document) => void

/** Changes of the current contract by name, some with a change of the released one. */
type Changes = Readonly<Record<string, Change | readonly [released: Change, current: Change]>>

const deprecate = (document: Document, sunset: string): void => {
  const operation = operationOf(document, '/tags/{tag_id}', 'get')
  operation.deprecated = true
  operation['x-sunset'] = sunset
}

const removedOperation = (sunset: string): readonly [Change, Change] => [
  (document) => deprecate(document, sunset),
  ({ paths }) => void delete paths['/tags/{tag_id}']?.get,
]

const parameter = { name: 'proof', in: 'query', schema: { type: 'string' } }

/** Allowed in any version by docs/guides/compatibility.md. */
const harmless: Changes = {
  'no change': () => undefined,
  'a new operation': ({ paths }) => {
    paths['/proof'] = { get: { responses: { '204': { description: 'Done.' } }, parameters: [] } }
  },
  'a new optional request field and a new response field': inSchemas(({ Task, TaskCreate }) => {
    TaskCreate.properties.proof = {}
    Task.properties.proof = {}
    Task.required.push('proof')
  }),
  'a new optional parameter': (document) =>
    void operationOf(document, '/tasks', 'get').parameters.push(parameter),
  'a new response header': ({ components }) => {
    components.responses.TaskRead.headers.Proof = { schema: { type: 'string' } }
  },
  'a new problem status': (document) => {
    operationOf(document, '/tasks/{task_id}', 'get').responses['410'] = { description: 'Gone.' }
  },
  'new values of enums that may grow': inSchemas(({ AuditAction, ProblemCode }) => {
    AuditAction['x-extensible-enum'].push('proof')
    ProblemCode['x-extensible-enum'].push('proof')
  }),
  'a deprecation': (document) => deprecate(document, '2999-01-01'),
}

/** Allowed only in a version that may break clients. */
const breaking: Changes = {
  'a removed response field': inSchemas(({ Task }) => {
    delete Task.properties.priority
    Task.required.splice(Task.required.indexOf('priority'), 1)
  }),
  'a new required request field': inSchemas(({ TaskCreate }) => {
    TaskCreate.properties.proof = {}
    TaskCreate.required.push('proof')
  }),
  'a shorter request text': inSchemas(({ TaskTitle }) => {
    TaskTitle.maxLength -= 1
  }),
  'another default': inSchemas(({ TaskCreate }) => {
    if (TaskCreate.properties.description !== undefined) TaskCreate.properties.description.default = 'proof'
  }),
  'a removed value of an enum in requests': inSchemas(({ TaskPriority }) => void TaskPriority.enum.pop()),
  'a new value of an enum that may not grow': inSchemas(
    ({ TaskStatus }) => void TaskStatus.enum.push('proof'),
  ),
  'a removed value of an enum that may grow': inSchemas(
    ({ AuditAction }) => void AuditAction['x-extensible-enum'].pop(),
  ),
  'an enum that may grow from now on': inSchemas(
    (schemas) => void Object.assign(schemas, { TaskStatus: growing(schemas.TaskStatus) }),
  ),
  'a new parameter in the middle of the others': (document) =>
    void operationOf(document, '/tasks', 'get').parameters.splice(3, 0, parameter),
  'a removed response header': ({ components }) => void delete components.responses.TaskRead.headers.ETag,
  'a removed operation': ({ paths }) => void delete paths['/tags/{tag_id}'],
  'a removed operation whose sunset has passed': removedOperation('2020-01-01'),
}

/** Allowed in no version. */
const early: Changes = { 'an operation removed before its sunset': removedOperation('2999-01-01') }

/** Throws unless oasdiff classifies every known change correctly. */
const verifyTool = (oasdiff: string): void => {
  const verify = (changes: Changes, expected: { breaking: boolean; early: boolean }): void => {
    for (const [name, change] of Object.entries(changes)) {
      const [released, current] = [read(currentFile), read(currentFile)]
      const [before, after] = typeof change === 'function' ? [() => undefined, change] : change
      before(released)
      after(current)
      const found = findBreaking(oasdiff, released, current)
      const removals = findEarlyRemovals(oasdiff, released, current)
      if (found.length > 0 !== expected.breaking || removals.length > 0 !== expected.early)
        throw new Error(
          [
            `"${name}" has ${found.length} breaking changes and ${removals.length} early removals`,
            ...found,
            ...removals,
          ].join('\n'),
        )
    }
  }
  verify(harmless, { breaking: false, early: false })
  verify(breaking, { breaking: true, early: false })
  verify(early, { breaking: true, early: true })
  const { length } = Object.keys({ ...harmless, ...breaking, ...early })
  console.log(`oasdiff classifies all ${length} known changes correctly`)
}

const check = (): void => {
  const current = read(currentFile)
  const { version } = current.info
  const released = releasedFile === null ? null : read(releasedFile)
  const oasdiff = findOasdiff()
  if (oasdiff === null) skip('Go is not installed')
  else verifyTool(oasdiff)
  const canCompare = oasdiff !== null && released !== null
  const changes = canCompare ? findBreaking(oasdiff, released, current) : []
  const faults = validateVersion({
    version,
    released: released?.info.version ?? null,
    breaking: changes,
    earlyRemovals: canCompare ? findEarlyRemovals(oasdiff, released, current) : [],
    changelog: readFileSync(inRepository('CHANGELOG.md'), 'utf8'),
  })
  if (manifest.version !== version)
    faults.push(`package.json has version ${manifest.version}, not ${version}`)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  if (released === null)
    console.log(`no contract has been released yet, so ${version} has no breaking changes`)
  if (canCompare)
    console.log(
      [`${version} has ${changes.length} breaking changes since ${released.info.version}`, ...changes].join(
        '\n',
      ),
    )
}

try {
  check()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
