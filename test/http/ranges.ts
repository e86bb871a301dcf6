import t from 'tap'
import { selectRange } from '../../src/http/ranges.ts'

const whole = { kind: 'whole' }
const unsatisfiable = { kind: 'unsatisfiable' }
const part = (start: number, end: number) => ({ kind: 'part', start, end })

t.test('a single range selects its bytes', async (t) => {
  t.same(selectRange('bytes=0-0', 10), part(0, 0))
  t.same(selectRange('bytes=2-5', 10), part(2, 5))
  t.same(selectRange('bytes=9-9', 10), part(9, 9))
  t.same(selectRange('Bytes=2-5', 10), part(2, 5), 'units are case-insensitive')
})

t.test('an end beyond the file is clamped', async (t) => {
  t.same(selectRange('bytes=5-10', 10), part(5, 9))
  t.same(selectRange(`bytes=5-${'9'.repeat(400)}`, 10), part(5, 9))
})

t.test('an open range selects up to the end', async (t) => {
  t.same(selectRange('bytes=0-', 10), part(0, 9))
  t.same(selectRange('bytes=9-', 10), part(9, 9))
})

t.test('a suffix selects the last bytes, or the whole file', async (t) => {
  t.same(selectRange('bytes=-3', 10), part(7, 9))
  t.same(selectRange('bytes=-10', 10), part(0, 9))
  t.same(selectRange('bytes=-11', 10), part(0, 9))
  t.same(selectRange(`bytes=-${'9'.repeat(400)}`, 10), part(0, 9))
})

t.test('a range outside the file is unsatisfiable', async (t) => {
  for (const header of ['bytes=10-', 'bytes=10-12', 'bytes=-0', `bytes=${'9'.repeat(400)}-`]) {
    t.same(selectRange(header, 10), unsatisfiable, header)
  }
})

t.test('in an empty file, all ranges but a non-empty suffix are unsatisfiable', async (t) => {
  t.same(selectRange(undefined, 0), whole)
  t.same(selectRange('bytes=0-', 0), unsatisfiable)
  t.same(selectRange('bytes=0-0', 0), unsatisfiable)
  t.same(selectRange('bytes=-0', 0), unsatisfiable)
  t.same(selectRange('bytes=-1', 0), whole)
})

t.test('headers other than a single byte range are ignored', async (t) => {
  const ignored = [
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=5-3',
    'bytes=a-b',
    'bytes=1.5-2',
    'bytes=0x1-2',
    'bytes=+1-2',
    'bytes=--1',
    'bytes= 0-1',
    'bytes =0-1',
    'bytes=0 - 1',
    'bytes=0-1\n',
    'bytes=0-1,',
    'bytes=0-1,3-4',
    'bytes=0-1,50-60',
    'items=0-1',
    'bytes=\u0661-\u0662',
  ]
  for (const header of ignored) t.same(selectRange(header, 10), whole, String(header))
})
