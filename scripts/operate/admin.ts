import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import type { components } from '../../generated/openapi.ts'
import { cacheCredentials } from '../../src/auth/credentials.ts'
import { newUndoToken } from '../../src/auth/opaque-tokens.ts'
import { passwordHasher } from '../../src/auth/passwords.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import { loadContract } from '../../src/contract/contract.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { createContext, type OpContext } from '../../src/services/shared/context.ts'
import { readMigrationState } from '../../src/db/engine/migrate.ts'
import type { PageRequest } from '../../src/domain/shared/pages.ts'
import { selectUserIdByName, selectUsers, type UserChange } from '../../src/db/accounts/users.ts'
import { localClient } from '../../src/domain/activity/audit.ts'
import { type Principal, shellPrincipal } from '../../src/domain/shared/permissions.ts'
import { canonicalEmail } from '../../src/domain/accounts/email-address.ts'
import { validateFileName } from '../../src/domain/files/file-description.ts'
import { type ImportUsers, maxPreviewedUsers } from '../../src/domain/interchange/imports.ts'
import { version } from '../../src/domain/shared/version.ts'
import { jobTimes } from '../../src/jobs/registry.ts'
import { compileValidation, type ObjectSchema } from '../../src/http/validation.ts'
import { databaseProblem } from '../../src/db/shared/problems.ts'
import { problemOf } from '../../src/http/problem-responses.ts'
import type { ClaimSet } from '../../src/oidc/claims.ts'
import { createProviders } from '../../src/oidc/providers.ts'
import type { MapError, Problem } from '../../src/problems/problems.ts'
import { createUsablePassword } from '../../src/services/accounts/check-password.ts'
import { unlinkIdentities } from '../../src/services/accounts/oidc.ts'
import { previewSignIn } from '../../src/services/accounts/oidc-preview.ts'
import { allowPassword, setPassword } from '../../src/services/accounts/passwords.ts'
import { leaveRuledTeams } from '../../src/services/projects/ruled-teams.ts'
import { resetSecondFactor } from '../../src/services/accounts/second-factor.ts'
import { exportFromShell } from '../../src/services/interchange/shell-exports.ts'
import {
  createFromShell,
  getFromShell,
  runFromShell,
  settleFromShell,
  type ShellImport,
} from '../../src/services/interchange/shell-imports.ts'
import { createUser, updateUser } from '../../src/services/accounts/users.ts'
import { openStorage } from '../../src/storage/open.ts'
import { storageProblem } from '../../src/storage/problems.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { openConfigured } from './configured-database.ts'
import { helpIfAsked } from './help.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'

/**
 * Administers the installation from the server's shell. The rules and the audit events of commands for users are those of the API; the
 * other commands are programs of their own.
 */

const programs: Readonly<Record<string, string>> = {
  'storage check': './storage-check.ts',
  'storage adopt': './storage-adopt.ts',
  'retention confirm': './retention-confirm.ts',
}

const usage = `Usage: npm run --silent admin -- <command>

  user create <username> <email> [--admin] [--display-name <name>]
  user list [--json]
  user set-password <user>
  user allow-password <user>
  user forbid-password <user>
  user reset-second-factor <user>
  user make-admin <user>
  user disable <user>
  user enable <user>
  user set-quota <user> [--attachment-bytes <number>|unlimited|default] [--tasks <number>|unlimited|default]
  oidc preview <provider>
  export <user> [--project <id>] --to <file>
  import create <user> <file> [--format <format>]
  import run <user> <import> [--user <source id>=<user>]... [--author <source id>=<user>]...
  oidc unlink <user> [<provider>]
  storage check
  storage adopt
  retention confirm

<user> is a username or an email address. Passwords are read from the terminal, or from standard input.
"oidc preview" reads the claims of an ID token, as JSON, from standard input, and shows what a sign-in would do.
"export" writes the archive of what a user sees, as over the API, to a new file.
"import create" shows what is in a file, which "import run" then imports. --user maps a user of the file, for assigned tasks and for
comments; --author for comments only.
"oidc unlink" unlinks the identity of a provider, or all of them, and ends the sessions that they have started.`

