import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What a version of the contract may change, and the tool that finds out what it does change. */

export interface ContractState {
  /** `info.version` of openapi.yaml. */
  readonly version: string
  /** `info.version` of the last released contract; null when none has been released. */
  readonly released: string | null
  /** What breaks clients of the released contract. */
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

/** Semantic Versioning: a new major version breaks; before 1.0.0 (item 4 of it) a new minor version does. */
const mayBreak = (from: Version, to: Version): boolean => to[0] > from[0] || (to[0] === 0 && to[1] > from[1])

/** The faults of a contract beside the released one; none when it may be merged. */
export const judge = ({ version, released, breaking, changelog }: ContractState): string[] => {
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
      ...breaking.map((change) => `  ${change}`),
    )
  }
  return faults
}

/** An entry's heading may have a date behind the version. */
const hasEntry = (changelog: string, version: string): boolean =>
  changelog.split('\n').some((line) => line === `## ${version}` || line.startsWith(`## ${version} `))

/** The newest one whose modules the Go proxy has all of. */
const oasdiffVersion = 'v1.33.0'

const toolFolder = fileURLToPath(new URL(`../.cache/tools/oasdiff-${oasdiffVersion}`, import.meta.url))

/** Where oasdiff is, which is installed if it is not there yet; null when there is no Go to install it with. */
export const findOasdiff = (): string | null => {
  const tool = join(toolFolder, 'oasdiff')
  if (existsSync(tool)) return tool
  if (!hasGo()) return null
  execFileSync('go', ['install', `github.com/oasdiff/oasdiff@${oasdiffVersion}`], {
    env: { ...process.env, GOBIN: toolFolder },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return tool
}

const hasGo = (): boolean => {
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

interface Change {
  readonly text: string
  /** 3 breaks clients, 2 may break some. */
  readonly level: number
  readonly operation?: string
  readonly path?: string
}

/** What breaks clients of the contract in one file when that of another takes its place. */
export const findBreaking = (oasdiff: string, released: string, current: string): string[] => {
  const json = execFileSync(oasdiff, ['breaking', '--format', 'json', released, current], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const changes = JSON.parse(json) as readonly Change[]
  return changes
    .filter(({ level }) => level === 3)
    .map(({ operation = '', path = '', text }) => `${operation} ${path}: ${text}`)
}
