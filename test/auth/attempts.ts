import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { insertAttempt, removeOldAttempts } from '../../src/db/accounts/attempts.ts'
import { openDatabase } from '../../src/db/engine/client.ts'
import { createClient as createSqlClient } from '../../src/db/engine/connection.ts'
import { from, withoutIds } from '../fixture/accounts.ts'
import { environmentFor, openDatabaseOf, openTestDatabase } from '../fixture/database.ts'
import { eventually } from '../fixture/eventually.ts'
import { startProcess } from '../fixture/process.ts'
import { secondFactorActions, wrongCodeOf } from '../fixture/second-factor.ts'
import { createClient, type Reply, startService } from '../fixture/service.ts'
import { countStatuses } from '../fixture/tasks.ts'

/** Delays after failed attempts at passwords and codes. */

const guess = (url: string): Promise<Reply> =>
  createClient(url).call('login', { body: { email: 'nobody@example.com', password: 'wrong' } })

const secret = 'the secret of a process and of the service that comes after it'
const environment = await environmentFor(t)
const killed = await startProcess(t, { ...environment, JWT_SECRET: secret })
const guesses = Array.from({ length: 20 }, () => guess(killed.url))
// The first 429 arrives before the passwords of the first five attempts have been hashed.
await Promise.any(
  guesses.map(async (reply) => {
    if ((await reply).status !== 429) throw new Error('The attempt was not refused')
  }),
)
await Promise.all([killed.end('SIGKILL'), Promise.allSettled(guesses)])

const database = await openDatabaseOf(environment)
t.teardown(() => database.close())
const db = openDatabase(database.options)
t.teardown(() => db.close())
const service = await startService(t, {
  db,
  secrets: [Buffer.from(secret)],
  config: { trustProxy: ['127.0.0.1'] },
})
const { challengeOf, guard } = secondFactorActions(service)

const signIn = (email: string, password: string, address = '192.0.2.1') =>
  service.call('login', { body: { email, password }, headers: from(address) })

/** Moves all counted attempts into the past. */
const elapse = async (time: string): Promise<void> => {
  await db.run(
    `update attempts set last_failed_at = last_failed_at - $1::text::interval,
      delayed_until = delayed_until - $1::text::interval`,
    [time],
  )
}

const retryAfter = ({ headers }: Reply): number => Number(headers.get('retry-after'))

