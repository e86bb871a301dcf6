import t from 'tap'
import { maxMentions, mentionedUsernames } from '../../../src/domain/activity/mentions.ts'

const nobody: readonly string[] = []

/** Texts and the usernames that they mention. */
const examples: Readonly<Record<string, readonly string[]>> = {
  '@nina': ['nina'],
  'Thanks, @nina!': ['nina'],
  '@Nina and @NINA are the same': ['nina'],
  'first @paul, then @nina, @paul again': ['paul', 'nina'],
  '(@nina), [@paul] **@rita** _@otto_ "@emil"': ['nina', 'paul', 'rita', 'otto', 'emil'],
  'Dots are part of a name, @anna.b-c_d, but do not end it: @nina. @paul...': ['anna.b-c_d', 'nina', 'paul'],
  '> @nina wrote': ['nina'],
  '- @nina\n- @paul': ['nina', 'paul'],
  '1. first\n\n    @nina': ['nina'],
  '请@nina看一下, @paul님': ['nina', 'paul'],
  '@nina\r\n@paul\r@rita': ['nina', 'paul', 'rita'],
  'Ask @nina: `code` @paul `code`': ['nina', 'paul'],
  'A lonely ` does not begin code, @nina': ['nina'],
  '`` two ` and @paul `` @nina': ['nina'],
  'An escaped \\` is none, @nina, so `@paul` is code': ['nina'],
  'Code ends with its paragraph: `\n\n@nina `': ['nina'],
  'Paragraph\n    @nina continues it': ['nina'],
  '```\n@paul\n```\n@nina': ['nina'],
  '~~~ts\n@paul\n```\n@paul\n~~~~\n@nina': ['nina'],
  '> ```\n> @paul\n@nina': ['nina'],
  '- ```\n  @paul\n  ```\n- @nina': ['nina'],
  '``` `@paul` ``` @nina': ['nina'],
  '[@nina](https://example.com) and ![@paul](image.png)': ['nina', 'paul'],
  '<b>@nina</b>': ['nina'],
  '': nobody,
  '[profile](@nina), [profile]\n\n[profile]: @nina': nobody,
  '@': nobody,
  '@ nina': nobody,
  'nina@example.com': nobody,
  'nina.b+c@example.com, <mailto:nina@example.com>': nobody,
  'jörg@example.com': nobody,
  '@nina@example.com': nobody,
  '@ninä': nobody,
  'https://example.com/@nina': nobody,
  '\\@nina': nobody,
  '`@nina`': nobody,
  '`two\nlines @nina`': nobody,
  '``@nina ` @nina``': nobody,
  '    @nina': nobody,
  'Text\n\n\t@nina': nobody,
  '```\n@nina': nobody,
  '   ```` js\n@nina\n```\n@nina': nobody,
}

for (const [text, names] of Object.entries(examples))
  t.test(JSON.stringify(text), async (t) => {
    t.strictSame(mentionedUsernames(text), names)
  })

t.test('at most maxMentions names are returned', async (t) => {
  const names = Array.from({ length: maxMentions + 1 }, (_, n) => `user${n}`)
  const text = names.map((name) => `@${name} @${name}`).join(' ')
  t.strictSame(mentionedUsernames(text), names.slice(0, maxMentions))
})

t.test('parsing takes linear time', async (t) => {
  const length = 65_536
  const hostile = [
    '@',
    '@.',
    '`',
    '` ``',
    '\\',
    '\\`',
    '> ',
    '- ',
    '\n',
    '    \n',
    'a@a',
    '@a.',
    '~~~',
    '.',
    '1',
    '@a-@',
    '```a',
    '%@',
  ]
  const texts = [
    ...hostile.map((one) => one.repeat(Math.floor(length / one.length))),
    // Runs of all lengths.
    Array.from({ length: 360 }, (_, n) => '`'.repeat(n)).join(' '),
  ]
  for (const text of texts) {
    const start = performance.now()
    mentionedUsernames(text)
    t.ok(performance.now() - start < 1_000, text.slice(0, 8))
  }
})
