import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Requests that the load generator sends repeatedly, in order. */
export interface Load {
  readonly method: string
  /** Including the query. */
  readonly paths: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** None, one for all paths, or one for each path. */
  readonly bodies: readonly string[]
}

export interface Intensity {
  readonly connections: number
  readonly seconds: number
}

/** The results of a load. Times are in milliseconds. */
export interface LoadResult {
  readonly requests: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Responses with a status of 400 or more. */
  readonly errorResponses: number
  /** Failed and closed connections, and timeouts. */
  readonly socketErrors: number
}

const script = fileURLToPath(new URL('wrk.lua', import.meta.url))

/** Sends requests with wrk. */
export const generateLoad = async (
  url: string,
  { method, paths, headers, bodies }: Load,
  { connections, seconds }: Intensity,
): Promise<LoadResult> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-load-'))
  try {
    const file = join(folder, 'requests')
    const lines = paths.map((path, index) => `${method}\t${path}\t${bodies[index % bodies.length] ?? ''}`)
    await writeFile(file, lines.join('\n'))
    const headerOptions = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
    const parameters = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, ...headerOptions, url]
    const { stdout } = await promisify(execFile)('wrk', parameters, {
      env: { ...process.env, REQUESTS: file },
    })
    return parseSummary(stdout)
  } finally {
    await rm(folder, { recursive: true })
  }
}

const names = ['requests', 'perSecond', 'p50', 'p99', 'errorResponses', 'socketErrors'] as const

const isResult = (value: Partial<LoadResult>): value is LoadResult =>
  names.every((name) => typeof value[name] === 'number')

const parseSummary = (output: string): LoadResult => {
  const line = output.split('\n').find((text) => text.startsWith('{')) ?? '{}'
  const result = JSON.parse(line) as Partial<LoadResult>
  if (!isResult(result)) throw new Error(`wrk printed no summary:\n${output}`)
  return result
}
