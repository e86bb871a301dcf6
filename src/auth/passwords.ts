import { argon2id, hash, needsRehash, verify } from 'argon2'
import { randomBytes } from 'node:crypto'
import { boundedQueue, type Limiter } from '../concurrency/bounded-queue.ts'
import { toNfc } from '../domain/shared/text.ts'

/** Argon2id parameters (RFC 9106). */
export type HashParameters = {
  /** KiB. */
  memoryCost: number
  /** Passes over the memory. */
  timeCost: number
  /** Lanes. */
  parallelism: number
}

export type PasswordHasherOptions = {
  parameters?: HashParameters
  /** By default, a separate `hashQueue`. */
  limiter?: Limiter
}

export type PasswordHasher = {
  /**
   * The encoded hash (PHC string) of a password.
   *
   * @throws HashQueueFull
   * @throws TextTooCostly
   */
  hash(password: string): Promise<string>

  /**
   * Compares a password with an encoded hash. A null hash means an unknown user: verification takes the same time and always
   * fails. `rehash` is true for a valid password whose hash has other parameters.
   *
   * @throws HashQueueFull
   * @throws TextTooCostly
   */
  verify(encoded: string | null, password: string): Promise<{ valid: boolean; rehash: boolean }>

  /** A hash that no password matches, for accounts without a password. */
  readonly unmatchable: string
}

const defaultParameters: HashParameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** At 25 to 50 ms per hash, a full queue of the default length takes one to two seconds. */
const retryAfterSeconds = 2

/** The queue of password hashes is full. */
export class HashQueueFull extends Error {
  override readonly name = 'HashQueueFull'
  readonly retryAfterSeconds = retryAfterSeconds

  constructor() {
    super('Too many passwords are being hashed')
  }
}

export type HashQueueOptions = {
  /** Concurrent hashes. They share the thread pool with file operations. */
  concurrency?: number
  /** Maximum number of waiting hashes. */
  maxQueue?: number
}

/** Limits concurrent password hashing. Waiting hashes run in FIFO order. */
export function hashQueue({ concurrency = 2, maxQueue = 64 }: HashQueueOptions = {}): Limiter {
  return boundedQueue({ concurrency, maxQueue, full: () => new HashQueueFull() })
}

/** The queue of one of several workers on a host. */
export const hashQueueOfWorker = (workers: number): Limiter =>
  hashQueue({ concurrency: 1, maxQueue: Math.ceil(64 / workers) })

/** Hashes and verifies passwords with argon2id after NFC normalization. The limiter bounds concurrency. */
export function passwordHasher({
  parameters = defaultParameters,
  limiter = hashQueue(),
}: PasswordHasherOptions = {}): PasswordHasher {
  const unmatchable = unmatchableHash(parameters)

  return {
    unmatchable,

    async hash(password) {
      const normalized = toNfc(password)
      return limiter(() => hash(normalized, { ...parameters, type: argon2id }))
    },

    async verify(encoded, password) {
      const normalized = toNfc(password)
      const matches = await limiter(() => verify(encoded ?? unmatchable, normalized))
      const valid = encoded !== null && matches
      return { valid, rehash: valid && needsRehash(encoded, parameters) }
    },
  }
}

/** Well-formed and as costly to verify as any other hash, but with a random digest. */
function unmatchableHash({ memoryCost, timeCost, parallelism }: HashParameters): string {
  const [salt, digest] = [randomBytes(16), randomBytes(32)].map(unpaddedBase64)
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${digest}`
}

function unpaddedBase64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}
