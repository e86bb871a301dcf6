import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

/**
 * Fails if the compiler does not detect that the SQL and the schema or the contract differ. It makes changes in memory and expects a
 * compile error for each: it renames every column of tables.ts, adds a field to every read schema of the contract, and removes a
 * field from every read model.
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

/** Parsed files by path, shared by all programs. Changed files are parsed again. */
const parsed = new Map<string, ts.SourceFile>()

interface CompileError {
  readonly path: string
  readonly start: number
  readonly message: string
}

/** The compile errors of src/db with the content of some files replaced. */
const compile = (changed: ReadonlyMap<string, string>): readonly CompileError[] => {
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
    .map(({ file, start = 0, messageText }) => ({
      path: file?.fileName ?? '',
      start,
      message: ts.flattenDiagnosticMessageText(messageText, ' '),
    }))
}

/** A range of a text, and its replacement. */
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

/** Renames one column of every table at a time, because a compile error names its table. */
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
    ).filter(({ path }) => path !== tablesPath)
    return renamed.filter(
      ({ table, name }) =>
        !errors.some(({ message }) => message.includes(`'${name}'`) && message.includes(`"${table}"`)),
    )
  }).flat()
}

const unchecked: string[] = []
const baseline = compile(new Map())
if (baseline.length > 0)
  throw new Error(
    `The unchanged code does not compile:\n${baseline.map(({ message }) => message).join('\n')}`,
  )

const columns = findColumns()
for (const { table, name } of findUncheckedColumns(columns))
  unchecked.push(`${table}.${name} can be renamed: no statement refers to it through db/schema/columns.ts`)

/** An object literal that satisfies the fields of a schema of the contract. */
interface Model {
  readonly schema: string
  readonly fields: ts.ObjectLiteralExpression
  /** The end of the `satisfies` expression. */
  readonly end: number
}

const models: Model[] = []
walk(parse(modelsPath), (node) => {
  if (!ts.isSatisfiesExpression(node) || !ts.isObjectLiteralExpression(node.expression)) return
  const schema = /Schemas\['(\w+)'\]/.exec(node.type.getText())?.[1]
  if (schema !== undefined) models.push({ schema, fields: node.expression, end: node.getEnd() })
})
if (models.length === 0) throw new Error('read-models.ts has no read models')

const readSchemas = new Map<string, ts.TypeLiteralNode>()
walk(parse(contractPath), (node) => {
  if (!ts.isPropertySignature(node) || node.type === undefined) return
  // A schema with `allOf` is an intersection type.
  const types: readonly ts.TypeNode[] = ts.isIntersectionTypeNode(node.type) ? node.type.types : [node.type]
  const type = types.find(ts.isTypeLiteralNode)
  const name = node.name.getText()
  if (type !== undefined && models.some(({ schema }) => schema === name)) readSchemas.set(name, type)
})

/** Adds a field to all schemas at once: a compile error is in the read model and names the field. */
const findUncheckedSchemas = (): readonly Model[] => {
  const added = ({ schema }: Model): string => `added_to_${schema}`
  const edits = models.map((model) => {
    const schema = readSchemas.get(model.schema)
    if (schema === undefined) throw new Error(`${model.schema} is not a read schema of the contract`)
    const start = schema.getStart() + 1
    return { start, end: start, text: ` ${added(model)}: string;` }
  })
  const errors = compile(edit(contractPath, edits))
  return models.filter((model) => !errors.some((error) => isIn(model, error, added(model))))
}

/** Removes the last field of all read models at once. Spaces replace it, which keeps the positions of the text after it. */
const findUncheckedModels = (): readonly Model[] => {
  const removed = models.map(({ schema, fields }) => {
    const last = fields.properties.at(-1)
    if (last?.name === undefined) throw new Error(`The read model of ${schema} does not end with a field`)
    const [start, end] = [last.getStart(), fields.properties.end]
    return { name: last.name.getText(), edit: { start, end, text: ' '.repeat(end - start) } }
  })
  const errors = compile(
    edit(
      modelsPath,
      removed.map((field) => field.edit),
    ),
  )
  return models.filter(
    (model, index) => !errors.some((error) => isIn(model, error, removed[index]?.name ?? '')),
  )
}

const isIn = ({ fields, end }: Model, { path, start, message }: CompileError, field: string): boolean =>
  path === modelsPath && start >= fields.getStart() && start < end && message.includes(field)

for (const { schema } of findUncheckedSchemas())
  unchecked.push(`${schema}: a field can be added to the contract`)
for (const { schema } of findUncheckedModels())
  unchecked.push(`${schema}: a field can be removed from the read model`)

for (const problem of unchecked) console.error(problem)
console.log(
  `${columns.length} columns and ${models.length} read models changed, ${unchecked.length} changes not detected`,
)
if (unchecked.length > 0) process.exitCode = 1
