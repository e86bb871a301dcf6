import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Secrets } from '../auth/keys.ts'
import { type Config, ConfigError } from '../config/config.ts'
import { hasCode } from '../data-dir/system-errors.ts'

const minimumBytes = 32

/**
 * The secrets in JWT_SECRET; by default, the secret in the file jwt-secret in dataDir, which is generated if it is missing.
 * Rejects with the file system's error, or with a ConfigError when the file is too short to be a secret.
 *
 * Rotation: JWT_SECRET="<new>,<old>", where the old secret may be the content of the file, signs nobody out. Several
 * instances must all verify with a new secret before any of them signs with it: start all of them with "<old>,<new>",
 * then with "<new>,<old>", and a day later with "<new>". By then access tokens (15 minutes) and idempotency keys (24
 * hours) of the old secret have expired, and a background job has encrypted second factors with the new one.
 */
export async function loadSecrets({
  jwtSecrets,
  dataDir,
}: Pick<Config, 'jwtSecrets' | 'dataDir'>): Promise<Secrets> {
  if (jwtSecrets !== null) {
    const [active, ...others] = jwtSecrets
    return [Buffer.from(active), ...others.map((secret) => Buffer.from(secret))]
  }
  return [(await readGeneratedSecret(dataDir)) ?? (await createSecret(dataDir, secretPath(dataDir)))]
}

/** The file of the generated secret. */
export const secretPath = (dataDir: string): string => join(dataDir, 'jwt-secret')

/** The generated secret; null before there is one. Rejects as `loadSecrets` does. */
export async function readGeneratedSecret(dataDir: string): Promise<Buffer | null> {
  try {
    return await readSecret(secretPath(dataDir))
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}

async function createSecret(dataDir: string, path: string): Promise<Buffer> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const temporary = `${path}.${randomBytes(8).toString('hex')}`
  try {
    await writeDurably(temporary, randomBytes(48).toString('base64url'))
    await linkUnlessPresent(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
  return readSecret(path)
}

async function writeDurably(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600)
  await file.writeFile(text)
  await file.sync()
}

// Creating a link is atomic and never replaces a file: two processes that start together read the same secret.
async function linkUnlessPresent(existing: string, path: string): Promise<void> {
  try {
    await link(existing, path)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  }
}

async function readSecret(path: string): Promise<Buffer> {
  const secret = await readFile(path)
  if (secret.length >= minimumBytes) return secret
  throw new ConfigError(
    `${path} is damaged: it has ${secret.length} bytes instead of at least ${minimumBytes}; delete it to generate a new one`,
  )
}
