import t from 'tap'
import { canonicalEmail, mailboxOf } from '../../../src/domain/accounts/email-address.ts'
import { TextTooCostly } from '../../../src/domain/shared/text.ts'

const acute = '\u0301'
const zeroWidth = '\u200b'

t.test('spellings that reach one mailbox have one canonical form', async (t) => {
  for (const [text, canonical] of [
    ['Ada@Example.COM', 'ada@example.com'],
    [' ada@example.com ', 'ada@example.com'],
    ['\u00a0\u3000ada@example.com\r\n', 'ada@example.com'],
    ['ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ', 'ada@example.com'],
    // Domains that may have different owners.
    ['ada@straße.example', 'ada@xn--strae-oqa.example'],
    ['ada@strasse.example', 'ada@strasse.example'],
    ['ada@ΣΟΦΟΣ.example', 'ada@xn--0xaakcn.example'],
    ['ada@σοφος.example', 'ada@xn--0xaajbq.example'],
    // Spellings of internationalized domains.
    ['ada@xn--mnchen-3ya.example', 'ada@xn--mnchen-3ya.example'],
    ['ada@XN--MNCHEN-3YA.example', 'ada@xn--mnchen-3ya.example'],
    [`ada@MU\u0308NCHEN.example`, 'ada@xn--mnchen-3ya.example'],
    ['ada@xn--strae-oqa.example', 'ada@xn--strae-oqa.example'],
    ['ada@STRAẞE.example', 'ada@xn--strae-oqa.example'],
    ['ada@日本。example', 'ada@xn--wgv71a.example'],
    ['ada@日本｡example', 'ada@xn--wgv71a.example'],
    ['ada@日本・語.example', 'ada@xn--vek160nb2acz6g.example'],
    ['ada@\u212a.example', 'ada@k.example'],
    // The Punycode of Ü, which cannot be registered, is not that of ü.
    ['ada@xn--wca.example', 'ada@xn--wca.example'],
    ['ada@xn--tda.example', 'ada@xn--tda.example'],
    ['ada@Ü.example', 'ada@xn--tda.example'],
    ['ada@localhost', 'ada@localhost'],
    // Different addresses, because only their servers know whether they reach one mailbox.
    ['ada+tasks@example.com', 'ada+tasks@example.com'],
    ['a.da@gmail.com', 'a.da@gmail.com'],
    ['ada@googlemail.com', 'ada@googlemail.com'],
    ["o'hara-x_1=2/3@example.com", "o'hara-x_1=2/3@example.com"],
  ] as const)
    t.equal(canonicalEmail(text), canonical, text)
})

t.test('other spellings, and text that mail programs interpret, are not addresses', async (t) => {
  for (const text of [
    '',
    'ada',
    '@example.com',
    'ada@',
    'no address',
    // Angle brackets, names, lists and groups.
    '<ada@example.com>',
    'ada@example.com>',
    '<ada@example.com',
    '＜ada@example.com＞',
    'Ada <ada@example.com>',
    '"Ada" <ada@example.com>',
    'ada@example.com,eve@example.com',
    'ada@example.com;eve@example.com',
    'ada@example.com eve@example.com',
    'friends:ada@example.com;',
    'mailto:ada@example.com',
    'ada@example.com?cc=eve@example.com',
    // Comments, quotes and escapes.
    'ada(x)@example.com',
    '(x)ada@example.com',
    'ada@(x)example.com',
    'ada@example.com(x)',
    'ada（x）@example.com',
    '"ada"@example.com',
    '"a da"@example.com',
    '"ada@evil.example"@example.com',
    String.raw`a\da@example.com`,
    "'ada@example.com'",
    // White space, invisible characters and header injection.
    'a da@example.com',
    'ada @example.com',
    'ada@ example.com',
    'ada@example .com',
    'ada\u3000x@example.com',
    'ada@example.com\r\nBcc: eve@example.com',
    'ada\0@example.com',
    'ada\u007f@example.com',
    `a${zeroWidth}da@example.com`,
    `${zeroWidth}ada@example.com`,
    `ada@exa${zeroWidth}mple.com`,
    'ada@exa\u00admple.com',
    'a\u200dda@example.com',
    'ada@example.com\u200e',
    'a\u115fda@example.com',
    // Local parts that have no spelling in ASCII; ß must not become the ss of another person.
    'zoë@example.com',
    'zoe\u0308@example.com',
    'straße@example.com',
    'STRAẞE@example.com',
    'σοφος@example.com',
    'ışık@example.com',
    'ada\u0130@example.com',
    '用户@example.com',
    // Dots, and characters that normalization turns into them.
    '.ada@example.com',
    'ada.@example.com',
    'a..da@example.com',
    'a…da@example.com',
    'ada@example.com.',
    'ada@example.com。',
    'ada@.example.com',
    'ada@example..com',
    // Routes: percent hack, bang path, source route.
    'ada%example.com@relay.example',
    'ada％example.com@relay.example',
    'example.com!ada@relay.example',
    '@relay.example:ada@example.com',
    'ada@relay.example@example.com',
    'ada@example.com@example.com',
    // Addresses instead of names, and what is no name.
    'ada@[127.0.0.1]',
    'ada@[IPv6:::1]',
    'ada@127.0.0.1',
    'ada@127.1',
    'ada@0x7f000001',
    'ada@2130706433',
    'ada@１２７.0.0.1',
    'ada@::1',
    'ada@example.com:25',
    'ada@example.com/x',
    'ada@exa%6dple.com',
    'ada@exa_mple.com',
    'ada@-example.com',
    'ada@example-.com',
    `ada@${acute}a.example`,
    `ada@${'x'.repeat(64)}.example`,
    `ada@${'ö'.repeat(60)}.example`,
    `ada@${'x.'.repeat(126)}example`,
    'ada@℀.example',
    `${'a'.repeat(1_016)}@example.com`,
  ])
    t.equal(canonicalEmail(text), null, JSON.stringify(text))
})

t.test('canonicalization is idempotent', async (t) => {
  for (let code = 0; code <= 0x10ffff; code += 1) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const text = String.fromCodePoint(code)
    if (text.toUpperCase() === text.toLowerCase() && text.normalize('NFKC') === text) continue
    for (const address of [`a${text}b@x.example`, `ab@x${text}y.example`]) {
      const canonical = canonicalEmail(address)
      if (canonical !== null && canonicalEmail(canonical) !== canonical) t.fail(code.toString(16))
    }
  }
})

t.test('a run of combining marks that is expensive to normalize is refused', async (t) => {
  t.throws(() => canonicalEmail(`e${acute.repeat(31)}@example.com`), TextTooCostly)
})

t.test('subaddresses and dots belong to one mailbox', async (t) => {
  for (const address of ['ada@example.com', 'ada+tasks@example.com', 'a.d.a+x+y@example.com'])
    t.equal(mailboxOf(address), 'ada@example.com')
  t.not(mailboxOf('ada@example.com'), mailboxOf('ada@example.org'))
  t.not(mailboxOf('ada-x@example.com'), mailboxOf('ada@example.com'))
  t.equal(mailboxOf('+x@example.com'), '@example.com')
})
