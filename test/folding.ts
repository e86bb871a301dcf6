import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { components } from '../generated/openapi.ts'
import { foldedCharacters, foldSearch } from '../src/domain/shared/text.ts'
import { projectActions } from './fixture/projects.ts'
import { type Call, startService } from './fixture/service.ts'
import { taskActions } from './fixture/tasks.ts'

/** Searches and orders ignore case, accents and other differences within a letter, alike in all lists and on both databases. */

type Schemas = components['schemas']

const service = await startService(t)
const { addComment, createTag, createTask } = taskActions(service)
const { createProject } = projectActions(service)
const admin = await service.register('admin')

t.test('the service and the database fold every character alike', async (t) => {
  // Of a million code points, nine in ten stand for nothing: those without a character, of private use, and surrogates.
  const characters = Array.from({ length: 0x110000 }, (_, code) => String.fromCodePoint(code)).filter(
    (character) =>
      character !== '\0' && (foldedCharacters.has(character) || !/[\p{Cn}\p{Co}\p{Cs}]/u.test(character)),
  )
  t.ok(characters.length > 150_000, `${characters.length} characters`)
  const different: string[] = []
  const size = 4_000
  for (let start = 0; start < characters.length; start += size) {
    // In NFC, as all text is stored.
    const text = characters
      .slice(start, start + size)
      .join('|')
      .normalize('NFC')
    const [row] = await service.deps.db.run('select fold_text($1::text) as folded', [text])
    if (row?.folded !== foldSearch(text))
      different.push((characters[start]?.codePointAt(0) ?? 0).toString(16))
  }
  t.strictSame(different, [])
  for (const text of [
    '',
    'ASCII Only',
    '\u0301',
    'ｶﾞ',
    'ﾊﾟñ´',
    'e\u0301\u0327'.normalize('NFC'),
    'x\u0363\u00ad\u1dca',
  ]) {
    const [row] = await service.deps.db.run('select fold_text($1::text) as folded', [text])
    t.equal(row?.folded, foldSearch(text), text)
  }
})

t.test('the service and the database split words alike, whatever letters the database knows', async (t) => {
  const isWordCharacter = (character: string): boolean => /[\p{L}\p{Nd}]/u.test(character)
  const characters = Array.from({ length: 0x110000 }, (_, code) => String.fromCodePoint(code)).filter(
    (character) => character !== '\0' && !/\p{Cs}/u.test(character),
  )
  const inWords = characters.filter(isWordCharacter).join('')
  const between = characters.filter((character) => !isWordCharacter(character)).join('')
  const [row] = await service.deps.db.run(
    `select regexp_replace($1, between_words(), ' ', 'g') as words, regexp_replace($2, between_words(), ' ', 'g') as rest`,
    [inWords, between],
  )
  t.ok(row?.words === inWords, 'letters and digits')
  t.equal(row?.rest, ' ')
})

// Garay, since Unicode 16.
const [garay] = await service.deps.db.run(
  `select '\u{10d50}' collate "und-x-icu" ~ '[[:alnum:]]' as is_known`,
  [],
)
const skip = garay?.is_known === true && 'the database knows the letter'

t.test('an upgrade indexes texts with letters that the database did not know', { skip }, async (t) => {
  const account = await service.register('writer')
  const { id } = await createTask(account, { title: 'New', description: 'Read \u{10d50}\u{10d5b} again' })
  const query = { q: '\u{10d50}\u{10d5b}' }
  const search = async () =>
    (await service.expect('listTasks', 200, { token: account.token, query })).body.items.map(
      (task) => task.id,
    )
  t.strictSame(await search(), [id])
  const { db } = service.deps
  await db.run(`update tasks set search = to_tsvector('simple', 'read again') where id = $1`, [id])
  t.strictSame(await search(), [])
  const migration = new URL('../src/db/migrations/0003_search_words.sql', import.meta.url)
  const [, , indexAgain = ''] = (await readFile(migration, 'utf8')).split('--> statement-breakpoint')
  await db.run(indexAgain, [])
  t.strictSame(await search(), [id])
})