/** A response without its times. */
const timeless = (reply: Reply): string =>
  JSON.stringify(withoutIds(reply)).replaceAll(/\b\d+\b(?= seconds|")/g, 'N')

interface Attempts {
  readonly fail: () => Promise<Reply>
  readonly succeed: (() => Promise<Reply>) | null
  /** The status of a failure. */
  readonly failed: number
}

const operations: Readonly<Record<string, () => Promise<Attempts>>> = {
  async 'sign-in'() {
    const { email, password } = await service.register('signs-in')
    return {
      fail: () => signIn(email, 'wrong'),
      succeed: () => signIn(email, password),
      failed: 401,
    }
  },
  async 'sign-in by username'() {
    const { password } = await service.register('signs-in-by-name')
    const attempt = (text: string) =>
      service.call('login', {
        body: { username: 'signs-in-by-name', password: text },
        headers: from('192.0.2.1'),
      })
    return { fail: () => attempt('wrong'), succeed: () => attempt(password), failed: 401 }
  },
  async 'sign-in to an unknown username'() {
    const body = { username: 'nobody', password: 'wrong' }
    const fail = () => service.call('login', { body, headers: from('192.0.2.1') })
    return { fail, succeed: null, failed: 401 }
  },
  async 'sign-in to an unknown account'() {
    return { fail: () => signIn('nobody@example.com', 'wrong'), succeed: null, failed: 401 }
  },
  async 'sign-in with a code'() {
    const ada = await guard(await service.register('has-a-code'))
    const complete = async (code: string) =>
      service.call('completeLogin', { body: { challenge: await challengeOf(ada), code } })
    return {
      fail: () => complete(wrongCodeOf(ada.codeAt)),
      succeed: () => complete(ada.codeAt()),
      failed: 401,
    }
  },
  async 'password change'() {
    const { token, password } = await service.register('changes')
    const change = (current_password: string) =>
      service.call('changePassword', { token, body: { current_password, new_password: password } })
    return { fail: () => change('wrong'), succeed: () => change(password), failed: 422 }
  },
  async 'second factor removal'() {
    const ada = await guard(await service.register('disables'))
    const disable = (code: string) =>
      service.call('disableSecondFactor', { token: ada.token, body: { password: ada.password, code } })
    return { fail: () => disable(wrongCodeOf(ada.codeAt)), succeed: () => disable(ada.codeAt()), failed: 422 }
  },
}

t.test('attempts are counted even if the process is killed during them', async (t) => {
  const next = [await guess(service.url), await guess(service.url)]
  t.ok(
    next.some(({ status }) => status === 429),
    'within the delay or, if it has ended, after one more failure',
  )
})

for (const [name, start] of Object.entries(operations)) {
  t.test(
    `${name}: five failures are answered without a delay, then each doubles it, up to 15 minutes`,
    async (t) => {
      const { fail, succeed, failed } = await start()
      for (let failure = 1; failure <= 5; failure += 1)
        t.equal((await fail()).status, failed, `failure ${failure}`)
      for (const delay of [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]) {
        const refused = await fail()
        t.match(refused, { status: 429, body: { code: 'too_many_requests' } })
        t.ok(
          retryAfter(refused) <= delay && retryAfter(refused) > delay - 4,
          `${retryAfter(refused)} of ${delay}`,
        )
        if (succeed !== null)
          t.equal(timeless(await succeed()), timeless(refused), 'the same response for the right secret')
        await elapse(`${delay} seconds`)
        t.equal((await fail()).status, failed, `after ${delay} seconds`)
      }
      await elapse('900 seconds')
      if (succeed === null) return
      t.ok([200, 204].includes((await succeed()).status))
    },
  )
}

t.test('a success resets the count', async (t) => {
  const { email, password } = await service.register('forgiven')
  for (let round = 0; round < 2; round += 1) {
    for (let failure = 0; failure < 4; failure += 1) t.equal((await signIn(email, 'wrong')).status, 401)
    t.equal((await signIn(email, password)).status, 200, 'on the fifth attempt')
  }
})

t.test('failures are forgotten a day after the last one', async (t) => {
  const failures = async (): Promise<unknown> =>
    (await db.run('select failures from attempts order by last_failed_at desc limit 1', []))[0]?.failures
  for (const [time, left] of [
    ['23 hours 59 minutes', 6],
    ['24 hours 1 second', 1],
  ] as const) {
    const email = `${left}@example.com`
    for (let failure = 0; failure < 5; failure += 1) await signIn(email, 'wrong')
    await elapse(time)
    t.equal((await signIn(email, 'wrong')).status, 401)
    t.equal(await failures(), left, time)
  }
  const countAfter = async (time: string): Promise<number> => {
    await elapse(time)
    await removeOldAttempts(db, {}, new AbortController().signal)
    return (await db.run('select from attempts', [])).length
  }
  t.ok((await countAfter('23 hours')) > 0)
  t.equal(await countAfter('2 hours'), 0, 'their rows are removed')
})

t.test('unknown and known email addresses get the same responses', async (t) => {
  const { email } = await service.register('somebody')
  for (let attempt = 0; attempt < 8; attempt += 1) {
    const [known, unknown] = [await signIn(email, 'wrong'), await signIn('anybody@example.com', 'wrong')]
    t.equal(timeless(unknown), timeless(known))
    t.equal(unknown.headers.get('content-length'), known.headers.get('content-length'))
    t.equal(known.status, attempt < 5 ? 401 : 429)
  }
})

t.test('of twenty concurrent attempts, five are tried, for all spellings of an address', async (t) => {
  const { email } = await service.register('stormed')
  for (const [one, other] of [
    [email, ` ${email.toUpperCase()}`],
    ['storm@caf\u00e9.example', 'STORM@xn--caf-dma.example'],
  ] as const) {
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) => signIn(index % 2 === 0 ? one : other, 'wrong')),
    )
    t.strictSame(countStatuses(replies), { 401: 5, 429: 15 })
  }
})

const exhaust = async (email: string, address?: string): Promise<void> => {
  for (let failure = 0; failure < 5; failure += 1) await signIn(email, 'wrong', address)
}

