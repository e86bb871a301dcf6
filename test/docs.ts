import { once } from 'node:events'
import { existsSync, globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { isInstalled } from '../scripts/run/commands.ts'
import { readConfig } from '../src/config/config.ts'
import { loadContract } from '../src/contract/contract.ts'
import { fieldNames } from '../src/domain/tasks/condition.ts'
import { deriveTools } from '../src/mcp/tools.ts'
import { isProblemCode, problemTypes } from '../src/problems/catalogue.ts'
import { changesToBeKnown } from './fixture/changes.ts'
import { runProcess, temporaryFolder } from './fixture/process.ts'
import { startService } from './fixture/service.ts'
import { patternOf, runSteps, stepsOf } from './fixture/transcript.ts'

const read = (path: string): Promise<string> => readFile(new URL(`../${path}`, import.meta.url), 'utf8')

const root = new URL('..', import.meta.url)
const pages = globSync('docs/**/*.md', { cwd: root })
const documents = ['README.md', 'CONTRIBUTING.md', ...pages]

const matchesOf = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, match = '']) => match)

const withoutBlocks = (markdown: string): string => markdown.replaceAll(/^```[^]*?^```$/gm, '')

/** The anchors of a document's headings, as GitHub generates them. */
const anchorsOf = (markdown: string): readonly string[] =>
  matchesOf(withoutBlocks(markdown), /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

t.test('links lead to files and headings that exist', async (t) => {
  for (const path of documents) {
    const text = await read(path)
    for (const link of matchesOf(withoutBlocks(text), /\]\((?!https?:)([^)\s]+)\)/g)) {
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : normalize(join(dirname(path), file))
      const found = await read(target).catch((error: NodeJS.ErrnoException) =>
        error.code === 'EISDIR' ? '' : null,
      )
      t.not(found, null, `${path}: ${link}`)
      if (anchor !== undefined) t.ok(anchorsOf(found ?? '').includes(anchor), `${path}: ${link}`)
    }
  }
})

t.test('every page is linked from README', async (t) => {
  const readme = await read('README.md')
  for (const path of pages) t.ok(readme.includes(`](${path})`), path)
})

t.test('README has at most 200 lines', async (t) => {
  const lines = (await read('README.md')).split('\n').length - 1
  t.ok(lines <= 200, `${lines} lines`)
})

t.test('npm scripts in the documents exist', async (t) => {
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Readonly<Record<string, string>> }
  for (const path of documents) {
    const named = matchesOf(await read(path), /\bnpm run\s+(?:--silent )?([a-z][a-z0-9:-]*)/g)
    for (const name of named) t.ok(Object.hasOwn(scripts, name), `${path}: npm run ${name}`)
  }
})

