import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

/**
 * Fails when the compiler would not notice a change of the schema or the contract that statements have not followed. It makes
 * such changes in memory and looks for the compile error of each: every column of tables.ts renamed, every read schema of the
 * contract with one field more, every read model with one field less.
 */

const tablesPath = resolve('src/db/schema/tables.ts')
const contractPath = resolve('generated/openapi.ts')
const modelsPath = resolve('src/db/read-models.ts')

const rootNames = globSync('src/db/**/*.ts').map((path) => resolve(path))
const options = ts.parseJsonConfigFileContent(
  ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path)).config,
  ts.sys,
  '.',
).options

/** Sources by path and text, so that a program parses only what differs from the one before. */
const parsed = new Map<string, ts.SourceFile>()

/** The compile errors of src/db, as `path: message`, when the files in `changed` have these texts. */
const compile = (changed: ReadonlyMap<string, string>): string[] => {
  const host = ts.createCompilerHost(options)
  const readSource = host.getSourceFile.bind(host)
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const text = changed.get(resolve(path))
    if (text !== undefined) return ts.createSourceFile(path, text, languageVersion, true)
    const source = parsed.get(path) ?? readSource(path, languageVersion, ...rest)
    if (source !== undefined) parsed.set(path, source)
    return source
  }
  const program = ts.createProgram({ rootNames, options, host })
  return rootNames
    .flatMap((path) => program.getSemanticDiagnostics(program.getSourceFile(path)))
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`)
}

/** A piece of a text that is replaced. */
interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

const edit = (path: string, edits: readonly Edit[]): ReadonlyMap<string, string> => {
  const text = edits
    .toSorted((a, b) => b.start - a.start)
    .reduce(
      (edited, { start, end, text: replacement }) => edited.slice(0, start) + replacement + edited.slice(end),
      readFileSync(path, 'utf8'),
    )
  return new Map([[path, text]])
}

const parse = (path: string): ts.SourceFile =>
  ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true)

const walk = (node: ts.Node, visit: (node: ts.Node) => void): void => {
  visit(node)
  ts.forEachChild(node, (child) => walk(child, visit))
}

interface Column {
  readonly table: string
  readonly name: string
  readonly place: Edit
}

const findColumns = (): Column[] => {
  const columns: Column[] = []
  walk(parse(tablesPath), (node) => {
    if (!ts.isCallExpression(node) || node.expression.getText() !== 'pgTable') return
    const [table, fields] = node.arguments
    if (table === undefined || !ts.isStringLiteral(table)) return
    if (fields === undefined || !ts.isObjectLiteralExpression(fields)) return
    for (const { name } of fields.properties) {
      if (name === undefined) continue
      const text = `${name.getText()}_renamed`
      const place = { start: name.getStart(), end: name.getEnd(), text }
      columns.push({ table: table.text, name: name.getText(), place })
    }
  })
  return columns
}

/** One column of every table at a time: each error names its table. */
const findUncheckedColumns = (columns: readonly Column[]): Column[] => {
  const byTable = Map.groupBy(columns, ({ table }) => table)
  const rounds = Math.max(...byTable.values().map(({ length }) => length))
  return Array.from({ length: rounds }, (_, round) => {
    const renamed = [...byTable.values()].flatMap((ofTable) => ofTable[round] ?? [])
    const errors = compile(
      edit(
        tablesPath,
        renamed.map(({ place }) => place),
      ),
    ).filter((error) => !error.startsWith(tablesPath))
    return renamed.filter(
      ({ table, name }) =>
        !errors.some((error) => error.includes(`'${name}'`) && error.includes(`"${table}"`)),
    )
  }).flat()
}

const unchecked: string[] = []
const baseline = compile(new Map())
if (baseline.length > 0) throw new Error(`The code does not compile as it is:\n${baseline.join('\n')}`)

const columns = findColumns()
for (const { table, name } of findUncheckedColumns(columns))
  unchecked.push(`${table}.${name} can be renamed: no statement names it through db/schema/columns.ts`)

/** The schemas that read-models.ts says it builds, and where. */
const models: { readonly schema: string; readonly fields: ts.ObjectLiteralExpression }[] = []
walk(parse(modelsPath), (node) => {
  if (!ts.isSatisfiesExpression(node) || !ts.isObjectLiteralExpression(node.expression)) return
  const schema = /Schemas\['(\w+)'\]/.exec(node.type.getText())?.[1]
  if (schema !== undefined) models.push({ schema, fields: node.expression })
})
if (models.length === 0) throw new Error('read-models.ts has no read models')

const readSchemas = new Map<string, ts.TypeLiteralNode>()
walk(parse(contractPath), (node) => {
  if (!ts.isPropertySignature(node) || node.type === undefined) return
  // A schema with `allOf` is an intersection of types.
  const types: readonly ts.TypeNode[] = ts.isIntersectionTypeNode(node.type) ? node.type.types : [node.type]
  const type = types.find(ts.isTypeLiteralNode)
  const name = node.name.getText()
  if (type !== undefined && models.some(({ schema }) => schema === name)) readSchemas.set(name, type)
})

for (const { schema, fields } of models) {
  const inContract = readSchemas.get(schema)
  const last = fields.properties.at(-1)
  if (inContract === undefined || last === undefined)
    throw new Error(`${schema} is not a read schema of the contract`)
  const changes = {
    'the contract can have one field more': edit(contractPath, [
      { start: inContract.getStart() + 1, end: inContract.getStart() + 1, text: ' field_added: string;' },
    ]),
    'the read model can have one field less': edit(modelsPath, [
      { start: last.getStart(), end: last.getEnd(), text: '' },
    ]),
  }
  for (const [change, changed] of Object.entries(changes)) {
    const errors = compile(changed)
    if (!errors.some((error) => error.startsWith(modelsPath))) unchecked.push(`${schema}: ${change}`)
  }
}

for (const problem of unchecked) console.error(problem)
console.log(
  `${columns.length} columns and ${models.length} read models changed, ${unchecked.length} changes not noticed`,
)
if (unchecked.length > 0) process.exitCode = 1
