import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import manifest from '../package.json' with { type: 'json' }
import { readSchema } from '../src/db/engine/migrate.ts'

/**
 * `npm run release -- FOLDER`: tags the checked-out commit with the version in package.json, and writes an archive of the sources,
 * the release notes and their checksums to the folder. If the commit is not ready, it fails and changes nothing. CONTRIBUTING.md
 * describes the whole release.
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const git = (...args: readonly string[]): string =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()

const { name, version } = manifest
const tag = `v${version}`

/** The entry of the version in CHANGELOG.md without its heading, or an empty text. */
const notesOf = (changelog: string): string => {
  const section = changelog.split(/^## /m).find((text) => text.split(/\s/, 1)[0] === version) ?? ''
  return section.slice(section.indexOf('\n') + 1).trim()
}

const notes = notesOf(read('CHANGELOG.md'))

/** Whether the files of `npm run release:prepare` are those of this commit. */
const isPrepared = (): boolean => {
  const present = { openapi: load(read('openapi.yaml')), schema: readSchema() }
  return Object.entries(present).every(([name, value]) => {
    const path = `test/releases/${version}/${name}.json`
    return existsSync(join(root, path)) && read(path) === `${JSON.stringify(value)}\n`
  })
}

/** Why the commit cannot be released, and what to do. Null if it can. */
const findFault = (): string | null => {
  const { info } = load(read('openapi.yaml')) as { readonly info: { readonly version: string } }
  if (git('status', '--porcelain') !== '') return 'The work tree has changes. Commit them first.'
  if (info.version !== version)
    return `package.json has version ${version}, but openapi.yaml ${info.version}. Set both to the new version.`
  if (git('tag', '--list', tag) !== '') return `The tag ${tag} already exists. Set a new version.`
  if (notes === '') return `CHANGELOG.md has no entry for ${version}. Add a section with this heading.`
  if (!isPrepared())
    return `The files of version ${version} are missing or out of date. Run npm run release:prepare, and commit what it writes.`
  return null
}

const checksum = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

const release = (folder: string): void => {
  mkdirSync(folder, { recursive: true })
  git('tag', '--annotate', tag, '--message', `${name} ${version}\n\n${notes}`, '--cleanup', 'verbatim')
  const [archive, description] = [`${name}-${version}.tar.gz`, `${name}-${version}.md`]
  git('archive', `--prefix=${name}-${version}/`, `--output=${join(folder, archive)}`, tag)
  writeFileSync(join(folder, description), `# ${name} ${version}\n\n${notes}\n`)
  const sums = [archive, description].map((file) => `${checksum(join(folder, file))}  ${file}\n`)
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''))
  console.log(
    `Tagged ${git('rev-parse', '--short', tag)} as ${tag}, and wrote ${archive}, ${description} and SHA256SUMS to ${folder}.`,
  )
  console.log(`Publish it: git push origin ${tag}`)
}

const [folder] = process.argv.slice(2)
const fault = folder === undefined ? 'Usage: npm run release -- FOLDER' : findFault()
if (folder === undefined || fault !== null) {
  console.error(`release: ${fault}`)
  process.exitCode = 1
} else release(resolve(folder))