t.test('the tour and the sessions of clients need no packages of developers', async (t) => {
  const { devDependencies } = JSON.parse(await read('package.json')) as { devDependencies: object }
  const hook = `import { registerHooks } from 'node:module'
    const missing = ${JSON.stringify(Object.keys(devDependencies))}
    registerHooks({ resolve(name, context, next) {
      if (missing.some((one) => name === one || name.startsWith(one + '/'))) throw new Error('no package ' + name)
      return next(name, context)
    } })`
  const environment = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` }
  const outputOf = async (program: string, parameter: string): Promise<string> =>
    (await runProcess(environment, fileURLToPath(new URL(program, root)), [parameter])).output
  t.match(await outputOf('scripts/check/tour.ts', 'http://127.0.0.1:1'), /No service is running/)
  t.match(await outputOf('scripts/sdk/run.ts', 'cobol'), /Unknown language cobol/)
})

t.test('programs in the documents exist', async (t) => {
  for (const path of documents)
    for (const program of matchesOf(await read(path), /(?<![\w/.])((?:\.\.\/)*scripts\/[\w/-]+\.ts)\b/g))
      t.ok(existsSync(new URL(program.replaceAll('../', ''), root)), `${path}: ${program}`)
})

t.test('operations in the documents exist', async (t) => {
  const operations = [...loadContract().operations.values()]
  const names = new Set(operations.map(({ method, path }) => `${method} ${path}`))
  for (const path of documents) {
    const named = matchesOf(await read(path), /`((?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) \/[^`\s?]*)/g)
    for (const name of named) t.ok(names.has(name), `${path}: ${name}`)
  }
})

t.test('problem codes in the documents have their status', async (t) => {
  for (const path of documents) {
    for (const [named, status, code = ''] of (await read(path)).matchAll(
      /\b(\d{3})\s`([a-z]+(?:_[a-z]+)+)`/g,
    ))
      t.ok(isProblemCode(code) && problemTypes[code].status === Number(status), `${path}: ${named}`)
  }
})

t.test('all operations that accept an Idempotency-Key are listed', async (t) => {
  const [, list = ''] =
    /^## Idempotency keys\n([^]*?)^```/m.exec(await read('docs/guides/concurrency-and-idempotency.md')) ?? []
  const taking = [...loadContract().operations.values()].filter(
    ({ takesIdempotencyKey }) => takesIdempotencyKey,
  )
  t.strictSame(
    matchesOf(list, /^- `(.*)`$/gm).toSorted(),
    taking.map(({ method, path }) => `${method} ${path}`).toSorted(),
  )
})

t.test('the table of retries has every POST', async (t) => {
  const guide = await read('docs/guides/concurrency-and-idempotency.md')
  for (const { method, path } of loadContract().operations.values())
    if (method === 'POST') t.ok(guide.includes(`\`${method} ${path}\``), `${method} ${path}`)
})

t.test('the tools of assistants are listed with their scopes', async (t) => {
  const guide = await read('docs/guides/assistants.md')
  const listed = [...guide.matchAll(/^\| `(\w+:\w+)` +\| (.*) \|$/gm)].flatMap(([, scope = '', row = '']) =>
    matchesOf(row, /`(\w+)`/g).map((name) => `${scope} ${name}`),
  )
  const tools = [...deriveTools(loadContract()).values()]
  t.strictSame(
    listed.toSorted(),
    tools.map(({ name, operation }) => `${[operation.scope].flat().join()} ${name}`).toSorted(),
  )
})

t.test('the fields of filters are listed', async (t) => {
  const guide = await read('docs/guides/lists-and-sync.md')
  const cells = matchesOf(guide, /^\| (`.*?`) +\|/gm)
  const listed = cells.flatMap((cell) => matchesOf(cell, /`(\w+)(?:\.key)?`/g))
  t.strictSame(listed.toSorted(), fieldNames.toSorted())
})

t.test('the documented settings are those that the service reads', async (t) => {
  const known = new Set<string>()
  readConfig(
    new Proxy<NodeJS.ProcessEnv>(
      {},
      {
        get: (_, name) => void (typeof name === 'string' && known.add(name)),
      },
    ),
  )
  const text = await read('docs/operations/configuration.md')
  const [, table = ''] = /<!-- settings -->([^]*)<!-- \/settings -->/.exec(text) ?? []
  for (const name of known) t.ok(table.includes(`\`${name}\``), `${name} is in the table`)
  for (const name of matchesOf(table, /^\| `(\w+)`/gm)) t.ok(known.has(name), `${name} is read`)
})

const missing = ['bash', 'curl', 'jq'].filter((command) => !isInstalled(command))
// These may be missing on a developer's machine, but not in CI.
const skip = missing.length > 0 && !process.env.CI && `${missing.join(' and ')} not installed`

t.test('commands in the documents print what is shown', { skip }, async (t) => {
  // README comes first, because it registers the first account, the administrator.
  const { url, deps } = await startService(t, { config: { rateLimit: 'on', rateLimitSignIn: 100 } })
  const { host } = new URL(url)
  // The change feed waits for earlier transactions on the server, so each command waits for them, too.
  const known = createServer((_, response) => {
    changesToBeKnown(deps.db).then(
      () => response.end(),
      () => response.destroy(),
    )
  })
  await once(known.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => known.close())
  const { port } = known.address() as AddressInfo
  const wait = `curl -sf http://127.0.0.1:${port}`
  for (const path of documents) {
    const steps = stepsOf(await read(path))
    if (steps.length === 0) continue
    await t.test(path, async (t) => {
      const typed = steps.map((step) => ({
        ...step,
        command: `${wait}\n${step.command.replaceAll('localhost:3000', host)}`,
      }))
      const outputs = await runSteps(typed, await temporaryFolder(t))
      for (const [index, { command, output }] of steps.entries()) {
        const printed = `${outputs[index]?.trimEnd() ?? ''}\n`
        const isAsShown = patternOf(output).test(printed)
        t.ok(isAsShown, command, { expected: output, found: printed.slice(0, 2_000) })
      }
    })
  }
})

const programs = {
  typescript: 'user/main.ts',
  python: 'user/main.py',
  go: 'main.go',
  java: 'Main.java',
  php: 'main.php',
  ruby: 'main.rb',
}

/** Lines without their indentation, which differs between a program and a document. */
const linesOf = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n')

t.test('the guide to clients shows lines of the programs in scripts/sdk', async (t) => {
  const guide = linesOf(await read('docs/guides/generating-a-client.md'))
  for (const [language, file] of Object.entries(programs)) {
    const program = await read(`scripts/sdk/${language}/${file}`)
    const [, shown = ''] = /Documentation: begin\n([^]*?)\n[^\n]*Documentation: end/.exec(program) ?? []
    t.ok(shown.length > 100 && guide.includes(linesOf(shown)), `scripts/sdk/${language}/${file}`)
  }
})

t.test('the guide to clients names the versions that scripts/sdk uses', async (t) => {
  const guide = await read('docs/guides/generating-a-client.md')
  const versionIn = async (file: string, pattern: RegExp) =>
    pattern.exec(await read(`scripts/sdk/${file}`))?.[1] ?? file
  const typescript = await versionIn('typescript/package.json', /"@hey-api\/openapi-ts": "(.+)"/)
  const python = await versionIn('python/requirements.txt', /^openapi-python-client==(.+)$/m)
  t.match(guide, `\`@hey-api/openapi-ts\` ${typescript}`)
  t.match(
    guide,
    `[openapi-python-client](https://github.com/openapi-generators/openapi-python-client) ${python}`,
  )
})
