import t, { type Test } from 'tap'
import { newId } from '../../../src/db/shared/ids.ts'
import {
  type Gap,
  maxPositionLength,
  positionAtEnd,
  positionIn,
  positionOfNew,
  positionsIn,
} from '../../../src/domain/shared/positions.ts'

const isSorted = (positions: readonly string[]): boolean =>
  positions.every((position, index) => index === 0 || (positions[index - 1] ?? '') < position)

const expectIn = (t: Test, { after, before }: Gap): string => {
  const position = positionIn({ after, before })
  if (position === null) throw new Error(`No position between ${after} and ${before}`)
  t.ok(after === null || after < position, `${position} is after ${after}`)
  t.ok(before === null || position < before, `${position} is before ${before}`)
  return position
}

t.test('positions of new rows are in order of creation, with room between them', async (t) => {
  const ids = Array.from({ length: 1_000 }, newId)
  const positions = ids.map(positionOfNew)
  t.ok(isSorted(positions))
  t.ok(positions.every(({ length }) => length <= 15))
  const [first = '', second = ''] = positions
  expectIn(t, { after: first, before: second })
  const year3000 = positionOfNew('1d8f1a0b-2c00-7000-8000-000000000000')
  expectIn(t, { after: first, before: year3000 })
  expectIn(t, { after: year3000, before: null })
})

t.test('a position is within its gap, and unique', async (t) => {
  const after = positionOfNew(newId())
  const before = positionOfNew(newId())
  const gaps: Gap[] = [
    { after, before },
    { after, before: null },
    { after: null, before: after },
    { after: null, before: null },
  ]
  for (const gap of gaps) {
    const positions = Array.from({ length: 50 }, () => expectIn(t, gap))
    t.equal(new Set(positions).size, 50)
  }
})

t.test(
  'a row moved to the end is after the last row, and before new rows unless the last is in the future',
  async (t) => {
    const now = positionOfNew(newId())
    let last: string | null = null
    for (let moves = 0; moves < 500; moves += 1) {
      const position = positionAtEnd(last)
      t.ok(last === null || last < position)
      t.ok(position.length <= maxPositionLength)
      last = position
    }
    t.ok(now < (last ?? '') && (last ?? '') < positionOfNew(newId()))
    const future = positionOfNew('1d8f1a0b-2c00-7000-8000-000000000000')
    t.ok(future < positionAtEnd(future))
  },
)

t.test('a clock that is set back keeps the order of new and moved rows', async (t) => {
  const before = positionOfNew(newId())
  const real = Date.now.bind(Date)
  t.intercept(Date, 'now', { value: () => real() - 60_000 })
  const moved = positionAtEnd(before)
  t.ok(isSorted([before, moved, positionOfNew(newId()), positionAtEnd(null)]))
})

t.test('positions grow slowly, up to a maximum length', async (t) => {
  const after = positionOfNew(newId())
  let before: string | null = positionOfNew(newId())
  let moves = 0
  for (; before !== null; moves += 1) {
    t.ok(before.length <= maxPositionLength)
    before = positionIn({ after, before })
  }
  t.comment(`${moves} moves to the same place`)
  t.ok(moves > 40)
  t.equal(positionIn({ after, before: after }), null, 'there is no position between equal ones')
})

t.test('several positions are spread over a gap, unless it is too narrow', async (t) => {
  const after = positionOfNew(newId())
  const before = positionOfNew(newId())
  for (const gap of [
    { after, before },
    { after, before: null },
    { after: null, before },
  ]) {
    const positions = positionsIn(gap, 100) ?? []
    t.equal(positions.length, 100)
    t.ok(isSorted([gap.after ?? '', ...positions, gap.before ?? 'z']))
  }
  t.equal(positionsIn({ after: `a0${'1'.repeat(40)}`, before: `a0${'1'.repeat(40)}2` }, 2), null)
  t.equal(positionsIn({ after, before: after }, 2), null)
})
