import t from 'tap'
import { newTotpSecret, otpauthUri, qrCode, totpStep, totpSecretText } from '../../src/auth/totp.ts'

const secret = Buffer.from('12345678901234567890')

/** From RFC 6238, appendix B, for SHA-1: a time in seconds, and the last six of its eight digits. */
const vectors: readonly (readonly [number, string])[] = [
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_111_111_111, '050471'],
  [1_234_567_890, '005924'],
  [2_000_000_000, '279037'],
  [20_000_000_000, '353130'],
]

t.test('the test vectors of RFC 6238 are accepted', async (t) => {
  for (const [time, code] of vectors) {
    t.equal(totpStep(secret, code, time * 1_000), Math.floor(time / 30), `at ${time}`)
  }
})

t.test('a code is valid in its time step, the one before and the one after', async (t) => {
  for (const [time, code] of vectors.slice(1)) {
    const step = Math.floor(time / 30)
    const start = step * 30_000
    for (const now of [start - 30_000, start - 1, start, start + 29_999, start + 59_999]) {
      t.equal(totpStep(secret, code, now), step, `${now - start} ms after its start`)
    }
    for (const now of [start - 30_001, start + 60_000, start + 86_400_000]) {
      t.equal(totpStep(secret, code, now), null, `${now - start} ms after its start`)
    }
  }
})

t.test('another code, or the code of another secret, is rejected', async (t) => {
  const now = 1_234_567_890_000
  t.equal(totpStep(secret, '005925', now), null)
  t.equal(totpStep(Buffer.from('12345678901234567891'), '005924', now), null)
})

t.test('texts other than six digits are rejected', async (t) => {
  const now = 1_234_567_890_000
  for (const code of [
    '',
    '5924',
    '05924',
    '0005924',
    '89005924',
    '005 924',
    ' 005924',
    '005924\n',
    '00592a',
    '-05924',
    '٠٠٥٩٢٤',
    '００５９２４',
  ]) {
    t.equal(totpStep(secret, code, now), null, JSON.stringify(code))
  }
})

t.test('a secret has 160 bits, and is unique', async (t) => {
  const [one, other] = [newTotpSecret(), newTotpSecret()]
  t.equal(one.length, 20)
  t.notSame(one, other)
})

t.test('the otpauth URI has the secret and the parameters', async (t) => {
  t.equal(totpSecretText(secret), 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ')
  const uri = new URL(otpauthUri(secret, 'ada'))
  t.equal(uri.protocol, 'otpauth:')
  t.equal(uri.host, 'totp')
  t.equal(uri.pathname, '/Taskwright:ada')
  t.same(Object.fromEntries(uri.searchParams), {
    secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
    issuer: 'Taskwright',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
})

t.test('the QR code of a URI is a small square PNG', async (t) => {
  const pictures = await Promise.all(
    ['ada', 'grace', 'a'.repeat(32)].map((username) => qrCode(otpauthUri(secret, username))),
  )
  t.equal(new Set(pictures).size, 3)
  for (const picture of pictures) {
    t.match(picture, /^data:image\/png;base64,[A-Za-z0-9+/]+=*$/)
    const png = Buffer.from(picture.slice(picture.indexOf(',') + 1), 'base64')
    t.same(png.subarray(0, 8), Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'))
    const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
    t.equal(width, height)
    t.ok(width >= 150 && width <= 500, `${width} pixels`)
    t.ok(picture.length < 10_000, `${picture.length} characters`)
  }
})
