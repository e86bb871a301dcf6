import t from 'tap'
import { meetsPreconditions, type Preconditions } from '../../src/domain/shared/entity-tags.ts'
import {
  matchesWeakly,
  parseETagList,
  parseHttpDate,
  strongTags,
  weakTags,
} from '../../src/http/conditional.ts'

const strong = (opaque: string) => ({ weak: false, opaque })
const weak = (opaque: string) => ({ weak: true, opaque })

t.test('* is valid only alone', async (t) => {
  t.equal(parseETagList('*'), '*')
  t.equal(parseETagList(' \t* '), '*')
  for (const header of ['**', '*,', '*, "a"', '"a", *', 'W/*']) t.equal(parseETagList(header), null, header)
})

t.test('entity tags are parsed in order', async (t) => {
  t.same(parseETagList('"a"'), [strong('"a"')])
  t.same(parseETagList('W/"a"'), [weak('"a"')])
  t.same(parseETagList('"a",W/"b" ,\t"c"'), [strong('"a"'), weak('"b"'), strong('"c"')])
  t.same(parseETagList('""'), [strong('""')], 'an empty tag is valid')
  t.same(parseETagList('"a,b", "W/", "\\", "*"'), ['"a,b"', '"W/"', '"\\"', '"*"'].map(strong))
  t.same(parseETagList('"\x80\xff!#~"'), [strong('"\x80\xff!#~"')])
})

t.test('empty list elements are skipped', async (t) => {
  t.same(parseETagList(', "a",, \t,"b" ,'), [strong('"a"'), strong('"b"')])
  t.same(parseETagList(''), [])
  t.same(parseETagList(' , '), [])
})

t.test('malformed headers are rejected', async (t) => {
  const malformed = [
    'a',
    '"a',
    'a"',
    '"',
    '"a" "b"',
    '"a""b"',
    '"a";q=1',
    'w/"a"',
    'W/ "a"',
    'W /"a"',
    'W/',
    'W/a',
    '"a b"',
    '"a\tb"',
    '"a\x7f"',
    '"a\x00"',
    '"a\u0100"',
    '"a"\n',
    "'a'",
    '"a", b',
  ]
  for (const header of malformed) t.equal(parseETagList(header), null, JSON.stringify(header))
})

t.test('headers that are longer than the contract allows are rejected', async (t) => {
  const longest = '"a"'.padEnd(2048, ',')
  t.same(parseETagList(longest), [strong('"a"')])
  t.equal(parseETagList(`${longest},`), null)
})

t.test('weak comparison', async (t) => {
  const list = [strong('"a"'), weak('"b"')]

  t.test('weak and strong tags are equal', async (t) => {
    t.equal(matchesWeakly(list, '"a"'), true)
    t.equal(matchesWeakly(list, '"b"'), true)
    t.equal(matchesWeakly(list, '"A"'), false)
    t.equal(matchesWeakly(list, '"c"'), false)
  })

  t.test('* matches any tag, an empty list none', async (t) => {
    t.equal(matchesWeakly('*', '"a"'), true)
    t.equal(matchesWeakly([], '"a"'), false)
  })
})

t.test('the three date formats of HTTP are parsed, and no others', async (t) => {
  const time = Date.UTC(1994, 10, 6, 8, 49, 37)
  for (const date of [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
  ])
    t.equal(parseHttpDate(date), time, date)
  for (const text of [
    '',
    '0',
    '99999',
    '1994-11-06T08:49:37Z',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 +0100',
    'Sun, 96 Nov 1994 08:49:37 GMT',
    'Sun, 06 Non 1994 08:49:37 GMT',
  ])
    t.equal(parseHttpDate(text), null, text)
})

t.test('conditions on the current state of a resource', async (t) => {
  /** Tags that stand for it; none without an ETag; null if there is no resource. */
  const states = [['7', '7.manager'], [], null]
  const cases: readonly (readonly [Partial<Preconditions>, readonly boolean[]])[] = [
    [{}, [true, true, true]],
    [{ ifMatch: ['*'] }, [true, true, false]],
    [{ ifMatch: ['6', '7'] }, [true, false, false]],
    [{ ifMatch: ['6'] }, [false, false, false]],
    [{ ifMatch: [] }, [false, false, false]],
    [{ ifNoneMatch: ['*'] }, [false, false, true]],
    [{ ifNoneMatch: ['6', '7.manager'] }, [false, true, true]],
    [{ ifNoneMatch: ['6'] }, [true, true, true]],
    [{ ifNoneMatch: [] }, [true, true, true]],
    [{ ifMatch: ['7'], ifNoneMatch: ['*'] }, [false, false, false]],
    [{ ifMatch: ['7'], ifNoneMatch: ['6'] }, [true, false, false]],
  ]
  for (const [conditions, expected] of cases)
    t.strictSame(
      states.map((current) =>
        meetsPreconditions(current, { ifMatch: null, ifNoneMatch: null, ...conditions }),
      ),
      expected,
      JSON.stringify(conditions),
    )
})

t.test('the tags of a header: If-Match leaves out weak ones, and "*" is not *', async (t) => {
  const list = [strong('"a"'), weak('"b"'), strong('"*"')]
  t.strictSame([strongTags(list), weakTags(list)], [['a'], ['a', 'b']])
  t.strictSame([strongTags('*'), weakTags('*')], [['*'], ['*']])
})
