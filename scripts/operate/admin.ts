import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import type { components } from '../../generated/openapi.ts'
import { cacheCredentials } from '../../src/auth/credentials.ts'
import { newUndoToken } from '../../src/auth/opaque-tokens.ts'
import { passwordHasher } from '../../src/auth/passwords.ts'
import { readConfig } from '../../src/config/config.ts'
import { loadContract } from '../../src/contract/contract.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { type OpContext, shellContext } from '../../src/services/context.ts'
import { readMigrationState } from '../../src/db/engine/migrate.ts'
import type { PageRequest } from '../../src/domain/pages.ts'
import { selectUserIdByName, selectUsers, type UserChange } from '../../src/db/users.ts'
import { type Principal, shellPrincipal } from '../../src/domain/permissions.ts'
import { canonicalEmail } from '../../src/domain/email-address.ts'
import { compileValidation, type ObjectSchema } from '../../src/http/validation.ts'
import { databaseProblem } from '../../src/db/problems.ts'
import { problemOf } from '../../src/http/problem-responses.ts'
import type { ClaimSet } from '../../src/oidc/claims.ts'
import { createProviders } from '../../src/oidc/providers.ts'
import type { Problem } from '../../src/problems/problems.ts'
import { previewSignIn } from '../../src/services/oidc-preview.ts'
import { allowPassword, setPassword } from '../../src/services/passwords.ts'
import { resetSecondFactor } from '../../src/services/second-factor.ts'
import { createUser, updateUser } from '../../src/services/users.ts'
import { openConfigured } from './configured-database.ts'
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
  storage check
  storage adopt
  retention confirm

<user> is a username or an email address. Passwords are read from the terminal, or from standard input.
"oidc preview" reads the claims of an ID token, as JSON, from standard input, and shows what a sign-in would do.`

const deadline = 120_000

type Schemas = components['schemas']

interface Shell {
  readonly ctx: OpContext<Principal>
  /** Invalidates the cached credentials of a user in the running service. */
  forgetUser(userId: string): Promise<void>
}

interface Options {
  readonly admin?: boolean
  readonly json?: boolean
  readonly 'display-name'?: string
  readonly 'attachment-bytes'?: string
  readonly tasks?: string
}

interface Command {
  /** By default, user. */
  readonly topic?: 'oidc'
  /** The names of its arguments. */
  readonly parameters: readonly string[]
  readonly options?: readonly (keyof Options)[]
  /** Resolves to the output. */
  run(shell: Shell, names: readonly string[], options: Options): Promise<string>
}

/** A message for the operator: the command cannot be executed. */
class CommandError extends Error {}

const hasher = passwordHasher()

/** Validates and normalizes a body by a schema of the contract. */
const validBody = <Name extends 'UserCreate' | 'UserPassword' | 'UserPatch'>(
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
const ofUser = (run: (shell: Shell, name: string) => Promise<string>): Command => ({
  parameters: ['user'],
  run: (shell, [name = '']) => run(shell, name),
})

const commands: Readonly<Record<string, Command>> = {
  create: {
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

  list: {
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

  'set-password': ofUser(async (shell, name) => {
    const userId = await expectUser(shell, name)
    const { password } = validBody('UserPassword', { password: await readPassword() })
    const newHash = await hasher.hash(password)
    await setPassword(shell.ctx, { userId, newHash, resetsSecondFactor: false })
    await shell.forgetUser(userId)
    return `Set the password of ${name}, and ended all sessions`
  }),

  'allow-password': ofUser(async (shell, name) => {
    await allowPassword(shell.ctx, await expectUser(shell, name), true)
    return `${name} may use a password with OIDC_ONLY`
  }),

  'forbid-password': ofUser(async (shell, name) => {
    await allowPassword(shell.ctx, await expectUser(shell, name), false)
    return `${name} may not use a password with OIDC_ONLY`
  }),

  'reset-second-factor': ofUser(async (shell, name) => {
    const isReset = await resetSecondFactor(shell.ctx, await expectUser(shell, name))
    if (!isReset) throw new CommandError(`${name} has no second factor`)
    return `Disabled the second factor of ${name}`
  }),

  'make-admin': ofUser(async (shell, name) => {
    await changeUser(shell, name, { role: 'admin' })
    return `${name} is an administrator`
  }),

  disable: ofUser(async (shell, name) => {
    await changeUser(shell, name, { is_disabled: true })
    return `Disabled ${name}, and ended all sessions`
  }),

  enable: ofUser(async (shell, name) => {
    await changeUser(shell, name, { is_disabled: false })
    return `Enabled ${name}`
  }),

  preview: {
    topic: 'oidc',
    parameters: ['provider'],
    async run({ ctx }, [id = '']) {
      const { oidc } = readConfig()
      const provider = oidc && createProviders(oidc).find(id)
      if (oidc === null || provider === null) throw new CommandError(`OIDC_CONFIG has no provider ${id}`)
      const claims = JSON.parse(await text(process.stdin)) as ClaimSet
      return (await previewSignIn(ctx, provider, { claims, create: oidc.create })).join('\n')
    },
  },

  'set-quota': {
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
  const connection = await openConfigured(t, readConfig())
  const { pending } = await readMigrationState(connection)
  if (pending > 0)
    throw new CommandError('The database schema is not up to date. Start the service once to migrate it.')
  const db = openDatabase(connection)
  t.teardown(() => db.close())
  const credentials = cacheCredentials(db, { background: db, log: console })
  return { ctx: shellContext(db, 'shell'), forgetUser: (userId) => credentials.forgetUser(userId) }
}

/** The message of a problem, or one line for each of its errors. */
const describe = ({ message, errors }: Problem): string =>
  errors === null ? message : errors.map(({ pointer, detail }) => `${pointer.slice(1)} ${detail}`).join('\n')

/** The arguments are no command. */
class UsageError extends Error {}

/** @throws UsageError */
const parseCommand = (args: readonly string[]): ((shell: Shell) => Promise<string>) => {
  const { values, positionals } = parseOptions(args)
  const [topic = '', name = '', ...names] = positionals
  if (topic === '') throw new UsageError('A command is missing')
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined || topic !== (command.topic ?? 'user'))
    throw new UsageError(`There is no command "${positionals.slice(0, 2).join(' ')}"`)
  const { parameters, options = [] } = command
  if (parameters.length !== names.length)
    throw new UsageError(
      `"${topic} ${name}" takes ${parameters.map((parameter) => `<${parameter}>`).join(' ') || 'no arguments'}, not ${names.length} arguments`,
    )
  const unknown = Object.keys(values).find((option) => !options.some((known) => known === option))
  if (unknown !== undefined) throw new UsageError(`"${topic} ${name}" has no option --${unknown}`)
  return (shell) => command.run(shell, names, values)
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
const program = programs[args.join(' ')]
// It exits at its end.
if (program !== undefined) await import(program)

const command = commandOrUsage(args)

await runToEnd('admin', deadline, async (t) => {
  const shell = await openShell(t)
  try {
    console.log(await command(shell))
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new Error(describe(problemOf(error, databaseProblem)), { cause: error })
  }
})
