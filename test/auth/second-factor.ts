import t, { type Test } from 'tap'
import { deriveKeys, type Secrets } from '../../src/auth/keys.ts'
import { startBeside } from '../fixture/accounts.ts'
import { authenticator, secondFactorActions } from '../fixture/second-factor.ts'
import { type Service, startService } from '../fixture/service.ts'
import { jobDepsOf, runJobs } from '../fixture/jobs.ts'

/** The sealed secrets of second factors during a rotation of the service's own secret. */

const oldSecret = Buffer.from('the secret that is to be replaced')
const newSecret = Buffer.from('the secret that comes in its place')

const service = await startService(t, { secrets: [oldSecret] })
const { db } = service.deps
const { registerGuarded } = secondFactorActions(service)

type Instance = Pick<Service, 'call' | 'expect' | 'register' | 'deps'>

/** Another instance on the same database, with other secrets. */
const startWith = async (t: Test, secrets: Secrets): Promise<Instance> => {
  const deps = { ...service.deps, secrets }
  return { ...(await startBeside(t, { ...service, deps })), deps }
}

const actionsOf = (instance: Instance) => ({
  ...secondFactorActions(instance),
  complete: async (challenge: string, code: string): Promise<number> =>
    (await instance.call('completeLogin', { body: { challenge, code } })).status,
})

const reseal = (...secrets: Secrets): Promise<void> =>
  runJobs({ ...jobDepsOf(service), secondFactorKeys: deriveKeys(secrets, 'second-factor') })

const sealsOf = async (): Promise<readonly string[]> =>
  (await db.run(`select encode(secret, 'hex') as seal from second_factors order by user_id`, [])).map(
    ({ seal }) => String(seal),
  )

t.test(
  'a background job reseals every secret with the active key, after which the other keys can be removed',
  async (t) => {
    const people = [
      await registerGuarded('ada'),
      await registerGuarded('grace'),
      await registerGuarded('edith'),
    ]
    const both = actionsOf(await startWith(t, [newSecret, oldSecret]))
    // The job that starts with the service may or may not have finished.
    for (const person of people) {
      t.equal(await both.complete(await both.challengeOf(person), person.codeAt()), 200, 'with both keys')
      await both.forgetLastCode(person)
    }
    await reseal(newSecret, oldSecret)
    const after = await sealsOf()
    const rotated = actionsOf(await startWith(t, [newSecret]))
    for (const person of people) {
      t.equal(
        await rotated.complete(await rotated.challengeOf(person), person.codeAt()),
        200,
        'with the active key only',
      )
      await rotated.forgetLastCode(person)
    }
    await reseal(newSecret, oldSecret)
    t.strictSame(await sealsOf(), after, 'secrets with the active key are not resealed')
  },
)

t.test('without the key of a secret, codes are refused and recovery codes work', async (t) => {
  const ada = await registerGuarded('lost')
  const bob = await registerGuarded('found')
  const lost = actionsOf(await startWith(t, [Buffer.from('a secret that nothing was sealed with')]))
  const challenge = await lost.challengeOf(ada)
  t.equal(await lost.complete(challenge, ada.codeAt()), 401)
  t.equal(await lost.complete(challenge, ada.recoveryCodes[0] ?? ''), 200)
  const before = await sealsOf()
  await reseal(Buffer.from('a secret that nothing was sealed with'))
  t.strictSame(await sealsOf(), before, 'the job does not change it, because the key may be restored')
  const { challengeOf, complete } = actionsOf(service)
  t.equal(await complete(await challengeOf(bob), bob.codeAt()), 200)
})

t.test('a secret that is replaced while it is resealed keeps its new value', async (t) => {
  const ada = await service.register('busy')
  const enroll = async (): Promise<string> => {
    const request = { token: ada.token, body: { password: ada.password } }
    return (await service.expect('enrollSecondFactor', 201, request)).body.secret
  }
  await enroll()
  let secret = ''
  const interrupted = {
    ...db,
    async run(...statement: Parameters<typeof db.run>) {
      const rows = await db.run(...statement)
      if (statement[0].includes('from second_factors') && secret === '') secret = await enroll()
      return rows
    },
  }
  const secondFactorKeys = deriveKeys([newSecret, oldSecret], 'second-factor')
  await runJobs({ ...jobDepsOf(service), db: interrupted, secondFactorKeys })
  t.not(secret, '')
  await service.expect('confirmSecondFactor', 200, {
    token: ada.token,
    body: { code: authenticator(secret)() },
  })
})