/** Texts, by what is searched for. */
const found: readonly (readonly [query: string, text: string])[] = [
  // German
  ['STRASSE', 'Straße'],
  ['straße', 'STRASSE'],
  ['strasse', 'STRAẞE'],
  ['muller', 'Müller'],
  // Polish, Croatian, Czech, Romanian
  ['lodz', 'Łódź'],
  ['ŁÓDŹ', 'lodz'],
  ['dakovo', 'Đakovo'],
  ['prilis zlutoucky', 'Příliš žluťoučký'],
  ['iasi', 'Iași'],
  // Danish, French
  ['smorrebrod', 'Smørrebrød'],
  ['aeble', 'Æble'],
  ['ANGSTROM', 'Ångström'],
  ['oeuvre', 'Œuvre'],
  ['garcon', 'Garçon'],
  // Turkish, with and without a dot
  ['istanbul', 'İSTANBUL'],
  ['ISTANBUL', 'İstanbul'],
  ['isik', 'ışık'],
  ['IŞIK', 'ışık'],
  // Icelandic, Maltese, Sami
  ['thordur', 'Þórður'],
  ['hal', 'Ħal'],
  ['eatnan', 'Eatŋan'],
  // Vietnamese
  ['tieng viet', 'Tiếng Việt'],
  ['duong', 'Đường'],
  // Greek
  ['οδοσ', 'Οδός'],
  ['ΟΔΟΣ', 'οδός'],
  ['αθηνα', 'Αθήνα'],
  // Cyrillic
  ['ежик', 'Ёжик'],
  ['ЁЛКА', 'елка'],
  ['іжак', 'Їжак'],
  ['годзик', 'Ґодзик'],
  // Hebrew points
  ['שלום', 'שָׁלוֹם'],
  // Arabic vowel signs, tatweel, and forms of alef, teh and yeh
  ['محمد', 'مُحَمَّد'],
  ['سلام', 'ســـلام'],
  ['احمد', 'أحمد'],
  ['مدرسه', 'مدرسة'],
  ['علي', 'على'],
  // Devanagari nukta
  ['जरूर', 'ज़रूर'],
  ['लडका', 'लड़का'],
  // Hangul, decomposed as on some file systems
  ['\u1112\u1161\u11ab글', '한글'],
  ['한글', '\u1112\u1161\u11ab글'],
  // Kana and widths
  ['カタカナ', 'かたかな'],
  ['がき', 'ｶﾞｷ'],
  ['ＡＢＣ', 'abc'],
  ['tokyo', 'ＴＯＫＹＯ'],
  // Ligatures, circled and other digits
  ['fine', 'ﬁne'],
  ['step 12', 'Step ①②'],
  ['3', '٣'],
  ['m2', 'm²'],
  // Punctuation of typography, invisible characters
  ["don't", 'Don’t'],
  ['2024-2025', '2024–2025'],
  ['cooperate', 'co\u00adoperate'],
  ['میخواهم', 'می\u200cخواهم'],
]

/** Different words, which differ in more than accents. */
const notFound: readonly (readonly [query: string, text: string])[] = [
  // The voicing of kana, and small kana
  ['かき', 'かぎ'],
  ['がき', 'かき'],
  ['びよういん', 'びょういん'],
  // A letter of its own
  ['иод', 'йод'],
  // Thai and Devanagari vowels
  ['นา', 'น้ำ'],
  ['कल', 'कील'],
  ['пити', 'питі'],
]

t.test('lists of tasks find texts that differ in case, accents, width or form', async (t) => {
  const { token } = await service.register('reader')
  const texts = [...new Set([...found, ...notFound].map(([, one]) => one.normalize('NFC')))]
  const create = texts.flatMap((text) => [
    { title: text, tag_names: [text] },
    { title: 'Described', description: `First, then ${text}.` },
  ])
  const { body: batch } = await service.expect('batchTasks', 200, { token, body: { create } })
  const ids = batch.create.map(({ task_id: id }) => id ?? '')
  /** Which of the two tasks with a text are in a list: the one that it is the title of, and the one that it describes. */
  const listedFor = async (one: string, query: NonNullable<Call['query']>) => {
    const { body } = await service.expect('listTasks', 200, { token, query })
    const listed = new Set(body.items.map(({ id }) => id))
    const [titled = '', described = ''] = ids.slice(texts.indexOf(one.normalize('NFC')) * 2)
    return [listed.has(titled), listed.has(described)]
  }
  for (const [q, text] of found) {
    const quoted = JSON.stringify(q)
    // One request for all, since all of it must hold for a task: `q`, a phrase, and each field.
    const filter = `${quoted} AND ((title:${quoted} AND tags:${quoted}) OR description:${quoted})`
    t.strictSame(await listedFor(text, { q, filter, limit: 200 }), [true, true], `${q} finds ${text}`)
  }
  for (const [q, text] of notFound) {
    const filter = ['', 'title:', 'tags:', 'description:']
      .map((field) => `${field}${JSON.stringify(q)}`)
      .join(' OR ')
    for (const query of [{ q }, { filter }])
      t.strictSame(await listedFor(text, { ...query, limit: 200 }), [false, false], `${q}: not ${text}`)
  }
})

t.test('lists of comments, tags and users find them, too', async (t) => {
  const account = await service.register('other-reader')
  const { token } = account
  const { id: task_id } = await createTask(account)
  // All lists fold texts alike, so a part of them is enough.
  const sample = [...found.filter((_, index) => index % 4 === 0), ...notFound]
  for (const [index, [q, one]] of sample.entries()) {
    const text = one.normalize('NFC')
    await addComment(account, task_id, text)
    await createTag(account, text)
    const name = `named-${index}`
    const user = {
      username: name,
      email: `${name}@example.com`,
      password: `password of ${name}`,
      display_name: text,
    }
    await service.expect('createUser', 201, { token: admin.token, body: user })
    const query = { q, limit: 200 }
    const comments = await service.expect('listTaskComments', 200, { token, params: { task_id }, query })
    const tags = await service.expect('listTags', 200, { token, query })
    const users = await service.expect('listUsers', 200, { token, query })
    const isFound = found.some(([other, text]) => other === q && text === one)
    t.strictSame(
      [
        comments.body.items.some(({ body }) => body === text),
        tags.body.items.some(({ name }) => name === text),
        users.body.items.some(({ display_name: name }) => name === text),
      ],
      [isFound, isFound, isFound],
      `${q}: ${text}`,
    )
  }
})

