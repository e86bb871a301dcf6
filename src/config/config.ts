import { closestMatch } from 'leven'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { type Setting, settings, type Settings } from './settings.ts'
import type { OidcFile } from './oidc.ts'
import { isLoopback, type MailAddress, type SmtpServer } from './values.ts'

export type LogFormat = NonNullable<Settings['logFormat']>

/** Email delivery: SMTP, log (development), or disabled. */
export type MailConfig =
  | {
      readonly kind: 'smtp'
      readonly server: SmtpServer
      readonly from: MailAddress
      /** Prefix of the links in emails. Never taken from a request, whose Host header its sender controls. */
      readonly publicUrl: string
    }
  | { readonly kind: 'log' }
  | { readonly kind: 'none' }

/** The account that is created in a database without accounts. */
export interface FirstAdmin {
  readonly email: string
  readonly password: string
}

/** Sign-in with identity providers. Holds their secrets. */
export interface OidcConfig extends OidcFile {
  /** Prefix of the redirect URIs. Never taken from a request, as for emails. */
  readonly publicUrl: string
  readonly create: NonNullable<Settings['oidcCreate']>
  /** Whether passwords are closed, but for accounts that an operator has named. */
  readonly isOnly: boolean
  readonly sessionHours: number
  readonly reauthDays: number
}

/** The settings behind `Config.mail`. */
type MailSettings = Pick<
  Settings,
  'smtpUrl' | 'mailFrom' | 'isProduction' | 'publicUrl' | 'trustProxy' | 'host'
>
/** The settings behind `Config.traces`. */
type TraceSettings = Pick<
  Settings,
  'tracesExporter' | 'otlpEndpoint' | 'otlpTracesEndpoint' | 'isOtelDisabled'
>

/**
 * The configuration of a process. `databaseUrl`, `redisUrl`, `jwtSecrets`, `metricsToken`, `firstAdmin`,
 * `mail` and `oidc` hold secrets.
 */
export interface Config extends Omit<
  Settings,
  | keyof TraceSettings
  | 'smtpUrl'
  | 'mailFrom'
  | 'isProduction'
  | 'workers'
  | 'adminEmail'
  | 'adminPassword'
  | 'oidc'
  | 'oidcCreate'
  | 'oidcOnly'
  | 'oidcSessionHours'
  | 'oidcReauthDays'
> {
  /** Null without identity providers. */
  readonly oidc: OidcConfig | null
  /** Null if unset: the first account that registers becomes the administrator. */
  readonly firstAdmin: FirstAdmin | null
  readonly mail: MailConfig
  /** Whether traces are sent. OpenTelemetry itself reads the destination and the protocol from the environment. */
  readonly traces: boolean
  /** Number of processes that answer requests. With 1, this process answers them, without a supervisor. */
  readonly workers: number
}

/** Thrown for invalid values in the environment. The message has one line per variable and shows no secret. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Reads the configuration. An empty variable counts as unset. `<name>_FILE` names a file with the value of a secret variable.
 *
 * @throws ConfigError that names every invalid variable, with the error and an example of a valid value
 */
export function readConfig(env: NodeJS.ProcessEnv = process.env): Config {
  const faults: string[] = []
  const secrets = readSecretFiles(env, faults)
  const textOf = (name: string): string | undefined => secrets.get(name) ?? env[name]
  const read = ({ name, parse, default: fallback, example }: Setting<unknown>): unknown => {
    const text = textOf(name)
    if (!text) return fallback
    const parsed = parse(text)
    if ('value' in parsed) return parsed.value
    faults.push(`${name} ${parsed.fault} (example: ${example})`)
    return fallback
  }
  const {
    smtpUrl,
    mailFrom,
    isProduction,
    tracesExporter,
    otlpEndpoint,
    otlpTracesEndpoint,
    isOtelDisabled,
    workers,
    adminEmail,
    adminPassword,
    oidc,
    oidcCreate,
    oidcOnly,
    oidcSessionHours,
    oidcReauthDays,
    ...config
  } = Object.fromEntries(Object.entries(settings).map(([key, setting]) => [key, read(setting)])) as Settings

  const isSet = ({ name }: Setting<unknown>): boolean => Boolean(textOf(name))
  if (smtpUrl !== null && !isSet(settings.publicUrl)) {
    const { name, example } = settings.publicUrl
    faults.push(
      `${settings.smtpUrl.name} requires ${name}, the base URL of the links in emails (example: ${example})`,
    )
  }
  if (isSet(settings.oidc) && !isSet(settings.publicUrl)) {
    const { name, example } = settings.publicUrl
    faults.push(
      `${settings.oidc.name} requires ${name}, the base URL of the redirect URIs (example: ${example})`,
    )
  }
  if (oidcOnly === 'on' && !isSet(settings.oidc)) {
    const { name, example } = settings.oidc
    faults.push(`${settings.oidcOnly.name} requires ${name}: nobody could sign in (example: ${example})`)
  }
  if (isSet(settings.adminEmail) !== isSet(settings.adminPassword))
    faults.push(
      `${settings.adminEmail.name} and ${settings.adminPassword.name} require each other: set both or none`,
    )
  if (faults.length > 0) throw new ConfigError(`Invalid configuration:\n${faults.join('\n')}`)
  return {
    ...config,
    firstAdmin:
      adminEmail === null || adminPassword === null ? null : { email: adminEmail, password: adminPassword },
    mail: mailConfig({ ...config, smtpUrl, mailFrom, isProduction }),
    oidc:
      oidc === null || config.publicUrl === null
        ? null
        : {
            ...oidc,
            publicUrl: config.publicUrl,
            create: oidcCreate,
            isOnly: oidcOnly === 'on',
            sessionHours: oidcSessionHours,
            reauthDays: oidcReauthDays,
          },
    traces: areTracesOn({ tracesExporter, otlpEndpoint, otlpTracesEndpoint, isOtelDisabled }),
    workers: workers === 'auto' ? availableParallelism() : workers,
  }
}

