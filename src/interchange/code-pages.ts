import type { TextEncoding } from './import-file.ts'

/**
 * Guesses the code page of a text that is not Unicode, by the characters that are usual in the languages that are written in it. Short
 * texts are guessed as well: detectors of other programs need more characters than a table of a few tasks has. A wrong guess is in the
 * preview, where it can be corrected.
 */

/** An encoding of characters of two bytes, each byte here a character of Latin-1. */
interface DoubleByte {
  readonly encoding: TextEncoding
  /** Pairs, or single bytes beyond ASCII. */
  readonly characters: RegExp
  /** Single bytes that are characters. */
  readonly single?: RegExp
  readonly usual: RegExp
  /** The share of the pairs that are usual. */
  readonly least: number
  /** Pairs of which at least one in twenty is. */
  readonly typical?: RegExp
}

const doubleByte: readonly DoubleByte[] = [
  {
    encoding: 'shift_jis',
    characters: /[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|[\x80-\xff]/g,
    single: /^[\xa1-\xdf]/,
    usual: /^[\x81-\x83\x88-\x97]/,
    least: 0.8,
  },
  {
    encoding: 'euc-jp',
    characters: /[\x8e\xa1-\xfe][\xa1-\xfe]|[\x80-\xff]/g,
    usual: /^[\xa1-\xa5\xb0-\xcf]/,
    least: 0.8,
    typical: /^[\xa4\xa5]/,
  },
  // Korean and Chinese characters have the same bytes, but Chinese ones have more of them.
  {
    encoding: 'euc-kr',
    characters: /[\x81-\xfe][\x41-\xfe]|[\x80-\xff]/g,
    usual: /^[\xb0-\xc8][\xa1-\xfe]/,
    least: 0.95,
  },
  {
    encoding: 'gb18030',
    characters: /[\x81-\xfe][\x40-\x7e\x80-\xfe]|[\x80-\xff]/g,
    usual: /^[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]/,
    least: 0.8,
  },
  {
    encoding: 'big5',
    characters: /[\x81-\xfe][\x40-\x7e\xa1-\xfe]|[\x80-\xff]/g,
    usual: /^[\xa1-\xc6]/,
    least: 0.9,
  },
]

/** Whether all bytes are characters, most of them usual, and many of them beside others: "Don’t" has a pair that is Japanese. */
const fits = (latin: string, { characters, single, usual, least, typical }: DoubleByte): boolean => {
  const found = [...latin.matchAll(characters)].map(([text], index, all) => {
    const before = all[index - 1]
    return { text, isBeside: before !== undefined && before.index + before[0].length === all[index]?.index }
  })
  const pairs = found.filter(({ text }) => text.length === 2)
  const broken = found.filter(({ text }) => text.length === 1 && !single?.test(text))
  const count = (kind: RegExp): number => pairs.filter(({ text }) => kind.test(text)).length
  return (
    pairs.length > 0 &&
    // The last character may be cut off.
    broken.length <= (/[\x80-\xff]$/.test(latin) ? 1 : 0) &&
    pairs.filter(({ isBeside }) => isBeside).length * 3 >= pairs.length &&
    count(usual) >= least * pairs.length &&
    (typical === undefined || count(typical) * 20 >= pairs.length)
  )
}

type Letters = readonly (readonly [encoding: TextEncoding, usual: string])[]

const withCapitals = (letters: Letters): Letters =>
  letters.map(([encoding, usual]) => [encoding, usual + usual.toUpperCase()])

/** The most frequent letters of alphabets that have nothing in common with ASCII. */
const alphabets = withCapitals([
  ['windows-1251', 'оеаинтсрвлкмдпуяыьіј'],
  ['windows-1253', 'αοιετσνηυρςάέήίόύώ'],
  ['windows-1255', 'יוהלארתבמש'],
  ['windows-1256', 'اليمونرتبهة'],
  ['windows-874', 'านรกองเมย่้ัีวลสตดิแท'],
])

/** The letters of languages beyond ASCII. */
const languages = withCapitals([
  ['windows-1252', 'äöüßéèàáâ'],
  ['windows-1252', 'éèêëàâçîïôûùœ'],
  ['windows-1252', 'áéíóúñüãõçâêôàºª'],
  ['windows-1252', 'åäöæøéáðþíóúý'],
  ['windows-1252', 'àèéíìïòóùúüç'],
  ['windows-1254', 'çğıöşü'],
  ['windows-1250', 'ąćęłńóśźż'],
  ['windows-1250', 'áčďéěíňóřšťúůýžäľĺôŕ'],
  ['windows-1250', 'áéíóöőúüű'],
  ['windows-1250', 'čćđšž'],
  ['windows-1250', 'ăâîşţ'],
  ['iso-8859-2', 'ąćęłńóśźż'],
  ['iso-8859-2', 'áčďéěíňóřšťúůýžäľĺôŕ'],
  ['windows-1257', 'ąčęėįšųūž'],
  ['windows-1257', 'āčēģīķļņšūž'],
  ['windows-1257', 'äõöüšž'],
])

const punctuation = '–—…‘’“”„«»¿¡°§€\xa0'

/** Texts in several Western languages have letters of others. */
const preference = 0.1

/** The encoding whose characters are the most usual ones; Windows-1252 if they are not in any. */
const mostUsual = (bytes: Buffer, letters: Letters): TextEncoding => {
  const shares = letters.map(([encoding, usual]) => {
    const found = new TextDecoder(encoding).decode(bytes).match(/[^\0-\x7f]/g) ?? []
    const counted = found.filter((character) => !punctuation.includes(character))
    const count = counted.filter((character) => usual.includes(character)).length
    return count / Math.max(counted.length, 1) + (encoding === 'windows-1252' ? preference : 0)
  })
  const best = Math.max(...shares)
  return (best < 0.5 ? undefined : letters[shares.indexOf(best)]?.[0]) ?? 'windows-1252'
}

export const guessCodePage = (bytes: Buffer): TextEncoding => {
  const latin = bytes.toString('latin1')
  const found = doubleByte.find((one) => fits(latin, one))
  if (found !== undefined) return found.encoding
  // Words of other alphabets have no letter of ASCII.
  const words = (latin.match(/[a-z\x80-\xff]+/gi) ?? []).filter((word) => /[\xa1-\xff]/.test(word))
  const others = words.filter((word) => word.length > 1 && !/[a-z]/i.test(word))
  return mostUsual(bytes, others.length > words.length * 0.7 ? alphabets : languages)
}
