import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import manifest from '../../package.json' with { type: 'json' }
import { skip } from '../run/commands.ts'
import { releasedContract } from '../run/released-contract.ts'
import { findBreaking, findOasdiff, findStabilityFaults, validateVersion } from './breaking-changes.ts'

/**
 * Fails if openapi.yaml breaks clients of the last released contract without a matching version, or if CHANGELOG.md has no entry
 * for the version.
 */

const inRepository = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

const currentFile = inRepository('openapi.yaml')

interface Document {
  readonly info: { readonly version: string }
}

const read = (file: string): Document => load(readFileSync(file, 'utf8')) as Document

/** What known changes change in a small contract. */
interface Facts {
  readonly parameters?: readonly string[]
  /** The default of a field in a request. */
  readonly fallback?: string
  /** The values of an enumeration in a response. */
  readonly values?: readonly string[]
  readonly mayGrow?: boolean
  readonly isDeprecated?: boolean
  readonly isRemoved?: boolean
  readonly needsToken?: boolean
  readonly isPreview?: boolean
}

const contractWith = ({
  parameters = ['limit', 'sort'],
  fallback = '',
  values = ['a', 'b'],
  mayGrow = true,
  isDeprecated = false,
  isRemoved = false,
  needsToken = false,
  isPreview = false,
}: Facts): object => {
  const jsonOf = (properties: object) => ({ 'application/json': { schema: { type: 'object', properties } } })
  const status = { type: 'string', [mayGrow ? 'x-extensible-enum' : 'enum']: values }
  const stability = isPreview && { 'x-stability': 'preview' }
  const post = {
    ...stability,
    parameters: parameters.map((name) => ({ name, in: 'query', schema: { type: 'string' } })),
    requestBody: { content: jsonOf({ title: { type: 'string', default: fallback } }) },
    responses: { 200: { description: 'Done.', content: jsonOf({ status }) } },
  }
  const get = {
    ...stability,
    ...(isDeprecated && { deprecated: true }),
    ...(needsToken && { security: [{ token: [] }] }),
    responses: { 204: { description: 'Done.' } },
  }
  return {
    openapi: '3.0.3',
    info: { title: 'Proof', version: '1.0.0' },
    paths: { '/tasks': isRemoved ? { post } : { post, get } },
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  }
}

/** The rules of docs/guides/compatibility.md: allowed in any version, or only in one that may break clients. */
type Outcome = 'harmless' | 'breaking'

const knownChanges: readonly (readonly [name: string, Outcome, current: Facts, released?: Facts])[] = [
  ['no change', 'harmless', {}],
  ['a new optional parameter', 'harmless', { parameters: ['limit', 'sort', 'proof'] }],
  ['a new value of an enum that may grow', 'harmless', { values: ['a', 'b', 'c'] }],
  ['a deprecation', 'harmless', { isDeprecated: true }],
  [
    'a new value of an enum that may not grow',
    'breaking',
    { mayGrow: false, values: ['a', 'b', 'c'] },
    { mayGrow: false },
  ],
  ['a removed value of an enum that may grow', 'breaking', { values: ['a'] }],
  ['an enum that may grow from now on', 'breaking', {}, { mayGrow: false }],
  ['another default', 'breaking', { fallback: 'proof' }],
  ['a new parameter in the middle of the others', 'breaking', { parameters: ['limit', 'proof', 'sort'] }],
  ['an operation that needs a token from now on', 'breaking', { needsToken: true }],
  ['an operation that needs no token any more', 'harmless', {}, { needsToken: true }],
  ['a removed operation', 'breaking', { isRemoved: true }],
  ['a removed preview', 'harmless', { isRemoved: true }, { isPreview: true }],
  ['another default of a preview', 'harmless', { fallback: 'proof', isPreview: true }, { isPreview: true }],
  ['a removed value of a preview', 'harmless', { values: ['a'] }, { isPreview: true }],
  [
    'a parameter in the middle of a preview',
    'harmless',
    { parameters: ['proof', 'limit'] },
    { isPreview: true },
  ],
  ['a change of what becomes a preview', 'breaking', { fallback: 'proof', isPreview: true }],
  ['a removed operation that was deprecated', 'breaking', { isRemoved: true }, { isDeprecated: true }],
]

/** Throws unless oasdiff, with our rules, classifies every known change correctly. */
const verifyTool = (oasdiff: string): void => {
  for (const [name, expected, now, before = {}] of knownChanges) {
    const [released, current] = [contractWith(before), contractWith(now)]
    const found = findBreaking(oasdiff, released, current)
    const outcome = found.length > 0 ? 'breaking' : 'harmless'
    if (outcome !== expected)
      throw new Error([`"${name}" is ${outcome}, not ${expected}`, ...found].join('\n'))
  }
  console.log(`oasdiff classifies all ${knownChanges.length} known changes correctly`)
}

const check = (): void => {
  const current = read(currentFile)
  const { version } = current.info
  const released = releasedContract === undefined ? null : read(releasedContract)
  const oasdiff = findOasdiff()
  if (oasdiff === null) skip('Go is not installed')
  else verifyTool(oasdiff)
  const canCompare = oasdiff !== null && released !== null
  const changes = canCompare ? findBreaking(oasdiff, released, current) : []
  const faults = validateVersion({
    version,
    released: released?.info.version ?? null,
    breaking: changes,
    changelog: readFileSync(inRepository('CHANGELOG.md'), 'utf8'),
  })
  if (released !== null) faults.push(...findStabilityFaults(released, current))
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
