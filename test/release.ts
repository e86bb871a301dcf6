import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import t, { type Test } from 'tap'
import manifest from '../package.json' with { type: 'json' }
import { readSchema } from '../src/db/engine/migrate.ts'
import { temporaryFolder } from './fixture/process.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { version } = manifest

/** A repository with the files that a release reads, committed. */
const openRepository = async (t: Test) => {
  const folder = await temporaryFolder(t)
  const git = (...args: readonly string[]): string =>
    execFileSync('git', args, { cwd: folder, encoding: 'utf8' })
  for (const file of ['package.json', 'openapi.yaml', 'scripts/release.ts'])
    cpSync(join(root, file), join(folder, file))
  const prepared = join(folder, 'test/releases', version)
  mkdirSync(prepared, { recursive: true })
  writeFileSync(join(prepared, 'schema.json'), `${JSON.stringify(readSchema())}\n`)
  const contract = load(readFileSync(join(root, 'openapi.yaml'), 'utf8'))
  writeFileSync(join(prepared, 'openapi.json'), `${JSON.stringify(contract)}\n`)
  writeFileSync(
    join(folder, 'CHANGELOG.md'),
    `# Changelog\n\n## ${version}\n\nWhat is new.\n\n## 0.0.1\n\nWhat was.\n`,
  )
  for (const name of ['node_modules', 'src']) symlinkSync(join(root, name), join(folder, name))
  git('init', '--quiet')
  appendFileSync(join(folder, '.git/info/exclude'), 'node_modules\nsrc\n')
  git('config', 'user.name', 'Somebody')
  git('config', 'user.email', 'somebody@example.com')
  const commit = (): void => {
    git('add', '--all')
    git('commit', '--quiet', '--message', 'A change')
  }
  commit()
  const target = await temporaryFolder(t)
  const release = (...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/release.ts', ...args], {
      cwd: folder,
      encoding: 'utf8',
    })
    return { status, output: stdout + stderr }
  }
  return { folder, target, git, commit, release }
}

t.test('a release creates a tag, an archive of the commit, notes and checksums', async (t) => {
  const { target, git, release } = await openRepository(t)
  const { status, output } = release(target)
  t.equal(status, 0, output)
  t.match(git('cat-file', '-p', `v${version}`), `taskwright ${version}\n\nWhat is new.`)
  const [archive, notes] = [`taskwright-${version}.tar.gz`, `taskwright-${version}.md`]
  const listed = execFileSync('tar', ['--list', '--file', join(target, archive)], { encoding: 'utf8' })
  t.match(listed, `taskwright-${version}/openapi.yaml\n`)
  t.notMatch(listed, 'node_modules')
  t.equal(readFileSync(join(target, notes), 'utf8'), `# taskwright ${version}\n\nWhat is new.\n`)
  const checked = execFileSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd: target, encoding: 'utf8' })
  t.equal(checked, `${archive}: OK\n${notes}: OK\n`)
})

t.test('a commit that is not ready is refused with a remedy, and no tag is created', async (t) => {
  const { folder, target, git, commit, release } = await openRepository(t)
  const change = (file: string, text: string): void => writeFileSync(join(folder, file), text)
  const changelog = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8')
  const contract = readFileSync(join(folder, 'openapi.yaml'), 'utf8')
  const schema = readFileSync(join(folder, `test/releases/${version}/schema.json`), 'utf8')
  const refused = (fault: RegExp): void => {
    const { status, output } = release(target)
    t.equal(status, 1, String(fault))
    t.match(output, fault)
    t.equal(git('tag', '--list'), '')
  }
  t.match(release(), { status: 1, output: /Usage: npm run release/ })
  change('CHANGELOG.md', `${changelog}\n`)
  refused(/The work tree has changes/)
  change('CHANGELOG.md', changelog.replace(version, '9.9.9'))
  commit()
  refused(/CHANGELOG\.md has no entry for/)
  change('CHANGELOG.md', changelog)
  change('openapi.yaml', contract.replace(`version: ${version}`, 'version: 9.9.9'))
  commit()
  refused(/openapi\.yaml 9\.9\.9\. Set both/)
  change('openapi.yaml', contract.replace('title: Taskwright', 'title: Another'))
  commit()
  refused(/out of date\. Run npm run release:prepare/)
  change('openapi.yaml', contract)
  change(`test/releases/${version}/schema.json`, '{}')
  commit()
  refused(/out of date\. Run npm run release:prepare/)
  change(`test/releases/${version}/schema.json`, schema)
  commit()
  t.equal(release(target).status, 0)
  t.match(release(target), { status: 1, output: /already exists/ })
})
