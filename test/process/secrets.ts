import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadSecrets } from '../../src/process/secrets.ts'
import { temporaryFolder } from '../fixture/process.ts'

const jwtSecret = 'a secret of at least thirty-two bytes'

const loadSecret = async (config: Parameters<typeof loadSecrets>[0]): Promise<Buffer> => {
  const [newest] = await loadSecrets(config)
  return newest
}

t.test('the bytes of JWT_SECRET are the secrets, and nothing is written', async (t) => {
  const dataDir = await temporaryFolder(t)
  const secrets = await loadSecrets({ jwtSecrets: [`${jwtSecret} ü`, jwtSecret], dataDir })
  t.strictSame(secrets.map(String), [`${jwtSecret} ü`, jwtSecret])
  t.same(await readdir(dataDir), [])
})

t.test('without it one is made and kept', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'not', 'there', 'yet')
  const made = await loadSecret({ jwtSecrets: null, dataDir })
  t.ok(made.length >= 32)
  t.same(await readdir(dataDir), ['jwt-secret'], 'no temporary file is left')
  const path = join(dataDir, 'jwt-secret')
  t.equal((await stat(path)).mode & 0o777, 0o600, 'for its owner alone')
  t.ok(made.equals(await readFile(path)))
  t.strictSame(await loadSecrets({ jwtSecrets: null, dataDir }), [made], 'the next start has the same')
  const moved = await loadSecret({ jwtSecrets: [made.toString()], dataDir: await temporaryFolder(t) })
  t.ok(made.equals(moved), 'its text does as JWT_SECRET')
})

t.test('JWT_SECRET goes before the file, and leaves it alone', async (t) => {
  const dataDir = await temporaryFolder(t)
  const made = await loadSecret({ jwtSecrets: null, dataDir })
  t.equal((await loadSecret({ jwtSecrets: [jwtSecret], dataDir })).toString(), jwtSecret)
  t.ok(made.equals(await readFile(join(dataDir, 'jwt-secret'))))
})

t.test('two folders have two secrets', async (t) => {
  const [one, other] = await Promise.all(
    [1, 2].map(async () => loadSecret({ jwtSecrets: null, dataDir: await temporaryFolder(t) })),
  )
  t.not(String(one), String(other))
})

t.test('processes that start together have one secret', async (t) => {
  const dataDir = await temporaryFolder(t)
  const secrets = await Promise.all(
    Array.from({ length: 20 }, async () => String(await loadSecret({ jwtSecrets: null, dataDir }))),
  )
  t.equal(new Set(secrets).size, 1)
  t.same(await readdir(dataDir), ['jwt-secret'])
})

t.test('a damaged file is refused, kept, and not shown', async (t) => {
  const dataDir = await temporaryFolder(t)
  const path = join(dataDir, 'jwt-secret')
  await writeFile(path, 'half of')
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), {
    message: /jwt-secret is damaged: it has 7 bytes/,
  })
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { message: /^(?!.*half of)/ })
  t.equal((await readFile(path)).toString(), 'half of')
})

t.test('a folder that cannot be used is an error of the file system', async (t) => {
  const file = join(await temporaryFolder(t), 'file')
  await writeFile(file, '')
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir: join(file, 'data') }), { code: 'ENOTDIR' })
  const dataDir = await temporaryFolder(t)
  await mkdir(join(dataDir, 'jwt-secret'))
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { code: 'EISDIR' })
})

const skip = process.getuid?.() === 0 && 'root may write anywhere'

t.test('nor one that may not be written', { skip }, async (t) => {
  const dataDir = await temporaryFolder(t)
  await chmod(dataDir, 0o500)
  await t.rejects(loadSecret({ jwtSecrets: null, dataDir }), { code: 'EACCES' })
})
