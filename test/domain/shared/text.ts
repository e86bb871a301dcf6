import t from 'tap'
import {
  foldSearch,
  hasTooManyMarks,
  isVisible,
  maxNormalizedLength,
  TextTooCostly,
  toNfc,
} from '../../../src/domain/shared/text.ts'

const acute = '\u0301'
/** Marks of several canonical classes, which normalization must sort. */
const mixed = '\u0301\u0316\u0345\u05b0\u3099'
/** Letters by their category, which NFKC turns into marks. */
const halfwidth = '\uff9e\uff9f'
const astral = '\u{1d165}'

t.test('thirty consecutive combining marks are allowed, one more is not', async (t) => {
  for (const mark of [acute, '\u0591', '\u20dd', '\uff9e', astral]) {
    t.notOk(hasTooManyMarks(`a${mark.repeat(30)}a${mark.repeat(30)}`), mark)
    t.ok(hasTooManyMarks(`a${mark.repeat(30)}a${mark.repeat(31)}`), mark)
    t.ok(hasTooManyMarks(mark.repeat(1_000)), mark)
  }
  for (const marks of [mixed, `${halfwidth}${acute}`, `${astral}${acute}`]) {
    t.notOk(hasTooManyMarks(`${marks.repeat(6)} ${marks.repeat(6)}`))
    t.ok(hasTooManyMarks(marks.repeat(31)))
  }
  t.notOk(hasTooManyMarks('हिन्दी भाषा में लिखा हुआ'.repeat(1_000)))
})

t.test('characters that normalization turns into leading marks count as marks', async (t) => {
  const mark = /^\p{M}/u
  const missed: string[] = []
  for (let code = 0; code <= 0x10ffff; code += 1) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const text = String.fromCodePoint(code)
    // The two missed vowel signs become a mark and a letter, which ends the run.
    if (mark.test(text.normalize('NFKD')) && !hasTooManyMarks(text.repeat(31))) missed.push(code.toString(16))
  }
  t.same(missed, ['e33', 'eb3'])
})

t.test('texts that are too costly to normalize are rejected', async (t) => {
  for (const text of [
    mixed.repeat(20_000),
    'a'.repeat(maxNormalizedLength + 1),
    `${halfwidth}${acute}`.repeat(40),
  ]) {
    for (const fold of [toNfc, foldSearch]) t.throws(() => fold(text), TextTooCostly)
  }
  t.equal(toNfc(`e${acute}`), 'é')
})

t.test('spaces, controls and fillers are invisible', async (t) => {
  for (const text of [
    '',
    ' ',
    '\u00a0',
    '\u115f',
    '\u1160',
    '\u3164',
    '\uffa0',
    '\u200b\u2060',
    '\u2800',
    '\ufe0f',
  ])
    t.notOk(isVisible(text), JSON.stringify(text))
  for (const text of ['a', '\u3164a', '.', '😀', 'ᄀ']) t.ok(isVisible(text), text)
})
