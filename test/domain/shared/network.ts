import t from 'tap'
import { networkOf, widerNetworkOf } from '../../../src/domain/shared/network.ts'

const networks: readonly (readonly [address: string, network: string])[] = [
  ['192.0.2.7', '192.0.2.7'],
  ['192.0.2.7:50123', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::FFFF:c000:0207', '192.0.2.7'],
  ['2001:db8::1', '2001:db8::/64'],
  ['2001:0DB8:0:0:ffff:ffff:ffff:ffff', '2001:db8::/64'],
  ['2001:db8:0:1::', '2001:db8:0:1::/64'],
  ['2001:db8:a:b:c:d:e:f', '2001:db8:a:b::/64'],
  ['2001:0:0:1:2:3:4:5', '2001:0:0:1::/64'],
  ['[2001:db8::1]:50123', '2001:db8::/64'],
  ['fe80::1%eth0', 'fe80::/64'],
  ['::1', '::/64'],
  ['unknown', 'unknown'],
]

for (const [address, network] of networks) {
  t.test(`${address} is in ${network}`, async (t) => {
    t.equal(networkOf(address), network)
  })
}

const wider: readonly (readonly [network: string, wider: string])[] = [
  ['192.0.2.7', '192.0.0.0/16'],
  ['2001:db8:a:b::/64', '2001:db8::/32'],
  ['::/64', '::/32'],
  ['0193a5e0-0000-7000-8000-000000000001', '0193a5e0-0000-7000-8000-000000000001'],
]

for (const [network, expected] of wider) {
  t.test(`${network} is in ${expected}`, async (t) => {
    t.equal(widerNetworkOf(network), expected)
  })
}
