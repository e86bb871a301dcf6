import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { asArray, resolve } from '../../src/contract/contract.ts'
import { findGoProgram } from '../run/commands.ts'

/** Compatibility of a version of the contract with the last released one, found with oasdiff. */

interface ContractState {
  /** `info.version` of openapi.yaml. */
  readonly version: string
  /** `info.version` of the last released contract; null when none has been released. */
  readonly released: string | null
  /** Changes that break clients of the released contract. */
  readonly breaking: readonly string[]
  readonly changelog: string
}

type Version = readonly [major: number, minor: number, patch: number]

const parseVersion = (text: string): Version | null => {
  const [, ...parts] = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(text) ?? []
  const [major, minor, patch] = parts.map(Number)
  return major === undefined || minor === undefined || patch === undefined ? null : [major, minor, patch]
}

const compare = (a: Version, b: Version): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]

/** Semantic Versioning: a new major version may break clients; before 1.0.0, a new minor version may (item 4). */
const mayBreak = (from: Version, to: Version): boolean => to[0] > from[0] || (to[0] === 0 && to[1] > from[1])

/** Whether a version of the contract may break clients of a released one. */
export const mayBreakClients = (released: string, version: string): boolean => {
  const [from, to] = [parseVersion(released), parseVersion(version)]
  return from === null || to === null || mayBreak(from, to)
}

/** Reasons why a contract may not follow the released one. Empty if it may. */
export const validateVersion = ({ version, released, breaking, changelog }: ContractState): string[] => {
  const to = parseVersion(version)
  if (to === null) return [`info.version ${version} is not a version such as 1.2.3`]
  const faults = hasEntry(changelog, version) ? [] : [`CHANGELOG.md has no entry "## ${version}"`]
  if (released === null) return faults
  const from = parseVersion(released)
  if (from === null)
    return [...faults, `the released info.version ${released} is not a version such as 1.2.3`]
  if (compare(to, from) < 0) faults.push(`info.version ${version} is older than the released ${released}`)
  if (breaking.length > 0 && !mayBreak(from, to)) {
    const needed = from[0] === 0 ? `0.${from[1] + 1}.0` : `${from[0] + 1}.0.0`
    faults.push(
      `info.version ${version} may not break clients of ${released}; make it ${needed}, or take these back:`,
      ...breaking.map(indent),
    )
  }
  return faults
}

const indent = (change: string): string => `  ${change}`

/** The heading of an entry may have a date after the version. */
const hasEntry = (changelog: string, version: string): boolean =>
  changelog.split('\n').some((line) => line === `## ${version}` || line.startsWith(`## ${version} `))

/** In the newest version whose dependencies are all in the Go module proxy. Null if Go is not installed. */
export const findOasdiff = (): string | null => findGoProgram('github.com/oasdiff/oasdiff', 'v1.37.0')

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * The part of a contract that clients of the released one rely on: without new values of enumerations that may grow
 * (`x-extensible-enum`, here as an `enum`, which oasdiff compares), and without deprecations, because oasdiff would then allow removals.
 */
export const stablePart = (current: unknown, released: unknown): unknown => {
  if (Array.isArray(current)) {
    const before: readonly unknown[] = Array.isArray(released) ? released : []
    return current.map((item, index) => stablePart(item, before[index]))
  }
  if (!isObject(current)) return current
  const before = isObject(released) ? released : {}
  const entries = Object.entries(current)
    .filter(([name, value]) => !(name === 'deprecated' && value === true))
    .map(([name, value]) => [name, stablePart(value, before[name])] as const)
  const copy = Object.fromEntries<unknown>(entries)
  const { 'x-extensible-enum': listed, ...rest } = copy
  if (!Array.isArray(listed)) return copy
  const values: readonly unknown[] = listed
  const known = before['x-extensible-enum']
  // It did not grow before: clients may refuse an unknown value.
  if (!Array.isArray(known)) return { ...rest, enum: [...values, 'any other value'] }
  return { ...rest, enum: values.filter((value) => known.includes(value)) }
}

/** The operations of a contract: the name that clients call each by in code, and the method and path on the wire. */
const operationsOf = (document: unknown) => {
  const paths = isObject(document) && isObject(document.paths) ? document.paths : {}
  return Object.entries(paths).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const operation = isObject(item) ? item[method] : undefined
      if (!isObject(operation)) return []
      const { operationId: id, 'x-stability': stability } = operation
      return [{ id, route: `${method.toUpperCase()} ${path}`, isPreview: stability === 'preview' }]
    }),
  )
}

/**
 * Operations whose `x-stability` is wrong: one that no release has had must be a preview, and one that was promised must not become one.
 * An operation that has been renamed or moved is the same.
 */
export const findStabilityFaults = (released: unknown, current: unknown): string[] => {
  const before = operationsOf(released)
  return operationsOf(current).flatMap(({ id, route, isPreview }) => {
    const known = before.filter((operation) => operation.id === id || operation.route === route)
    if (known.length === 0 && !isPreview) return [`${route} is new: it needs x-stability: preview`]
    if (isPreview && known.some((operation) => !operation.isPreview))
      return [`${route} was released without x-stability: preview, and cannot get it`]
    return []
  })
}

