import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { copyTemplate } from '../fixture/database.ts'
import { folderState, runUnprivileged, temporaryFolder } from '../fixture/process.ts'

const doctor = fileURLToPath(new URL('../../scripts/operate/doctor.ts', import.meta.url))

/** Neither the start nor the doctor takes a folder for an empty one, or changes anything. */
const expectRefused = async (t: Test, DATA_DIR: string, reason: RegExp): Promise<void> => {
  for (const program of [undefined, doctor]) {
    const { code, output } = await runUnprivileged({ DATA_DIR }, program)
    t.not(code, 0, output)
    t.match(output, reason)
    t.notMatch(output, /database: none yet|^ +at /m)
  }
}

t.test('a database folder that cannot be read is not taken for a missing one', async (t) => {
  const DATA_DIR = await temporaryFolder(t)
  await copyTemplate(DATA_DIR)
  await writeFile(join(DATA_DIR, 'jwt-secret'), 'x'.repeat(64), { mode: 0o600 })
  await mkdir(join(DATA_DIR, 'compiled'))
  const folder = join(DATA_DIR, 'postgresql')
  for (const path of [folder, join(folder, 'global')]) await chmod(path, 0o700)
  const before = await folderState(folder)

  await t.test('no rights on it', async (t) => {
    for (const mode of [0o000, 0o600]) {
      await chmod(folder, mode)
      await expectRefused(t, DATA_DIR, /postgresql cannot be used: EACCES/)
    }
    await chmod(folder, 0o700)
  })

  await t.test('no rights on its files', async (t) => {
    await chmod(join(folder, 'global'), 0o000)
    await expectRefused(
      t,
      DATA_DIR,
      /PostgreSQL does not (start: .*Permission denied|run as root)|database: EACCES/,
    )
    await chmod(join(folder, 'global'), 0o700)
  })

  await t.test('no rights on DATA_DIR', async (t) => {
    await chmod(DATA_DIR, 0o000)
    await expectRefused(t, DATA_DIR, /DATA_DIR.*EACCES|postgresql cannot be used: EACCES/)
    await chmod(DATA_DIR, 0o500)
    await expectRefused(t, DATA_DIR, /EACCES/)
    await chmod(DATA_DIR, 0o700)
  })

  await t.test('a link to a disk that is not mounted, a file, other files', async (t) => {
    const elsewhere = join(DATA_DIR, 'elsewhere')
    await rename(folder, elsewhere)
    await symlink(join(DATA_DIR, 'unmounted'), folder)
    await expectRefused(t, DATA_DIR, /postgresql cannot be used: ENOENT/)
    await rm(folder)
    await symlink(folder, folder)
    await expectRefused(t, DATA_DIR, /postgresql cannot be used: ELOOP/)
    await rm(folder)
    await writeFile(folder, '')
    await expectRefused(t, DATA_DIR, /postgresql cannot be used: ENOTDIR/)
    await rm(folder)
    await mkdir(folder)
    await writeFile(join(folder, 'base.tar'), '')
    await expectRefused(t, DATA_DIR, /postgresql contains files, but no database of this service/)
    await rm(folder, { recursive: true })
    await rename(elsewhere, folder)
  })

  t.strictSame(await folderState(folder), before, 'nothing is changed')
})
