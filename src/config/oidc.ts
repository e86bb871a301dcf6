import { Ajv } from 'ajv'
import ipaddr from 'ipaddr.js'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, resolve } from 'node:path'
import type { TeamRule } from '../domain/projects/team-rules.ts'
import schema from './oidc.schema.json' with { type: 'json' }
import { isLoopback, type Parsed } from './values.ts'

/** An identity provider, and what its operator is trusted with. Holds a secret. */
export interface OidcProvider {
  readonly id: string
  readonly name: string
  readonly issuer: string
  readonly clientId: string
  /** Null for a public client. */
  readonly clientSecret: string | null
  readonly clientAuth: 'client_secret_basic' | 'client_secret_post'
  readonly scopes: readonly string[]
  /** Whether accounts may be created with addresses that it has not verified. */
  readonly trustsEmail: boolean
  /** Whether a verified address links to the existing account with this address. */
  readonly linksByEmail: boolean
  /** The values of claims that count as a second factor. */
  readonly secondFactor: { readonly amr: readonly string[]; readonly acr: readonly string[] }
  readonly teams: readonly TeamRule[]
}

/** The file of OIDC_CONFIG. */
export interface OidcFile {
  readonly providers: readonly OidcProvider[]
  /** Where sign-in may return to. */
  readonly returnTo: readonly string[]
}

interface FileContent {
  readonly providers: readonly {
    readonly id: string
    readonly name?: string
    readonly issuer: string
    readonly client_id: string
    readonly client_secret_file?: string
    readonly client_auth?: OidcProvider['clientAuth']
    readonly scopes?: readonly string[]
    readonly trust_email?: boolean
    readonly link_by_email?: boolean
    readonly second_factor?: { readonly amr?: readonly string[]; readonly acr?: readonly string[] }
    readonly teams?: readonly TeamRule[]
  }[]
  readonly return_to?: readonly string[]
}

/** The path of a JSON file, which is read with the files of its secrets. */
export function parseOidcFile(path: string): Parsed<OidcFile> {
  try {
    return { value: readFile(path) }
  } catch (error) {
    return {
      fault: `names a file that cannot be used: ${error instanceof Error ? error.message : String(error)}`,
    }
  }
}

function readFile(path: string): OidcFile {
  const { providers, return_to: returnTo = [] } = validContent(readFileSync(path, 'utf8'))
  const known = { id: new Set<string>(), issuer: new Set<string>() }
  for (const [index, provider] of providers.entries()) {
    const at = `/providers/${index}`
    if (!isIssuer(provider.issuer))
      throw new Error(
        `${at}/issuer must be an https:// URL without a query, or an http:// URL of a loopback address`,
      )
    for (const name of ['id', 'issuer'] as const) {
      if (known[name].has(provider[name])) throw new Error(`${at}/${name} is that of another provider`)
      known[name].add(provider[name])
    }
  }
  for (const [index, url] of returnTo.entries()) {
    if (!isReturnAddress(url))
      throw new Error(
        `/return_to/${index} must be an https:// URL without a fragment, or an http:// URL with the host 127.0.0.1 or [::1]`,
      )
  }
  return {
    returnTo,
    providers: providers.map((provider) => ({
      id: provider.id,
      name: provider.name ?? provider.id,
      issuer: provider.issuer,
      clientId: provider.client_id,
      clientSecret:
        provider.client_secret_file === undefined
          ? null
          : readSecret(resolve(dirname(path), provider.client_secret_file)),
      clientAuth: provider.client_auth ?? 'client_secret_basic',
      scopes: ['openid', ...(provider.scopes ?? ['email', 'profile']).filter((scope) => scope !== 'openid')],
      trustsEmail: provider.trust_email ?? false,
      linksByEmail: provider.link_by_email ?? false,
      secondFactor: { amr: provider.second_factor?.amr ?? [], acr: provider.second_factor?.acr ?? [] },
      teams: provider.teams ?? [],
    })),
  }
}

function validContent(text: string): FileContent {
  const content: unknown = JSON.parse(text)
  const ajv = new Ajv({ allErrors: false })
  if (ajv.validate<FileContent>(schema, content)) return content
  const [error] = ajv.errors ?? []
  const { additionalProperty } = (error?.params ?? {}) as { readonly additionalProperty?: string }
  throw new Error(
    `${error?.instancePath ?? ''} ${error?.message ?? 'is invalid'}${additionalProperty === undefined ? '' : ` (${additionalProperty})`}`.trim(),
  )
}

function readSecret(path: string): string {
  const secret = readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  if (secret === '') throw new Error(`the file of a client secret is empty: ${path}`)
  return secret
}

/** The host of a URL, without the brackets of an IPv6 address. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

/** Whether requests may be sent to a URL: encrypted, or to this machine. */
function isSecureUrl(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(hostOf(url)))
}

/** Whether a URL is on this machine, also by the names and addresses that `isLoopback` does not trust. */
function isOnThisMachine(url: URL): boolean {
  const host = hostOf(url).replace(/\.$/, '')
  if (isIP(host) === 0) return host === 'localhost' || host.endsWith('.localhost')
  return ['loopback', 'unspecified'].includes(ipaddr.process(host).range())
}

/**
 * Whether an issuer may have an endpoint at a URL. One that is reached by `https://` is no way to other services of this machine, which
 * anybody could have asked; one on this machine without encryption is for development.
 */
export function isAllowedEndpoint(issuer: URL, url: URL): boolean {
  if (issuer.protocol === 'http:') return isSecureUrl(url)
  return url.protocol === 'https:' && (url.origin === issuer.origin || !isOnThisMachine(url))
}

function isIssuer(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && isSecureUrl(url) && !url.username && !url.password && !/[?#]/.test(text)
}

/** Whether a URL is on this machine for certain: a resolver may know another `localhost`. */
function isLoopbackAddress(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]'].includes(url.hostname)
}

function isReturnAddress(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.username || url.password || text.includes('#')) return false
  // Compared as text, so it must be in the form that clients send.
  return (
    (url.protocol === 'https:' || isLoopbackAddress(url)) && (url.href === text || url.href === `${text}/`)
  )
}

/**
 * Whether sign-in may return to a URL: one of `allowed`, exactly. Programs on the machine of a user choose a port when they start, so
 * an address of the loopback interface without a port allows every port (RFC 8252, section 7.3).
 */
export function allowsReturn(allowed: readonly string[], text: string): boolean {
  if (allowed.includes(text)) return true
  const url = URL.parse(text)
  if (url === null || !isLoopbackAddress(url) || url.port === '') return false
  const prefix = `http://${url.host}`
  if (!text.startsWith(prefix)) return false
  return allowed.includes(`http://${url.hostname}${text.slice(prefix.length)}`)
}