const defaultDeadline = 120_000

/** For commands that read or write files of any size. */
const longDeadline = 24 * 3_600_000

type Schemas = components['schemas']

interface Shell {
  readonly ctx: OpContext<Principal>
  /** Invalidates the cached credentials of a user in the running service. */
  forgetUser(userId: string): Promise<void>
  readonly config: Config
  /** Opens the configured storage, which must exist, until the end. */
  openStorage(): Promise<Storage>
  /** Registers what is done at the end, also if the command fails or is interrupted. */
  atEnd(action: () => Promise<void>): void
}

interface Options {
  readonly admin?: boolean
  readonly json?: boolean
  readonly 'display-name'?: string
  readonly 'attachment-bytes'?: string
  readonly tasks?: string
  readonly project?: string
  readonly to?: string
  readonly format?: string
  readonly user?: string[]
  readonly author?: string[]
}

interface Command {
  /** The names of its arguments. */
  readonly parameters: readonly string[]
  /** The name of another one, which can be omitted. */
  readonly optional?: string
  readonly options?: readonly (keyof Options)[]
  /** Milliseconds. By default, two minutes. */
  readonly deadline?: number
  /** Resolves to the output. */
  run(shell: Shell, names: readonly string[], options: Options): Promise<string>
}

/** A message for the operator: the command cannot be executed. */
class CommandError extends Error {}

const hasher = passwordHasher()

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Validates and normalizes a body by a schema of the contract. */
const validBody = <Name extends 'UserCreate' | 'UserPassword' | 'UserPatch' | 'ExportCreate' | 'ImportPatch'>(
  name: Name,
  body: unknown,
): Schemas[Name] => {
  const { components } = loadContract().document as {
    readonly components: { readonly schemas: Readonly<Record<string, ObjectSchema>> }
  }
  const request = {
    body,
    params: undefined,
    query: undefined,
    headers: undefined,
    principal: shellPrincipal,
  }
  // Null comes from the command line, where it is a value.
  compileValidation({ body: { ...components.schemas[name], components }, isPatch: true })(request)
  return request.body as Schemas[Name]
}

const expectUser = async ({ ctx }: Shell, name: string): Promise<string> => {
  const id = await selectUserIdByName(ctx.db, { name, email: canonicalEmail(name) ?? name })
  if (id === null) throw new CommandError(`There is no user ${name}`)
  return id
}

const changeUser = async (shell: Shell, name: string, change: UserChange): Promise<void> => {
  const id = await expectUser(shell, name)
  const { hash: undoHash } = newUndoToken()
  await updateUser(shell.ctx, { id, change, undoHash })
  await shell.forgetUser(id)
}

/** A command whose only argument is a user. */
const userCommand = (run: (shell: Shell, name: string) => Promise<string>): Command => ({
  parameters: ['user'],
  run: (shell, [name = '']) => run(shell, name),
})

