import t from 'tap'
import { createAddressRules } from '../../src/webhooks/addresses.ts'

const refused = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '100.64.0.1',
  '100.100.100.200',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.192',
  '192.0.2.1',
  '192.168.1.1',
  '198.18.0.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::ffff:127.0.0.1',
  '::ffff:10.0.0.1',
  '::ffff:0:127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::808:808',
  '100::1',
  '2001::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '3fff::1',
  '4000::1',
  'fc00::1',
  'fd00:ec2::254',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
  'not an address',
  '',
]

const accepted = ['1.1.1.1', '8.8.8.8', '172.32.0.1', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::808:808']

t.test('only public addresses are allowed', async (t) => {
  const rules = createAddressRules([])
  for (const address of refused) t.equal(rules.allows('hooks.example.com', address), false, address)
  for (const address of accepted) t.equal(rules.allows('hooks.example.com', address), true, address)
})

t.test('WEBHOOK_ALLOW allows names, addresses and ranges', async (t) => {
  const rules = createAddressRules(['Builds.internal', '10.20.0.0/16', '192.168.1.9', 'fd00::/8', '::1'])
  t.equal(rules.allows('builds.internal', '10.0.0.1'), true)
  t.equal(rules.allows('BUILDS.internal.', '127.0.0.1'), true)
  t.equal(rules.allows('other.internal', '10.0.0.1'), false)
  t.equal(rules.allows('other.internal', '10.20.3.4'), true)
  t.equal(rules.allows('other.internal', '::ffff:10.20.3.4'), true)
  t.equal(rules.allows('other.internal', '10.21.0.1'), false)
  t.equal(rules.allows('other.internal', '192.168.1.9'), true)
  t.equal(rules.allows('other.internal', '192.168.1.8'), false)
  t.equal(rules.allows('other.internal', 'fd12::1'), true)
  t.equal(rules.allows('other.internal', '::1'), true)
})

t.test('URLs are refused by their host, in all spellings of an address', async (t) => {
  const rules = createAddressRules([])
  for (const host of [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '１２７.0.0.1',
    '[::1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:a9fe:a9fe]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
  ])
    t.equal(rules.refuses(new URL(`http://${host}:8080/`)), true, host)
  for (const host of ['1.1.1.1', '[2606:4700::1111]', 'hooks.example.com', 'localhost.example.com'])
    t.equal(rules.refuses(new URL(`https://${host}/`)), false, host)
  const withLocal = createAddressRules(['localhost', '127.0.0.0/8'])
  for (const host of ['localhost', '127.0.0.1'])
    t.equal(withLocal.refuses(new URL(`http://${host}/`)), false, host)
})