/** The contents of the files in `<name>_FILE` variables, by the name of the setting, without the final newline. */
function readSecretFiles(env: NodeJS.ProcessEnv, faults: string[]): ReadonlyMap<string, string> {
  const contents = new Map<string, string>()
  for (const { name, isSecret = false } of Object.values<Setting<unknown>>(settings)) {
    const path = isSecret && env[`${name}_FILE`]
    if (!path) continue
    if (env[name]) faults.push(`${name} and ${name}_FILE are both set: set one of them`)
    try {
      const content = readFileSync(path, 'utf8').replace(/\r?\n$/, '')
      if (content === '') faults.push(`${name}_FILE names an empty file: ${path}`)
      contents.set(name, content)
    } catch (error) {
      faults.push(`${name}_FILE cannot be read: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return contents
}

/** The settings whose names are long enough to recognize a misspelled one. */
const recognizable = Object.values<Setting<unknown>>(settings)
  .map(({ name }) => name)
  .filter((name) => name.length >= 8 && !name.startsWith('NODE_'))

/** Names of other programs for what a setting says. */
const otherNames: Readonly<Record<string, string>> = {
  S3_BUCKET: 'STORAGE_URL',
  S3_ENDPOINT: 'STORAGE_URL',
  S3_URL: 'STORAGE_URL',
}

/** What became of the settings of earlier versions. */
const removedSettings: Readonly<Record<string, string>> = {
  DATABASE_READ_URL: 'all requests read from DATABASE_URL',
}

/** Set by Kubernetes for services with names such as `taskwright`. */
const serviceLink = /^TASKWRIGHT_(.*_)?(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))(_.*)?$/

/** Of the commands and examples. */
const commandVariable = /^TASKWRIGHT_(URL|TOKEN|RECEIVERS?)$/

/** A warning for each variable that looks like a setting, or was one, and is none. */
export function unknownSettings(env: NodeJS.ProcessEnv = process.env): readonly string[] {
  const known = new Set(
    Object.values<Setting<unknown>>(settings).flatMap(({ name, isSecret = false }) =>
      isSecret ? [name, `${name}_FILE`] : [name],
    ),
  )
  return Object.entries(env).flatMap(([name, value = '']) => {
    const isLink = serviceLink.test(name) || value.startsWith('tcp://')
    if (known.has(name) || isLink || commandVariable.test(name)) return []
    const now = removedSettings[name.replace(/_FILE$/, '')]
    if (now !== undefined) return [`${name} is no longer a setting, and is ignored: ${now}`]
    const stem = name
      .toUpperCase()
      .replace(/^TASKWRIGHT_/, '')
      .replace(/_FILE$/, '')
      .replace(/IES$/, 'Y')
    const meant = known.has(stem)
      ? stem
      : (otherNames[stem] ?? closestMatch(stem, recognizable, { maxDistance: 2 }))
    // "host" is a variable of some shells.
    const isOurs = name.startsWith('TASKWRIGHT_') || (meant !== undefined && recognizable.includes(meant))
    if (!isOurs) return []
    return [
      `${name} is not a setting, and is ignored${meant === undefined ? '' : `. Did you mean ${meant}?`}`,
    ]
  })
}

/**
 * Reads LOG_FORMAT alone: reporting that another variable is invalid requires it. If it is unset or invalid, the log is text on
 * a terminal outside production, and JSON everywhere else.
 */
export function readLogFormat(
  env: NodeJS.ProcessEnv = process.env,
  isTerminal: boolean = process.stdout.isTTY,
): LogFormat {
  const { logFormat, isProduction } = settings
  const chosen = logFormat.parse(env[logFormat.name] ?? '')
  if ('value' in chosen && chosen.value !== null) return chosen.value
  return isTerminal && env[isProduction.name] !== 'production' ? 'pretty' : 'json'
}

function mailConfig({
  smtpUrl,
  mailFrom,
  isProduction,
  publicUrl,
  trustProxy,
  host,
}: MailSettings): MailConfig {
  if (smtpUrl !== null && publicUrl !== null) {
    const defaultFrom = { name: 'Taskwright', address: `taskwright@${new URL(publicUrl).hostname}` }
    return { kind: 'smtp', server: smtpUrl, from: mailFrom ?? defaultFrom, publicUrl }
  }
  // Only on a loopback address, which users of other machines cannot reach: the links in the log grant access to accounts.
  const isDevelopment = !isProduction && publicUrl === null && trustProxy.length === 0 && isLoopback(host)
  return { kind: isDevelopment ? 'log' : 'none' }
}

function areTracesOn({
  tracesExporter,
  otlpEndpoint,
  otlpTracesEndpoint,
  isOtelDisabled,
}: TraceSettings): boolean {
  if (isOtelDisabled || tracesExporter === 'none') return false
  return tracesExporter === 'otlp' || otlpEndpoint !== null || otlpTracesEndpoint !== null
}
