import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import manifest from '../package.json' with { type: 'json' }
import { findBreaking, findEarlyRemovals, findOasdiff, judge } from './compatibility.ts'

/**
 * Fails when openapi.yaml breaks clients of the last released contract and its version does not say so, or when
 * CHANGELOG.md does not know its version. The last released contract is kept beside this script, as it was released;
 * another may be given as the argument.
 */

const inRepository = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url))

const currentFile = inRepository('openapi.yaml')
const releasedFile = process.argv[2] ?? inRepository('scripts/released/openapi.yaml')

interface Schema {
  readonly required: string[]
  readonly properties: Record<string, { maxLength?: number; default?: unknown }>
}

type Enum = { enum: string[] }

interface Operation {
  readonly responses: Record<string, unknown>
  readonly parameters: unknown[]
  deprecated?: boolean
  'x-sunset'?: string
}

/** The parts of openapi.yaml that the proof changes. */
interface Document {
  readonly info: { readonly version: string }
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly responses: { readonly TaskRead: { readonly headers: Record<string, unknown> } }
    readonly schemas: {
      readonly Task: Schema
      readonly TaskCreate: Schema
      readonly TaskTitle: { maxLength: number }
      readonly TaskState: Enum
      readonly TaskPriority: Enum
      readonly AuditAction: Enum
      readonly ProblemCode: Enum
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

const inSchemas =
  (change: (schemas: Schemas) => void) =>
  ({ components }: Document): void =>
    change(components.schemas)

interface KnownChange {
  readonly name: string
  readonly change: (document: Document) => void
  /** What the released contract has and this one does not. */
  readonly released?: (document: Document) => void
}

/** What the section "Compatibility" lets any version do. */
const harmless: readonly KnownChange[] = [
  { name: 'no change', change() {} },
  {
    name: 'a new operation',
    change({ paths }) {
      paths['/proof'] = { get: { responses: { '204': { description: 'Done.' } }, parameters: [] } }
    },
  },
  {
    name: 'a new optional request field and a new response field',
    change: inSchemas(({ Task, TaskCreate }) => {
      TaskCreate.properties.proof = {}
      Task.properties.proof = {}
      Task.required.push('proof')
    }),
  },
  {
    name: 'a new optional parameter',
    change(document) {
      const schema = { type: 'string' }
      operationOf(document, '/tasks', 'get').parameters.push({ name: 'proof', in: 'query', schema })
    },
  },
  {
    name: 'a new response header',
    change({ components }) {
      components.responses.TaskRead.headers.Proof = { schema: { type: 'string' } }
    },
  },
  {
    name: 'a new problem status',
    change(document) {
      operationOf(document, '/tasks/{task_id}', 'get').responses['410'] = { description: 'Gone.' }
    },
  },
  {
    name: 'new values of enums that may grow',
    change: inSchemas(({ AuditAction, ProblemCode }) => {
      AuditAction.enum.push('proof')
      ProblemCode.enum.push('proof')
    }),
  },
  {
    name: 'a deprecation',
    change(document) {
      const operation = operationOf(document, '/tags/{tag_id}', 'get')
      operation.deprecated = true
      operation['x-sunset'] = '2999-01-01'
    },
  },
]

/** What only a version that may break clients may do. */
const breaking: readonly KnownChange[] = [
  {
    name: 'a removed response field',
    change: inSchemas(({ Task }) => {
      delete Task.properties.priority
      Task.required.splice(Task.required.indexOf('priority'), 1)
    }),
  },
  {
    name: 'a new required request field',
    change: inSchemas(({ TaskCreate }) => {
      TaskCreate.properties.proof = {}
      TaskCreate.required.push('proof')
    }),
  },
  {
    name: 'a shorter request text',
    change: inSchemas(({ TaskTitle }) => {
      TaskTitle.maxLength -= 1
    }),
  },
  {
    name: 'another default',
    change: inSchemas(({ TaskCreate }) => {
      if (TaskCreate.properties.description !== undefined) TaskCreate.properties.description.default = 'proof'
    }),
  },
  {
    name: 'a removed value of an enum in requests',
    change: inSchemas(({ TaskPriority }) => void TaskPriority.enum.pop()),
  },
  {
    name: 'a new value of an enum that may not grow',
    change: inSchemas(({ TaskState }) => void TaskState.enum.push('proof')),
  },
  {
    name: 'a removed value of an enum that may grow',
    change: inSchemas(({ AuditAction }) => void AuditAction.enum.pop()),
  },
  {
    name: 'a removed response header',
    change({ components }) {
      delete components.responses.TaskRead.headers.ETag
    },
  },
  {
    name: 'a removed operation',
    change({ paths }) {
      delete paths['/tags/{tag_id}']
    },
  },
  {
    name: 'a removed operation whose sunset has passed',
    released(document) {
      const operation = operationOf(document, '/tags/{tag_id}', 'get')
      operation.deprecated = true
      operation['x-sunset'] = '2020-01-01'
    },
    change({ paths }) {
      delete paths['/tags/{tag_id}']?.get
    },
  },
]

/** What no version may do. */
const early: readonly KnownChange[] = [
  {
    name: 'an operation removed before its sunset',
    released(document) {
      const operation = operationOf(document, '/tags/{tag_id}', 'get')
      operation.deprecated = true
      operation['x-sunset'] = '2999-01-01'
    },
    change({ paths }) {
      delete paths['/tags/{tag_id}']?.get
    },
  },
]

/** Throws unless each known change is seen for what it is: a tool that sees nothing, or everything, is found out. */
const proveTool = (oasdiff: string): void => {
  const prove = (changes: readonly KnownChange[], expected: { breaking: boolean; early: boolean }): void => {
    for (const { name, change, released: prepare } of changes) {
      const [released, current] = [read(currentFile), read(currentFile)]
      prepare?.(released)
      change(current)
      const seen = findBreaking(oasdiff, released, current)
      const removals = findEarlyRemovals(oasdiff, released, current)
      if (seen.length > 0 !== expected.breaking || removals.length > 0 !== expected.early)
        throw new Error(
          [
            `"${name}" has ${seen.length} breaking changes and ${removals.length} early removals`,
            ...seen,
            ...removals,
          ].join('\n'),
        )
    }
  }
  prove(harmless, { breaking: false, early: false })
  prove(breaking, { breaking: true, early: false })
  prove(early, { breaking: true, early: true })
  console.log(`oasdiff classifies all ${[...harmless, ...breaking, ...early].length} known changes correctly`)
}

/** The tool, proved; null when there is none. */
const prepareTool = (): string | null => {
  const oasdiff = findOasdiff()
  if (oasdiff !== null) proveTool(oasdiff)
  else if (process.env.CI) throw new Error('In CI, this check requires Go to install oasdiff')
  else console.log('skipped: Go is not installed')
  return oasdiff
}

const check = (): void => {
  const current = read(currentFile)
  const { version } = current.info
  const released = existsSync(releasedFile) ? read(releasedFile) : null
  const oasdiff = prepareTool()
  const canCompare = oasdiff !== null && released !== null
  const changes = canCompare ? findBreaking(oasdiff, released, current) : []
  const faults = judge({
    version,
    released: released?.info.version ?? null,
    breaking: changes,
    earlyRemovals: canCompare ? findEarlyRemovals(oasdiff, released, current) : [],
    changelog: readFileSync(inRepository('CHANGELOG.md'), 'utf8'),
  })
  if (manifest.version !== version)
    faults.push(`package.json has version ${manifest.version}, not ${version}`)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  if (released === null) console.log(`no contract has been released yet, so ${version} cannot break clients`)
  if (canCompare)
    console.log(
      [`${version} breaks clients of ${released.info.version} in ${changes.length} places`, ...changes].join(
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
