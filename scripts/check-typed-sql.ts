import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { load } from 'js-yaml'
import ts from 'typescript'
import { asObject } from '../src/contract/contract.ts'

/**
 * Fails if the compiler does not detect that the code and the schema or the contract differ. It makes changes in memory and expects
 * a compile error for each: it renames every column of tables.ts, adds a field to every schema of a successful response, turns the
 * version in every read model into a string, and removes a field from every read model.
 */

const tablesPath = resolve('src/db/schema/tables.ts')
const contractPath = resolve('generated/openapi.ts')
const modelsPath = resolve('src/db/read-models.ts')

const filesIn = (folder: string): readonly string[] =>
  globSync(`${folder}/**/*.ts`).map((path) => resolve(path))
const queryFiles = filesIn('src/db')
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

/** The compile errors with the content of some files replaced. */
const compile = (
  changed: ReadonlyMap<string, string>,
  rootNames: readonly string[] = queryFiles,
): readonly CompileError[] => {
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

/** Columns that decide whether a row exists for a caller. */
const decidingColumns: ReadonlySet<string> = new Set([
  'archived_at',
  'assignee_id',
  'deleted_at',
  'owner_id',
  'project_id',
  'purged_at',
])

/** How often these names may stand as bare text in SQL. Lower it when the number falls. */
const maxBareNames = 130

/** Counts the names by file. It includes columns of common table expressions and members of JSON, which are not columns of tables. */
const countBareNames = (): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  const templates = globSync('src/db/**/*.ts', { exclude: ['src/db/schema/**'] })
  for (const path of templates)
    walk(parse(path), (node) => {
      if (!ts.isTaggedTemplateExpression(node) || node.tag.getText() !== 'sql') return
      const { template } = node
      const texts = ts.isNoSubstitutionTemplateLiteral(template)
        ? [template]
        : [template.head, ...template.templateSpans.map(({ literal }) => literal)]
      const names = texts.flatMap(({ text }) => Array.from(text.matchAll(/\b(as )?([a-z_]+)\b/g)))
      const bare = names.filter(([, alias, name = '']) => alias === undefined && decidingColumns.has(name))
      if (bare.length > 0) counts.set(path, (counts.get(path) ?? 0) + bare.length)
    })
  return counts
}

const bareNames = countBareNames()
const total = [...bareNames.values()].reduce((sum, count) => sum + count, 0)
for (const [path, count] of [...bareNames].toSorted(([, a], [, b]) => b - a))
  console.log(`${path}: ${count} names of deciding columns as bare text`)
if (total > maxBareNames)
  unchecked.push(`SQL has ${total} names of deciding columns as bare text; at most ${maxBareNames} may stay`)

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

/** The component schemas that the successful responses of the contract consist of. */
const findResponseSchemas = (): ReadonlySet<string> => {
  const names = new Set<string>()
  const document = asObject(load(readFileSync('openapi.yaml', 'utf8')))
  const components = asObject(document.components)
  const follow = (reference: string): void => {
    const [, , kind = '', name = ''] = reference.split('/')
    if (kind === 'schemas' && names.has(name)) return
    if (kind === 'schemas') names.add(name)
    visit(asObject(components[kind])[name])
  }
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    for (const [key, value] of Object.entries(node))
      if (key === '$ref') follow(String(value))
      else if (key !== 'example' && key !== 'examples') visit(value)
  }
  for (const operations of Object.values(asObject(document.paths)))
    for (const operation of Object.values(asObject(operations))) {
      if (typeof operation !== 'object' || operation === null || !('responses' in operation)) continue
      for (const [status, response] of Object.entries(asObject(operation.responses)))
        if (status.startsWith('2')) visit(response)
    }
  return names
}

/** Schemas of which another field is no compile error. */
const uncheckedSchemas: Readonly<Record<string, string>> = {
  Contract: 'the contract itself',
  McpMessage: 'made by the library of the protocol',
  CreatedWebhook: 'the text of a webhook, to which the secret is added',
  CreatedApiToken: 'the text of an API token, to which the token is added',
  EventTag: 'made by triggers',
  EventValues: 'made by triggers',
}

