import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import manifest from '../package.json' with { type: 'json' }
import { findBreaking, findOasdiff, judge } from './compatibility.ts'

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
  readonly properties: Record<string, unknown>
}

/** The parts of openapi.yaml that the proof changes. */
interface Document {
  readonly info: { readonly version: string }
  readonly paths: Record<string, unknown>
  readonly components: {
    readonly schemas: {
      readonly Task: Schema
      readonly TaskCreate: Schema
      readonly TaskPriority: { enum: string[] }
    }
  }
}

const read = (file: string): Document => load(readFileSync(file, 'utf8')) as Document

/** Changes whose effect on clients is known, so that a tool that sees nothing, or everything, is found out. */
const knownChanges: readonly {
  readonly name: string
  readonly breaks: boolean
  readonly change: (document: Document) => void
}[] = [
  { name: 'no change', breaks: false, change() {} },
  {
    name: 'an optional request field and a response field more',
    breaks: false,
    change({ components: { schemas } }) {
      schemas.TaskCreate.properties.proof = { type: 'string' }
      schemas.Task.properties.proof = { type: 'string' }
      schemas.Task.required.push('proof')
    },
  },
  {
    name: 'a response field less',
    breaks: true,
    change({ components: { schemas } }) {
      delete schemas.Task.properties.priority
      schemas.Task.required.splice(schemas.Task.required.indexOf('priority'), 1)
    },
  },
  {
    name: 'a required request field more',
    breaks: true,
    change({ components: { schemas } }) {
      schemas.TaskCreate.properties.proof = { type: 'string' }
      schemas.TaskCreate.required.push('proof')
    },
  },
  {
    name: 'a value that a request may have less',
    breaks: true,
    change({ components: { schemas } }) {
      schemas.TaskPriority.enum.pop()
    },
  },
  {
    name: 'an operation less',
    breaks: true,
    change({ paths }) {
      delete paths['/tags/{tag_id}']
    },
  },
]

/** Throws unless each known change is seen for what it is. */
const proveTool = async (oasdiff: string): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-compatibility-'))
  try {
    for (const { name, breaks, change } of knownChanges) {
      const document = read(currentFile)
      change(document)
      const file = join(folder, 'openapi.json')
      await writeFile(file, JSON.stringify(document))
      const seen = findBreaking(oasdiff, currentFile, file)
      if (seen.length > 0 !== breaks)
        throw new Error(
          `oasdiff reports ${seen.length} breaking changes for the known change "${name}"\n${seen.join('\n')}`,
        )
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  console.log(`oasdiff classifies all ${knownChanges.length} known changes correctly`)
}

/** The tool, proved; null when there is none. */
const prepareTool = async (): Promise<string | null> => {
  const oasdiff = findOasdiff()
  if (oasdiff !== null) await proveTool(oasdiff)
  else if (process.env.CI) throw new Error('In CI, this check requires Go to install oasdiff')
  else console.log('skipped: Go is not installed')
  return oasdiff
}

const check = async (): Promise<void> => {
  const { version } = read(currentFile).info
  const released = existsSync(releasedFile) ? read(releasedFile).info.version : null
  const oasdiff = await prepareTool()
  const canCompare = oasdiff !== null && released !== null
  const breaking = canCompare ? findBreaking(oasdiff, releasedFile, currentFile) : []
  const changelog = readFileSync(inRepository('CHANGELOG.md'), 'utf8')
  const faults = judge({ version, released, breaking, changelog })
  if (manifest.version !== version)
    faults.push(`package.json has version ${manifest.version}, not ${version}`)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  if (released === null) console.log(`no contract has been released yet, so ${version} cannot break clients`)
  if (canCompare)
    console.log(
      [`${version} breaks clients of ${released} in ${breaking.length} places`, ...breaking].join('\n'),
    )
}

await check().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