t.test('429 for a password applies only to that account from that network', async (t) => {
  const { email, password } = await service.register('attacked')
  await exhaust(email, '198.51.100.1')
  t.equal((await signIn(email, password, '198.51.100.1')).status, 429)
  t.equal((await signIn(email, password, '::ffff:198.51.100.1')).status, 429, 'IPv4 in IPv6')
  t.equal((await signIn(email, password, '198.51.100.2')).status, 200)
  t.equal(
    (await signIn(email, password, '198.51.100.1')).status,
    429,
    'a success elsewhere does not reset it',
  )
  await exhaust(email, '2001:db8:0:1::1')
  t.equal((await signIn(email, password, '2001:db8:0:1:ffff::2')).status, 429, 'a /64 is one network')
  t.equal((await signIn(email, password, '2001:db8:0:2::1')).status, 200)
  const { email: other, password: otherPassword } = await service.register('neighbour')
  t.equal((await signIn(other, otherPassword, '198.51.100.1')).status, 200, 'another account')
})

t.test('X-Forwarded-For is ignored unless it is from a trusted proxy', async (t) => {
  const exposed = await startService(t, { db })
  const replies: Reply[] = []
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    const body = { email: 'exposed@example.com', password: 'wrong' }
    replies.push(await exposed.call('login', { body, headers: from(`198.51.100.${attempt}`) }))
  }
  t.strictSame(countStatuses(replies), { 401: 5, 429: 1 })
})

t.test('429 for a code applies to the account from any network', async (t) => {
  const ada = await guard(await service.register('guessed'))
  const challenge = await challengeOf(ada)
  const complete = (code: string, address: number) =>
    service.call('completeLogin', { body: { challenge, code }, headers: from(`203.0.113.${address}`) })
  for (let address = 1; address <= 5; address += 1) {
    t.equal((await complete(wrongCodeOf(ada.codeAt), address)).status, 401)
  }
  for (const code of [ada.codeAt(), ada.recoveryCodes[0] ?? '']) {
    t.match(await complete(code, 6), { status: 429 })
  }
  t.match(await signIn(ada.email, ada.password), { status: 401, body: { code: 'second_factor_required' } })
  await elapse('5 seconds')
  t.equal((await complete(ada.codeAt(), 6)).status, 200, 'refused codes are not used up')
})

t.test('429 for a code that disables the second factor, from any network', async (t) => {
  const ada = await guard(await service.register('stolen'))
  const disable = (code: string, address: number) => {
    const { token, password } = ada
    const request = { token, body: { password, code }, headers: from(`203.0.113.${address}`) }
    return service.call('disableSecondFactor', request)
  }
  for (let address = 1; address <= 5; address += 1) {
    t.equal((await disable(wrongCodeOf(ada.codeAt), address)).status, 422)
  }
  t.equal((await disable(ada.codeAt(), 6)).status, 429)
})

t.test('attempts are counted even if the client disconnects', async (t) => {
  const email = 'hung-up@example.com'
  const failures = async (): Promise<unknown> =>
    (await db.run('select coalesce(sum(failures), 0)::int as failures from attempts', []))[0]?.failures
  await db.run('delete from attempts', [])
  for (let failure = 1; failure <= 5; failure += 1) {
    const body = JSON.stringify({ email, password: 'wrong' })
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...from('192.0.2.1'),
    }
    const sent = request(`${service.url}/auth/login`, { method: 'POST', headers, agent: false })
    sent.on('error', () => undefined)
    sent.end(body)
    await once(sent, 'finish')
    sent.destroy()
    await eventually('the failure is counted', async () => (await failures()) === failure)
  }
  t.equal((await signIn(email, 'wrong')).status, 429)
})

t.test('an attempt that waited for a concurrent one is refused', async (t) => {
  const { db, options } = await openTestDatabase(t)
  const sql = createSqlClient(options, { max: 2 })
  t.teardown(() => sql.end())
  const key = Buffer.from('key')
  t.equal(await insertAttempt({ db }, key), 0)
  const waits = async (): Promise<boolean> => {
    const waiting = await sql`
      select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    return waiting.length > 0
  }
  const waiting = await sql.begin(async (transaction) => {
    await transaction`update attempts set failures = 5, delayed_until = now() + interval '5 seconds'`
    const counted = insertAttempt({ db }, key)
    await eventually('the attempt waits for the lock', waits)
    return { counted }
  })
  t.equal(await waiting.counted, 1, 'the minimum delay')
  t.equal(await insertAttempt({ db }, key), 5)
})
