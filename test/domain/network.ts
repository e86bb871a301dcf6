import t from 'tap'
import { networkOf } from '../../src/domain/network.ts'

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