const commands: Readonly<Record<string, Command>> = {
  'user create': {
    parameters: ['username', 'email'],
    options: ['admin', 'display-name'],
    async run({ ctx }, [username, email], { admin = false, 'display-name': displayName }) {
      const user = validBody('UserCreate', {
        username,
        email,
        password: await readPassword(),
        display_name: displayName ?? username,
        role: admin ? 'admin' : 'member',
        time_zone: 'UTC',
      })
      const { display_name = user.username, role = 'member', time_zone: timeZone = 'UTC', ...names } = user
      const { id } = await createUser(ctx, { ...names, displayName: display_name, role, timeZone }, hasher)
      return `Created ${role} ${user.username} (${id})`
    },
  },

  'user list': {
    parameters: [],
    options: ['json'],
    async run({ ctx }, _names, { json = false }) {
      const users: Schemas['User'][] = []
      let position: PageRequest['position'] = null
      do {
        const page = await selectUsers(ctx, {}, { limit: 200, offset: 0, position, includeTotal: false })
        users.push(...(JSON.parse(page.items) as Schemas['User'][]))
        position = page.next
      } while (position !== null)
      if (json) return JSON.stringify(users, null, 2)
      return users
        .map(({ username, email, role, is_disabled }) =>
          [username, email, role, ...(is_disabled ? ['disabled'] : [])].join('\t'),
        )
        .join('\n')
    },
  },

  'user set-password': userCommand(async (shell, name) => {
    const userId = await expectUser(shell, name)
    const { password } = validBody('UserPassword', { password: await readPassword() })
    const newHash = await hasher.hash(password)
    const isOnly = readConfig().oidc?.isOnly === true
    const { issuers } = await setPassword(shell.ctx, { userId, newHash, resetsSecondFactor: false, isOnly })
    await shell.forgetUser(userId)
    await leaveRuledTeams(shell.ctx, { userId, issuers }, console)
    return `Set the password of ${name}, and ended all sessions${issuers.map((issuer) => `\nUnlinked the identity of ${issuer}`).join('')}`
  }),

  'user allow-password': userCommand(async (shell, name) => {
    await allowPassword(shell.ctx, await expectUser(shell, name), true)
    return `${name} may use a password with OIDC_ONLY`
  }),

  'user forbid-password': userCommand(async (shell, name) => {
    await allowPassword(shell.ctx, await expectUser(shell, name), false)
    return `${name} may not use a password with OIDC_ONLY`
  }),

  'user reset-second-factor': userCommand(async (shell, name) => {
    const isReset = await resetSecondFactor(shell.ctx, await expectUser(shell, name))
    if (!isReset) throw new CommandError(`${name} has no second factor`)
    return `Disabled the second factor of ${name}`
  }),

  'user make-admin': userCommand(async (shell, name) => {
    await changeUser(shell, name, { role: 'admin' })
    return `${name} is an administrator`
  }),

  'user disable': userCommand(async (shell, name) => {
    await changeUser(shell, name, { is_disabled: true })
    return `Disabled ${name}, and ended all sessions`
  }),

  'user enable': userCommand(async (shell, name) => {
    await changeUser(shell, name, { is_disabled: false })
    return `Enabled ${name}`
  }),

  'oidc preview': {
    parameters: ['provider'],
    async run({ ctx }, [id = '']) {
      const { oidc } = readConfig()
      const provider = oidc && createProviders(oidc).find(id)
      if (oidc === null || provider === null) throw new CommandError(`OIDC_CONFIG has no provider ${id}`)
      const claims = JSON.parse(await text(process.stdin)) as ClaimSet
      return (await previewSignIn(ctx, provider, { claims, create: oidc.create })).join('\n')
    },
  },

  'oidc unlink': {
    parameters: ['user'],
    optional: 'provider',
    async run(shell, [name = '', id]) {
      const { oidc } = readConfig()
      const providers = oidc?.providers ?? []
      const provider = providers.find((one) => one.id === id) ?? null
      if (id !== undefined && provider === null) throw new CommandError(`OIDC_CONFIG has no provider ${id}`)
      const userId = await expectUser(shell, name)
      const { issuers, canSignIn } = await unlinkIdentities(
        shell.ctx,
        { userId, issuer: provider?.issuer ?? null },
        {
          usablePassword: createUsablePassword({ isOnly: oidc?.isOnly === true }),
          issuers: new Set(providers.map(({ issuer }) => issuer)),
        },
      )
      if (issuers.length === 0)
        throw new CommandError(`${name} has no identity${id === undefined ? '' : ` of ${id}`}`)
      await shell.forgetUser(userId)
      await leaveRuledTeams(shell.ctx, { userId, issuers }, console)
      const lines = issuers.map(
        (issuer) => `Unlinked the identity of ${issuer} from ${name}, and ended its sessions`,
      )
      return [...lines, ...(canSignIn ? [] : [`${name} has no way to sign in now`])].join('\n')
    },
  },

  'user set-quota': {
    parameters: ['user'],
    options: ['attachment-bytes', 'tasks'],
    async run(shell, [name = ''], { 'attachment-bytes': bytes, tasks }) {
      if (bytes === undefined && tasks === undefined) throw new CommandError('There is no quota to set')
      const quotas = {
        ...(bytes !== undefined && { attachment_quota_bytes: quotaOf(bytes) }),
        ...(tasks !== undefined && { task_quota: quotaOf(tasks) }),
      }
      await changeUser(shell, name, validBody('UserPatch', quotas))
      return `Set the quota of ${name}`
    },
  },

  export: {
    parameters: ['user'],
    options: ['project', 'to'],
    deadline: longDeadline,
    async run(shell, [name = ''], { project = null, to }) {
      if (to === undefined) throw new CommandError('--to <file> is missing')
      const userId = await expectUser(shell, name)
      const { project_id: projectId = null } = validBody('ExportCreate', { project_id: project })
      const storage = await shell.openStorage()
      const file = await openNew(to)
      let isWhole = false
      shell.atEnd(async () => {
        if (!isWhole) await rm(to, { force: true })
      })
      const folder = await mkdtemp(`${to}.records-`)
      shell.atEnd(() => rm(folder, { recursive: true, force: true }))
      const deps = { storage, generator: `Taskwright ${version}`, contract: loadContract().document }
      const count = await exportFromShell(shell.ctx, deps, { userId, projectId, folder }, (content) =>
        pipeline(content, file.createWriteStream({ flush: true })),
      )
      isWhole = true
      return `Exported ${count} records of ${name} to ${to}`
    },
  },

  'import create': {
    parameters: ['user', 'file'],
    options: ['format'],
    deadline: longDeadline,
    async run(shell, [name = '', path = ''], options) {
      const userId = await expectUser(shell, name)
      const { format = null } = validBody('ImportPatch', { format: options.format ?? null })
      const fileName = basename(path)
      const error = validateFileName(fileName)
      if (error !== null) throw new CommandError(`${path} ${error}`)
      const { file, size } = await openExisting(path)
      const storage = await shell.openStorage()
      const deps = { storage, importFileDays: shell.config.importFileDays }
      const content = file.createReadStream()
      const id = await createFromShell(shell.ctx, deps, { userId, name: fileName, size, format, content })
      const found = await settleImport(shell, storage, { userId, id })
      if (found.preview === null) throw new CommandError(endOf(found))
      return [
        `${path} has the format ${found.format}`,
        ...linesOf(found.preview, previewCounts),
        ...found.preview.users.map(({ source_id, username, display_name }) =>
          ['user', source_id, username ?? '', display_name ?? ''].join('\t'),
        ),
        `To import it: npm run --silent admin -- import run ${name} ${id}`,
      ].join('\n')
    },
  },

  'import run': {
    parameters: ['user', 'import'],
    options: ['user', 'author'],
    deadline: longDeadline,
    async run(shell, [name = '', id = ''], { user = [], author = [] }) {
      if (!uuid.test(id)) throw new CommandError(`${id} is not the id of an import`)
      const of = { userId: await expectUser(shell, name), id }
      const { preview } = await getFromShell(shell.ctx, of)
      const users = await mappingOf(shell, user, preview)
      const authors = [...users, ...(await mappingOf(shell, author, preview))]
      const storage = await shell.openStorage()
      await runFromShell(shell.ctx, of, { users, authors })
      const found = await settleImport(shell, storage, of)
      if (found.status !== 'finished' || found.result === null) throw new CommandError(endOf(found))
      return [`Imported ${found.file_name} for ${name}`, ...linesOf(found.result, resultCounts)].join('\n')
    },
  },
}

