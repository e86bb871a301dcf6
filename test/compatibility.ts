import t from 'tap'
import { readFileSync } from 'node:fs'
import {
  findMovedParameters,
  findStabilityFaults,
  mayBreakClients,
  stablePart,
  validateVersion,
  withoutPreviews,
} from '../scripts/check/breaking-changes.ts'
import { responseEnumerations } from '../scripts/check/enumerations.ts'
import { releasedContract } from '../scripts/run/released-contract.ts'
import { asObject, loadContract } from '../src/contract/contract.ts'

/** The rules of scripts/check/compatibility.ts. Each of its runs verifies the tool that finds breaking changes. */

const breaking = ['PUT /tasks/{task_id}: the response field due_at was removed']
const changelogOf = (version: string): string =>
  `# Changelog\n\n## ${version}\n\nWords.\n\n## 0.0.1 - 2020-01-01\n`

const faultsOf = (released: string | null, version: string, changes: readonly string[] = []): string[] =>
  validateVersion({
    version,
    released,
    breaking: changes,
    changelog: changelogOf(version),
  })

t.test('a breaking change needs a major version, or before 1.0.0 a minor one', async (t) => {
  const refused = [
    ['0.1.0', '0.1.0', '0.2.0'],
    ['0.1.0', '0.1.1', '0.2.0'],
    ['1.2.3', '1.2.3', '2.0.0'],
    ['1.2.3', '1.3.0', '2.0.0'],
    ['1.9.9', '1.10.0', '2.0.0'],
  ] as const
  for (const [released, version, needed] of refused) {
    const [verdict = '', ...changes] = faultsOf(released, version, breaking)
    t.match(verdict, `info.version ${version} may not break clients of ${released}; make it ${needed}`)
    t.strictSame(changes, [`  ${breaking[0]}`])
  }
  for (const [released, version] of [
    ['0.1.0', '0.2.0'],
    ['0.9.1', '0.10.0'],
    ['0.1.0', '1.0.0'],
    ['1.2.3', '2.0.0'],
    ['9.0.0', '10.0.0'],
  ] as const)
    t.strictSame(faultsOf(released, version, breaking), [], `${released} to ${version}`)
})

t.test('the client of a released contract must work until a version may break it', async (t) => {
  t.equal(mayBreakClients('0.2.0', '0.2.1'), false)
  t.equal(mayBreakClients('0.2.0', '0.3.0'), true)
  t.equal(mayBreakClients('1.2.3', '1.3.0'), false)
  t.equal(mayBreakClients('1.2.3', '2.0.0'), true)
})

t.test('other changes may have any version from the released one on', async (t) => {
  for (const version of ['0.1.2', '0.1.3', '0.2.0', '1.0.0'])
    t.strictSame(faultsOf('0.1.2', version), [], version)
  for (const version of ['0.1.1', '0.0.9'])
    t.match(faultsOf('0.1.2', version), [`info.version ${version} is older than the released 0.1.2`])
})

t.test('values can be added to an enum if the released contract marks it as extensible', async (t) => {
  const closed = (...values: readonly string[]) => ({ kind: { type: 'string', enum: values } })
  const growing = (...values: readonly string[]) => ({
    kind: { type: 'string', 'x-extensible-enum': values },
  })
  t.strictSame(stablePart(growing('a', 'b', 'c'), growing('a', 'b')), closed('a', 'b'))
  t.strictSame(stablePart(growing('b', 'c'), growing('a', 'b')), closed('b'))
  t.strictSame(stablePart(closed('a', 'b'), closed('a')), closed('a', 'b'))
  t.strictSame(stablePart(growing('a'), closed('a')), closed('a', 'any other value'))
})

t.test('each enum in responses says that it is final', async (t) => {
  const open = responseEnumerations(loadContract().document).filter(({ isFinal }) => !isFinal)
  t.strictSame(
    open.map(({ name }) => name),
    [],
    'describe it as final, or make it an x-extensible-enum with an enum of its own for requests',
  )
})

t.test(
  'an enum in a response is found wherever it is, and is final only if its description ends so',
  async (t) => {
    const kind = { type: 'string', enum: ['a'] }
    const document = {
      paths: {
        '/widgets': {
          parameters: [{ name: 'shape', schema: kind }],
          get: {
            operationId: 'listWidgets',
            requestBody: { content: { 'application/json': { schema: kind } } },
            responses: {
              200: { $ref: '#/components/responses/Widgets' },
              404: { content: { 'application/json': { schema: kind } } },
            },
          },
        },
      },
      components: {
        responses: {
          Widgets: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Widget' } } } },
        },
        schemas: {
          Widget: {
            properties: {
              kinds: { type: 'array', items: kind },
              parent: { $ref: '#/components/schemas/Widget' },
              color: { $ref: '#/components/schemas/Color' },
              size: { type: 'string', 'x-extensible-enum': ['s'] },
            },
          },
          Color: { ...kind, description: 'A color. Final: no version adds a value.' },
        },
      },
    }
    t.strictSame(
      responseEnumerations(document).map(({ name, isFinal }) => [name, isFinal]),
      [
        ['Color', true],
        ['listWidgets/404/content/application/json/schema', false],
        ['Widget.kinds', false],
      ],
    )
  },
)

