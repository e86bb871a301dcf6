import t from 'tap'
import { changedFields } from '../../../src/domain/activity/changes.ts'

const present = { name: 'Garden', color: null as string | null }
const fields = ['name', 'color'] as const

t.test('the fields that differ, before and after', async (t) => {
  for (const [patch, changes] of [
    [{}, null],
    [{ name: 'Garden', color: null }, null],
    [{ name: 'Yard' }, { before: { name: 'Garden' }, after: { name: 'Yard' } }],
    [
      { name: 'Garden', color: '#00ff00' },
      { before: { color: null }, after: { color: '#00ff00' } },
    ],
  ] as const)
    t.strictSame(changedFields<'name' | 'color', string | null>(fields, present, patch), changes)
})
