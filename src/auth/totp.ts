import { randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'

const issuer = 'Taskwright'

/** Supported by every authenticator app; many ignore other parameters in the URI. */
const parameters = { algorithm: 'SHA1', digits: 6, period: 30 }

const pattern = /^[0-9]{6}$/

/** A new secret of 160 bits, the length that RFC 4226 §4 recommends. */
export const newTotpSecret = (): Buffer => randomBytes(20)

/** The secret in base32, for manual entry into an authenticator app. */
export const totpSecretText = (secret: Buffer): string => secretOf(secret).base32

/** The URI for authenticator apps. The label is the username, which is short, so that the QR code stays easy to scan. */
export const otpauthUri = (secret: Buffer, username: string): string =>
  new TOTP({ ...parameters, issuer, label: username, secret: secretOf(secret) }).toString()

/** The URI as a QR code: a PNG in a data URL. The library is loaded on first use. */
export const qrCode = async (uri: string): Promise<string> => {
  const { toDataURL } = await import('qrcode')
  return toDataURL(uri)
}

/**
 * The time step (RFC 6238 §4.2) of a code; null for a wrong code. Accepts the current step and its two neighbours, because
 * clocks differ. A code is valid once (§5.2): the caller must refuse a step that is not after the last accepted one.
 */
export const totpStep = (secret: Buffer, code: string, now: number): number | null => {
  // The library throws if six characters are more than six bytes.
  if (!pattern.test(code)) return null
  const totp = new TOTP({ ...parameters, secret: secretOf(secret) })
  const delta = totp.validate({ token: code, timestamp: now, window: 1 })
  return delta === null ? null : totp.counter({ timestamp: now }) + delta
}

// The library reads the whole ArrayBuffer. A small Buffer is a slice of a shared one, so it is copied.
const secretOf = (bytes: Buffer): Secret => new Secret({ buffer: new Uint8Array(bytes).buffer })
