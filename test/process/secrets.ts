import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadSecrets } from '../../src/process/secrets.ts'
import { temporaryFolder } from '../fixture/process.ts'

const jwtSecret = 'a secret of at least thirty-two bytes'

const loadSecret = async (config: Parameters<typeof loadSecrets>[0]): Promise<Buffer> => {
  const [active] = await loadSecrets(config)
  return active
}

t.test('JWT_SECRET is used, and nothing is written', async (t) => {
  const dataDir = await temporaryFolder(t)
  const secrets = await loadSecrets({ jwtSecrets: [`${jwtSecret} ü`, jwtSecret], dataDir })
  t.strictSame(secrets.map(String), [`${jwtSecret} ü`, jwtSecret])
  t.same(await readdir(dataDir), [])
})

t.test('without JWT_SECRET, a secret is generated and stored', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'not', 'there', 'yet')
  const made = await loadSecret({ jwtSecrets: null, dataDir })
  t.ok(made.length >= 32)
  t.same(await readdir(dataDir), ['jwt-secret'], 'no temporary file remains')
  const path = join(dataDir, 'jwt-secret')
  t.equal((await stat(path)).mode & 0o777, 0o600, 'readable by its owner only')
  t.ok(made.equals(await readFile(path)))
  t.strictSame(await loadSecrets({ jwtSecrets: null, dataDir }), [made], 'the next start uses it')
  const moved = await loadSecret({ jwtSecrets: [made.toString()], dataDir: await temporaryFolder(t) })
  t.ok(made.equals(moved), 'its text can be used as JWT_SECRET')
})

t.test('JWT_SECRET takes precedence over the file, which is not changed', async (t) => {
  const dataDir = await temporaryFolder(t)
  const made = await loadSecret({ jwtSecrets: null, dataDir })
  t.equal((await loadSecret({ jwtSecrets: [jwtSecret], dataDir })).toString(), jwtSecret)
  t.ok(made.equals(await readFile(join(dataDir, 'jwt-secret'))))
})

t.test('two folders have different secrets', async (t) => {
  const [one, other] = await Promise.all(
    [1, 2].map(async () => loadSecret({ jwtSecrets: null, dataDir: await temporaryFolder(t) })),
  )
  t.not(String(one), String(other))
})

t.test('processes that start concurrently share one secret', async (t) => {
  const dataDir = await temporaryFolder(t)
  const secrets = await Promise.all(
    Array.from({ length: 20 }, async () => String(await loadSecret({ jwtSecrets: null, dataDir }))),
  )
  t.equal(new Set(secrets).size, 1)
  t.same(await readdir(dataDir), ['jwt-secret'])
})

t.test('a damaged file is rejected, kept, and not printed', async (t) => {
  const dataDir = await temporaryFolder(t)
  const path = join(dataDir, 'jwt-secret')
  await writeFile(path, 'half of')
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), {
    message: /jwt-secret is damaged: it has 7 bytes/,
  })
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { message: /^(?!.*half of)/ })
  t.equal((await readFile(path)).toString(), 'half of')
})

t.test('an unusable folder is a file system error', async (t) => {
  const file = join(await temporaryFolder(t), 'file')
  await writeFile(file, '')
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir: join(file, 'data') }), { code: 'ENOTDIR' })
  const dataDir = await temporaryFolder(t)
  await mkdir(join(dataDir, 'jwt-secret'))
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { code: 'EISDIR' })
})

const skip = process.getuid?.() === 0 && 'root may write anywhere'

t.test('EACCES for a folder without write permission', { skip }, async (t) => {
  const dataDir = await temporaryFolder(t)
  await chmod(dataDir, 0o500)
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { code: 'EACCES' })
})