/** In order. */
const sorted = [
  "'n",
  '12',
  '⑬',
  'Æble',
  'ａnchor',
  'Ångström',
  'Đakovo',
  'duck',
  'Éclair',
  'ﬁg',
  'ısı',
  'istanbul a',
  'İstanbul b',
  'Łódź',
  'Oder',
  'Œuvre',
  'Øre',
  'Strasse a',
  'Straße b',
  'STRASSE C',
  'strata',
  'Þing',
  'thorn',
  'Zebra',
  'Žižka',
  'Άλφα',
  'βήτα',
  'Ελα',
  'Ёж',
  'жук',
  'Щука',
  'שָׁלוֹם',
  'أحمد',
  'さかな',
  'サクラ',
]

t.test('lists are in alphabetical order, across pages', async (t) => {
  const account = await service.register('sorter')
  const { token } = account
  // Another order than the expected one, and than its reverse.
  const shuffled = sorted.toSorted((a, b) =>
    (foldSearch(a).at(-1) ?? '').localeCompare(foldSearch(b).at(-1) ?? ''),
  )
  for (const name of shuffled) {
    await createTask(account, { title: name })
    await createProject(account, name)
  }
  const pagesOf = async (operation: 'listTasks' | 'listProjects', sort: string): Promise<string[]> => {
    const names: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const query: NonNullable<Call['query']> = { sort, limit: 4, ...(cursor !== '' && { cursor }) }
      const { body }: { readonly body: Schemas['TaskList'] | Schemas['ProjectList'] } = await service.expect(
        operation,
        200,
        { token, query },
      )
      names.push(...body.items.map((item) => ('title' in item ? item.title : item.name)))
      cursor = body.next_cursor
    }
    return names
  }
  for (const [operation, field] of [
    ['listTasks', 'title'],
    ['listProjects', 'name'],
  ] as const) {
    t.strictSame(await pagesOf(operation, field), sorted, operation)
    t.strictSame(await pagesOf(operation, `-${field}`), sorted.toReversed(), `${operation}, reversed`)
  }

  const tagged = await createTask(account, { tag_names: ['zebra', 'Łódź', 'Straße', 'lodge', 'Ärger'] })
  t.strictSame(
    tagged.tags.map(({ name }) => name),
    ['Ärger', 'lodge', 'Łódź', 'Straße', 'zebra'],
  )
})

t.test('tags whose names differ in accents are different tags, and a search finds both', async (t) => {
  const account = await service.register('tagger')
  const { token } = account
  for (const name of ['resume', 'résumé', 'Straße', 'Strasse']) await createTag(account, name)
  await service.expect('createTag', 409, { token, body: { name: 'RÉSUMÉ' } })
  const { id } = await createTask(account, { tag_names: ['résumé'] })
  const other = await createTask(account, { tag_names: ['resume'] })
  const { body } = await service.expect('listTasks', 200, { token, query: { filter: 'tags:RESUM*' } })
  t.strictSame(
    body.items.map((task) => task.id),
    [other.id, id],
  )
  const { body: tags } = await service.expect('listTags', 200, { token, query: { q: 'strasse' } })
  t.equal(tags.items.length, 2)
})

t.test('a search for combining marks or invisible characters alone finds nothing', async (t) => {
  const account = await service.register('marker')
  const { token } = account
  const name = 'e\u0301tude \u0301'
  const task = await createTask(account, { title: name, description: name, tag_names: [name] })
  await addComment(account, task.id, name)
  await createProject(account, name)
  await service.expect('createTeam', 201, { token: admin.token, body: { name } })
  const params = { task_id: task.id }
  for (const q of ['\u0308\u0301', '\u05b8', '\u00ad', '\ufe0f', '"\u0301"']) {
    const query = { q }
    const lists = [
      await service.expect('listTasks', 200, { token, query }),
      await service.expect('listTags', 200, { token, query }),
      await service.expect('listUsers', 200, { token, query }),
      await service.expect('listProjects', 200, { token, query }),
      await service.expect('listTeams', 200, { token: admin.token, query }),
      await service.expect('listTaskComments', 200, { token, params, query }),
    ]
    // A quotation mark is not part of a name.
    t.strictSame(
      lists.map(({ body }) => body.items.length),
      [0, 0, 0, 0, 0, 0],
      JSON.stringify(q),
    )
    if (q.includes('"')) continue
    for (const filter of [`title:"${q}"`, `description:"${q}"`, `tags:"${q}"`, `tags:"${q}*"`, `"${q}"`]) {
      const { body } = await service.expect('listTasks', 400, { token, query: { filter } })
      t.match(body.detail, /a word to search for/, filter)
    }
  }
})