/** A contract without its previews, and without the components that only they use. */
export const withoutPreviews = (document: unknown): unknown => {
  if (!isObject(document) || !isObject(document.paths)) return document
  const paths = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(isObject(item) ? item : {}).filter(
          ([, operation]) => !isObject(operation) || operation['x-stability'] !== 'preview',
        ),
      ),
    ]),
  )
  const used = new Set<string>()
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (!isObject(node)) return
    const { $ref } = node
    if (typeof $ref === 'string' && !used.has($ref)) {
      used.add($ref)
      visit(resolve(document, node))
    }
    Object.values(node).forEach(visit)
  }
  visit(paths)
  const isUsed = (kind: string, name: string): boolean =>
    kind === 'securitySchemes' || used.has(`#/components/${kind}/${name}`)
  const components = Object.entries(isObject(document.components) ? document.components : {}).map(
    ([kind, named]) =>
      [
        kind,
        Object.fromEntries(
          Object.entries(isObject(named) ? named : {}).filter(([name]) => isUsed(kind, name)),
        ),
      ] as const,
  )
  return { ...document, paths, components: Object.fromEntries(components) }
}

/** Values that enumerations which may grow have lost. oasdiff allows this in responses. */
const findRemovedValues = (released: unknown, current: unknown, place = '#'): string[] => {
  if (Array.isArray(released))
    return released.flatMap((item: unknown, index) =>
      findRemovedValues(item, Array.isArray(current) ? current[index] : undefined, `${place}/${index}`),
    )
  if (!isObject(released) || !isObject(current)) return []
  const { 'x-extensible-enum': before } = released
  const { 'x-extensible-enum': after } = current
  const lost =
    Array.isArray(before) && Array.isArray(after) ? before.filter((value) => !after.includes(value)) : []
  return [
    ...lost.map((value) => `${place}: the value ${String(value)} was removed`),
    ...Object.entries(released).flatMap(([name, value]) =>
      findRemovedValues(value, current[name], `${place}/${name}`),
    ),
  ]
}

const methods = ['get', 'put', 'post', 'patch', 'delete', 'head', 'options'] as const

const parametersOf = (document: Json, operation: Json): readonly string[] =>
  asArray(operation.parameters ?? []).map((parameter) => {
    const { in: place, name } = resolve(document, parameter)
    return `${String(place)} parameter ${String(name)}`
  })

/** Parameters that were inserted or moved: many generated clients pass them by position. */
export const findMovedParameters = (released: unknown, current: unknown): string[] => {
  if (!isObject(released) || !isObject(current) || !isObject(released.paths)) return []
  return Object.entries(released.paths).flatMap(([path, before]) => {
    const after = isObject(current.paths) ? current.paths[path] : undefined
    if (!isObject(before) || !isObject(after)) return []
    return methods.flatMap((method) => {
      const [operation, changed] = [before[method], after[method]]
      if (!isObject(operation) || !isObject(changed)) return []
      const now = parametersOf(current, changed)
      const kept = parametersOf(released, operation).filter((name) => now.includes(name))
      const moved = now.find((name, index) => index < kept.length && name !== kept[index])
      if (moved === undefined) return []
      return [`${method.toUpperCase()} ${path}: the ${moved} is not at the end of the list, or has moved`]
    })
  })
}

interface Change {
  readonly id: string
  readonly text: string
  /** 3: breaks clients. 2: may break some clients. */
  readonly level: number
  readonly operation?: string
  readonly path?: string
}

/** Changes that oasdiff considers harmless, but that break clients which rely on a default. */
const alsoBreaking = ['parameter', 'property', 'body'].flatMap((place) => [
  `request-${place}-default-value-changed`,
  `request-${place}-default-value-removed`,
])

const findChanges = (oasdiff: string, released: unknown, current: unknown): readonly Change[] => {
  const folder = mkdtempSync(join(tmpdir(), 'taskwright-compatibility-'))
  const save = (name: string, content: string): string => {
    const file = join(folder, name)
    writeFileSync(file, content)
    return file
  }
  try {
    const files = [
      save('released.json', JSON.stringify(released)),
      save('current.json', JSON.stringify(current)),
    ]
    const levels = save('levels.txt', alsoBreaking.map((id) => `${id} err\n`).join(''))
    const options = ['--flatten-allof', '--flatten-params', '--severity-levels', levels, '--format', 'json']
    const json = execFileSync(oasdiff, ['breaking', ...options, ...files], {
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    })
    return JSON.parse(json) as readonly Change[]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const describe = ({ operation = '', path = '', text }: Change): string => `${operation} ${path}: ${text}`

/** Changes that break clients of the released contract, other than those of its previews. */
export const findBreaking = (oasdiff: string, released: unknown, current: unknown): string[] => {
  const promised = withoutPreviews(released)
  return findChanges(oasdiff, stablePart(promised, promised), stablePart(current, promised))
    .filter(({ level }) => level === 3)
    .map(describe)
    .concat(findMovedParameters(promised, current), findRemovedValues(promised, current))
}
