import t from 'tap'
import {
  beginningOf,
  decodeEventPosition,
  encodeEventPosition,
  isAfter,
} from '../../../src/domain/activity/event-positions.ts'

const position = { epoch: 2 ** 31 - 1, changedIn: 2n ** 64n - 1n, ordinal: Number.MAX_SAFE_INTEGER }

t.test('encoded positions are decoded unchanged', async (t) => {
  for (const one of [beginningOf(1), position])
    t.strictSame(decodeEventPosition(encodeEventPosition(one)), one)
})

t.test('other texts are rejected', async (t) => {
  const encode = (text: string): string => Buffer.from(text).toString('base64url')
  const texts = [
    '',
    'x',
    encode('1.2'),
    encode('1.2.3.4'),
    encode('1.-2.3'),
    encode('01.2.3'),
    encode('2147483648.2.3'),
    encode('1.18446744073709551616.3'),
    encode('1.2.9007199254740992'),
    `${encode('1.2.3')}=`,
    `${encode('1.2.3')}\n`,
  ]
  for (const text of texts) t.equal(decodeEventPosition(text), null, text)
})

t.test('positions are ordered by transaction, then by ordinal', async (t) => {
  const { epoch } = position
  const earlier = { epoch, changedIn: 9n, ordinal: 20 }
  t.ok(isAfter({ epoch, changedIn: 10n, ordinal: 1 }, earlier))
  t.ok(isAfter({ epoch, changedIn: 9n, ordinal: 100 }, earlier))
  t.notOk(isAfter(earlier, earlier))
})