t.test('an enumeration that may grow has the values of its enum for requests', async (t) => {
  const schemas = asObject(asObject(loadContract().document.components).schemas)
  const choices = Object.keys(schemas).filter((name) => name.endsWith('Choice'))
  for (const name of choices) {
    const { enum: values } = asObject(schemas[name])
    const growing = asObject(schemas[name.replace(/Choice$/, '')])
    t.strictSame(growing['x-extensible-enum'], values, name)
  }
  t.ok(choices.includes('RelationKindChoice'))
})

t.test('new parameters come last, because clients can pass them by position', async (t) => {
  const listOf = (...names: readonly string[]) => ({
    paths: {
      '/tasks': { get: { parameters: names.map((name) => ({ $ref: `#/components/parameters/${name}` })) } },
    },
    components: { parameters: Object.fromEntries(names.map((name) => [name, { in: 'query', name }])) },
  })
  for (const names of [['a', 'b'], ['a', 'b', 'c'], ['a'], ['b', 'c']])
    t.strictSame(findMovedParameters(listOf('a', 'b'), listOf(...names)), [], names.join(' '))
  for (const names of [
    ['c', 'a', 'b'],
    ['a', 'c', 'b'],
    ['b', 'a'],
  ])
    t.match(
      findMovedParameters(listOf('a', 'b'), listOf(...names)),
      [
        `GET /tasks: the query parameter ${names.find((name, index) => name !== 'ab'[index])} is not at the end`,
      ],
      names.join(' '),
    )
})

t.test('operations that no release has had are previews', async (t) => {
  t.ok(releasedContract)
  const released: unknown = JSON.parse(readFileSync(releasedContract ?? '', 'utf8'))
  t.strictSame(findStabilityFaults(released, loadContract().document), [])
})

t.test('a new operation is a preview, and one that was released as stable is none', async (t) => {
  const contractOf = (path: string, operationId: string, stability?: string) => ({
    paths: { [path]: { get: { operationId, ...(stability && { 'x-stability': stability }) } } },
  })
  const released = contractOf('/tasks', 'listTasks')
  const preview = contractOf('/tasks', 'listTasks', 'preview')
  const isNew = ['GET /claims is new: it needs x-stability: preview']
  const isStable = ['GET /tasks was released without x-stability: preview, and cannot get it']
  t.strictSame(findStabilityFaults(released, contractOf('/claims', 'listClaims')), isNew)
  t.strictSame(findStabilityFaults(released, contractOf('/claims', 'listClaims', 'preview')), [])
  t.strictSame(findStabilityFaults(released, released), [])
  t.strictSame(findStabilityFaults(released, contractOf('/todos', 'listTasks')), [], 'moved')
  t.strictSame(findStabilityFaults(released, contractOf('/tasks', 'findTasks')), [], 'renamed')
  t.strictSame(findStabilityFaults(released, preview), isStable)
  t.strictSame(findStabilityFaults(preview, released), [], 'stable after a release')
  t.strictSame(findStabilityFaults(preview, preview), [], 'a preview for longer')
})

t.test('previews and what only they use are not compared', async (t) => {
  const ref = (name: string) => ({ schema: { $ref: `#/components/schemas/${name}` } })
  const kept = { get: { responses: { 200: ref('Task') } } }
  const components = {
    schemas: { Task: { properties: { tag: ref('Tag').schema } }, Tag: { type: 'string' } },
    securitySchemes: { token: { type: 'http' } },
  }
  const document = {
    paths: { '/tasks': { ...kept, post: { 'x-stability': 'preview', responses: { 201: ref('Claim') } } } },
    components: { ...components, schemas: { ...components.schemas, Claim: { properties: ref('Tag') } } },
  }
  t.strictSame(withoutPreviews(document), { paths: { '/tasks': kept }, components })
})

t.test('without a release there are no breaking changes', async (t) => {
  t.strictSame(faultsOf(null, '0.1.0'), [])
})

t.test('CHANGELOG.md has an entry for the version, released or not', async (t) => {
  const missing = ['CHANGELOG.md has no entry "## 0.1.0"']
  for (const changelog of ['', '## 0.1.0-rc', '## 0.1.01', '## 0.1', 'About ## 0.1.0', '### 0.1.0']) {
    for (const released of [null, '0.1.0'])
      t.strictSame(
        validateVersion({ version: '0.1.0', released, breaking: [], changelog }),
        missing,
        changelog,
      )
  }
  const dated = '## 0.1.0 - 2027-01-04'
  t.strictSame(validateVersion({ version: '0.1.0', released: null, breaking: [], changelog: dated }), [])
})

t.test('invalid versions are rejected', async (t) => {
  for (const version of ['', '1', '1.0', 'v1.0.0', '1.0.0-rc.1', '01.0.0', '1.0.0 '])
    t.match(faultsOf(null, version), [/is not a version/], version)
  t.match(faultsOf('latest', '1.0.0'), [/released info.version latest is not a version/])
})
