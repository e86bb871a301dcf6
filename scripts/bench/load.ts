import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** Requests of one kind, which the load generator sends round and round. */
export interface Load {
  readonly method: string
  /** With the query. */
  readonly paths: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** None, one for all paths, or one for each of them. */
  readonly bodies: readonly string[]
}

export interface Pressure {
  readonly connections: number
  readonly seconds: number
}

/** What the load generator saw. Times are milliseconds. */
export interface Measured {
  readonly requests: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Answers with a status of 400 or more. */
  readonly refused: number
  /** Connections that failed or were cut, and answers that did not come in time. */
  readonly broken: number
}

const script = fileURLToPath(new URL('load.lua', import.meta.url))

/** Puts a server under load with wrk. */
export const putUnderLoad = async (
  url: string,
  { method, paths, headers, bodies }: Load,
  { connections, seconds }: Pressure,
): Promise<Measured> => {
  const folder = await mkdtemp(join(tmpdir(), 'taskwright-load-'))
  try {
    const file = join(folder, 'requests')
    const lines = paths.map((path, index) => `${method}\t${path}\t${bodies[index % bodies.length] ?? ''}`)
    await writeFile(file, lines.join('\n'))
    const given = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
    const parameters = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, ...given, url]
    const { stdout } = await promisify(execFile)('wrk', parameters, {
      env: { ...process.env, REQUESTS: file },
    })
    return parseSummary(stdout)
  } finally {
    await rm(folder, { recursive: true })
  }
}

const parseSummary = (output: string): Measured => {
  const line = output.split('\n').find((text) => text.startsWith('{'))
  if (line === undefined) throw new Error(`wrk gave no summary:\n${output}`)
  const { requests, microseconds, p50, p99, refused, broken } = JSON.parse(line) as Record<string, number>
  if (
    requests === undefined ||
    microseconds === undefined ||
    p50 === undefined ||
    p99 === undefined ||
    refused === undefined ||
    broken === undefined
  )
    throw new Error(`wrk gave another summary: ${line}`)
  const perSecond = requests / (microseconds / 1e6)
  return { requests, perSecond, p50: p50 / 1e3, p99: p99 / 1e3, refused, broken }
}