/** The object schemas of successful responses, as types. */
const responseSchemas = new Map<string, ts.TypeLiteralNode>()
const responseNames = findResponseSchemas()
walk(parse(contractPath), (node) => {
  if (!ts.isPropertySignature(node) || node.type === undefined) return
  if (!ts.isTypeLiteralNode(node.parent) || !ts.isPropertySignature(node.parent.parent)) return
  if (node.parent.parent.name.getText() !== 'schemas') return
  // A schema with `allOf` is an intersection type.
  const types: readonly ts.TypeNode[] = ts.isIntersectionTypeNode(node.type) ? node.type.types : [node.type]
  const type = types.find(ts.isTypeLiteralNode)
  const name = node.name.getText()
  if (type !== undefined && responseNames.has(name)) responseSchemas.set(name, type)
})

/** Adds a field to all schemas at once. A compile error names the field; that of a read model is in the read model. */
const findUncheckedSchemas = (): readonly string[] => {
  const added = (name: string): string => `added_to_${name}_`
  const compileWith = (schemas: readonly (readonly [string, ts.TypeLiteralNode])[]) => {
    const edits = schemas.map(([name, type]) => {
      const start = type.getStart() + 1
      return { start, end: start, text: ` ${added(name)}: string;` }
    })
    return compile(edit(contractPath, edits), filesIn('src'))
  }
  const isChecked = (errors: readonly CompileError[], name: string): boolean => {
    const ofSchema = models.filter(({ schema }) => schema === name)
    return ofSchema.length === 0
      ? errors.some(({ message }) => message.includes(added(name)))
      : ofSchema.every((model) => errors.some((error) => isIn(model, error, added(name))))
  }
  const schemas = [...responseSchemas]
  const errors = compileWith(schemas)
  // The error of one schema can hide that of another, so the rest is tried alone.
  return schemas
    .filter(([name]) => !isChecked(errors, name))
    .filter(
      ([name, type]) => uncheckedSchemas[name] !== undefined || !isChecked(compileWith([[name, type]]), name),
    )
    .map(([name]) => name)
}

/** Turns the versions of all schemas into strings at once. The compile error is in the read model that has the column. */
const findUncheckedVersions = (): readonly Model[] => {
  // The version of notification settings is an expression: there is no row before the first change.
  const versioned = models.filter(
    ({ schema, fields }) =>
      schema !== 'NotificationSettings' &&
      fields.properties.some(({ name }) => name?.getText() === 'version'),
  )
  if (versioned.length === 0) throw new Error('No read model has a version')
  const edits = [...responseSchemas.values()].flatMap(({ members }) =>
    members.flatMap((member) => {
      if (!ts.isPropertySignature(member) || member.name.getText() !== 'version') return []
      if (member.type === undefined) return []
      return { start: member.type.getStart(), end: member.type.getEnd(), text: 'string' }
    }),
  )
  const errors = compile(edit(contractPath, edits))
  return versioned.filter((model) => !errors.some((error) => isIn(model, error, "'string'")))
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

for (const name of findUncheckedSchemas())
  if (uncheckedSchemas[name] === undefined) unchecked.push(`${name}: a field can be added to the contract`)
  else console.log(`${name}: not checked (${uncheckedSchemas[name]})`)
for (const { schema } of findUncheckedVersions()) unchecked.push(`${schema}: the version can become a string`)
for (const { schema } of findUncheckedModels())
  unchecked.push(`${schema}: a field can be removed from the read model`)

for (const problem of unchecked) console.error(problem)
console.log(
  `${columns.length} columns, ${responseSchemas.size} schemas and ${models.length} read models changed, ${unchecked.length} changes not detected`,
)
if (unchecked.length > 0) process.exitCode = 1
