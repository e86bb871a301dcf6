import t from 'tap'
import { deriveKeys } from '../../src/auth/keys.ts'
import { seal } from '../../src/auth/seal.ts'
import { newSecret, signaturesOf } from '../../src/webhooks/signatures.ts'

const keys = deriveKeys([Buffer.from('a secret of the tests, which is long enough')], 'webhook')
const id = '0199c0ec-9102-7c4d-8e5f-60718293a4b5'

t.test('signatures are those of the reference library', async (t) => {
  // From standardwebhooks 1.1: new Webhook(secret).sign(id, date, body).
  const secret = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const content = {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1_614_265_330,
    body: '{"test": 2432232314}',
  }
  const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  const sealed = seal(keys, secret, id)
  t.equal(signaturesOf(keys, id, [sealed], content), signature)
  t.equal(signaturesOf(keys, id, [sealed, sealed], content), `${signature} ${signature}`)
})

t.test('a secret opens for its own webhook only', async (t) => {
  const { text, sealFor } = newSecret(keys)
  t.match(text, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.not(newSecret(keys).text, text)
  const content = { id, timestamp: 0, body: '' }
  t.match(signaturesOf(keys, id, [sealFor(id)], content), /^v1,/)
  t.throws(() => signaturesOf(keys, 'another', [sealFor(id)], content), /No key opens/)
})
