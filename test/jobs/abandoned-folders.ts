import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { removeAbandonedFolders } from '../../src/jobs/abandoned-folders.ts'

t.test('folders without a lease are removed, but for those that are made meanwhile', async (t) => {
  const folder = t.testdir({ live: { file: '' }, dead: { file: '' } })
  await removeAbandonedFolders(folder, async () => {
    await mkdir(join(folder, 'new'))
    return new Set(['live'])
  })
  t.strictSame((await readdir(folder)).toSorted(), ['live', 'new'])
})

t.test('nothing has run yet', async (t) => {
  await t.resolves(removeAbandonedFolders(join(t.testdir(), 'none'), async () => new Set()))
})