/** Works on an import until it is ready or has ended. */
const settleImport = (shell: Shell, storage: Storage, of: ShellImport): Promise<Schemas['Import']> => {
  const { ctx, config } = shell
  const { dataDir, diskReserveBytes, taskQuota, attachmentQuotaBytes, attachmentMaxBytes } = config
  const deps: Parameters<typeof settleFromShell>[1] = {
    db: ctx.db,
    storage,
    log: console,
    folder: join(dataDir, 'imports'),
    diskReserveBytes,
    lease: jobTimes.lease,
    taskQuota,
    attachmentQuotaBytes,
    attachmentMaxBytes,
  }
  const stop = new AbortController()
  const settled = settleFromShell(ctx, deps, of, stop.signal)
  shell.atEnd(async () => {
    stop.abort()
    await Promise.allSettled([settled])
  })
  return settled
}

/** Opens a file to read it. @throws CommandError */
const openExisting = async (path: string): Promise<{ readonly file: FileHandle; readonly size: number }> => {
  try {
    const file = await open(path)
    const found = await file.stat()
    if (!found.isFile()) throw new CommandError(`${path} is not a file`)
    return { file, size: found.size }
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(
      `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
}

/** How an import has ended that should not have. */
const endOf = ({ id, status, failure }: Schemas['Import']): string =>
  failure === null ? `The import ${id} is ${status}` : `The import ${id} has failed: ${failure}`

/** In the order of the output. */
const previewCounts = [
  'projects',
  'sections',
  'tasks',
  'tags',
  'comments',
  'relations',
  'attachments',
  'attachment_bytes',
  'refused',
  'altered',
] as const
const resultCounts = ['created', 'updated', 'skipped', 'refused'] as const

const linesOf = <Name extends string>(
  counts: Readonly<Record<Name, number>>,
  names: readonly Name[],
): readonly string[] => names.map((name) => `${name}\t${counts[name]}`)

/** The users of the file that options map, such as `7=ada`. @throws CommandError */
const mappingOf = async (
  shell: Shell,
  options: readonly string[],
  preview: Schemas['ImportPreview'],
): Promise<ImportUsers> => {
  // A preview that has as many as it can may lack others. Without one, the import cannot be run.
  const isComplete = preview !== null && preview.users.length < maxPreviewedUsers
  const known = new Set(preview?.users.map(({ source_id }) => source_id))
  const mapped: ImportUsers = []
  for (const option of options) {
    const separator = option.lastIndexOf('=')
    if (separator < 1) throw new CommandError(`${option} is not a mapping. Expected <source id>=<user>`)
    const source_id = option.slice(0, separator)
    if (isComplete && !known.has(source_id)) throw new CommandError(`The file has no user ${source_id}`)
    if (mapped.some((user) => user.source_id === source_id))
      throw new CommandError(`The user ${source_id} of the file is mapped twice`)
    mapped.push({ source_id, user_id: await expectUser(shell, option.slice(separator + 1)) })
  }
  return mapped
}

/** Creates a file that only its owner can read. */
const openNew = async (path: string): Promise<FileHandle> => {
  try {
    return await open(path, 'wx', 0o600)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST')
      throw new CommandError(`${path} exists already, and is not overwritten`)
    throw error
  }
}

/**
 * Parses a quota into the format of the API: 0 is unlimited, null is the default of the installation. The argument 0 is rejected,
 * because it could also mean that nothing is allowed.
 */
const quotaOf = (text: string): number | null => {
  if (text === 'default') return null
  if (text === 'unlimited') return 0
  if (/^[1-9][0-9]*$/.test(text)) return Number(text)
  throw new CommandError(`${text} is not a quota. Expected a whole number from 1, unlimited or default`)
}

/** Reads a password from the terminal without echo, or from the first line of standard input. Other users can see arguments. */
const readPassword = async (): Promise<string> => {
  if (!process.stdin.isTTY) {
    const [line = ''] = (await text(process.stdin)).split('\n')
    return line.replace(/\r$/, '')
  }
  const password = await ask('Password: ')
  if ((await ask('Again: ')) !== password) throw new CommandError('The passwords differ')
  return password
}

const ask = async (question: string): Promise<string> => {
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output, terminal: true })
  // In raw mode the terminal sends no signal.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  process.stderr.write(question)
  try {
    return await lines.question('')
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}

const openShell = async (t: Teardown): Promise<Shell> => {
  const config = readConfig()
  const connection = await openConfigured(t, config)
  const { pending } = await readMigrationState(connection)
  if (pending > 0)
    throw new CommandError('The database schema is not up to date. Start the service once to migrate it.')
  const db = openDatabase(connection)
  t.teardown(() => db.close())
  const credentials = cacheCredentials(db, { background: db, log: console })
  return {
    ctx: createContext(db, shellPrincipal, localClient('shell')),
    config,
    forgetUser: (userId) => credentials.forgetUser(userId),
    async openStorage() {
      const storage = await openStorage(config, { mayCreate: false })
      t.teardown(() => storage.close())
      return storage
    },
    atEnd: (action) => t.teardown(action),
  }
}

/** The message of a problem, or one line for each of its errors. */
const describe = ({ message, errors }: Problem): string =>
  errors === null ? message : errors.map(({ pointer, detail }) => `${pointer.slice(1)} ${detail}`).join('\n')

/** The arguments are no command. */
class UsageError extends Error {}

/** A command with its arguments. */
interface ParsedCommand {
  readonly deadline: number
  run(shell: Shell): Promise<string>
}

/** @throws UsageError */
const parseCommand = (args: readonly string[]): ParsedCommand => {
  const { values, positionals } = parseOptions(args)
  if (positionals.length === 0) throw new UsageError('A command is missing')
  // The name of a command has one word or two.
  const words = [1, 2].find((count) => Object.hasOwn(commands, positionals.slice(0, count).join(' '))) ?? 2
  const name = positionals.slice(0, words).join(' ')
  const names = positionals.slice(words)
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined) throw new UsageError(`There is no command "${name}"`)
  const { parameters, optional, options = [], deadline = defaultDeadline } = command
  const taken = [
    ...parameters.map((parameter) => `<${parameter}>`),
    ...(optional === undefined ? [] : [`[<${optional}>]`]),
  ]
  if (names.length < parameters.length || names.length > taken.length)
    throw new UsageError(
      `"${name}" takes ${taken.join(' ') || 'no arguments'}, not ${names.length} arguments`,
    )
  const unknown = Object.keys(values).find((option) => !options.some((known) => known === option))
  if (unknown !== undefined) throw new UsageError(`"${name}" has no option --${unknown}`)
  return { deadline, run: (shell) => command.run(shell, names, values) }
}

const parseOptions = (args: readonly string[]) => {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        admin: { type: 'boolean' },
        json: { type: 'boolean' },
        'display-name': { type: 'string' },
        'attachment-bytes': { type: 'string' },
        tasks: { type: 'string' },
        project: { type: 'string' },
        to: { type: 'string' },
        format: { type: 'string' },
        user: { type: 'string', multiple: true },
        author: { type: 'string', multiple: true },
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error })
  }
}

const commandOrUsage = (args: readonly string[]): ReturnType<typeof parseCommand> => {
  try {
    return parseCommand(args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    console.error(`${usage}\n\nadmin: ${error.message}`)
    return process.exit(2)
  }
}

const args = process.argv.slice(2)
helpIfAsked(usage)
const program = programs[args.join(' ')]
// It exits at its end.
if (program !== undefined) await import(program)

const command = commandOrUsage(args)

await runToEnd('admin', command.deadline, async (t) => {
  const shell = await openShell(t)
  try {
    console.log(await command.run(shell))
  } catch (error) {
    if (error instanceof CommandError) throw error
    const mapError: MapError = (cause) => databaseProblem(cause) ?? storageProblem(cause)
    throw new Error(describe(problemOf(error, mapError)), { cause: error })
  }
})
