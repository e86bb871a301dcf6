import type { FastifyInstance } from 'fastify'
import MarkdownIt, { type Token } from 'markdown-it'
import { readdirSync, readFileSync } from 'node:fs'
import { problems } from '../problems/problems.ts'
import { escapeHtml, page, sendPage } from './pages.ts'

interface Guide {
  readonly title: string
  readonly html: string
}

const folder = new URL('../../docs/guides/', import.meta.url)

const names = readdirSync(folder)
  .filter((file) => file.endsWith('.md'))
  .map((file) => file.replace(/\.md$/, ''))
  .toSorted()

/** Registers the guides for clients, at `/guides` and `/guides/<name>`. `base` is the path of PUBLIC_URL. */
export const registerGuides = async (
  app: FastifyInstance,
  { base }: { readonly base: string },
): Promise<void> => {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-cache')
  })
  app.get('/guides', (_request, reply) => sendPage(reply, listPage(base)))
  app.get<{ Params: { name: string } }>('/guides/:name', (request, reply) => {
    const { name } = request.params
    if (!names.includes(name)) throw problems.notFound()
    return sendPage(reply, guidePage(base, guideOf(name)))
  })
}

const rendered = new Map<string, Guide>()

/** A guide, which is rendered at its first request. */
const guideOf = (name: string): Guide => {
  const guide = rendered.get(name) ?? readGuide(name)
  rendered.set(name, guide)
  return guide
}

const readGuide = (name: string): Guide => {
  const tokens = parser.parse(readFileSync(new URL(`${name}.md`, folder), 'utf8'), {})
  setHeadingIds(tokens)
  for (const { children } of tokens) if (children !== null) followLinks(children)
  const title = tokens.find(({ type }) => type === 'inline')?.content ?? name
  return { title, html: parser.renderer.render(tokens, parser.options, {}) }
}

const parser = new MarkdownIt({ html: false })

/** The ids that GitHub gives to headings, because the links in the guides use them. */
const setHeadingIds = (tokens: readonly Token[]): void => {
  for (const [index, token] of tokens.entries()) {
    if (token.type !== 'heading_open') continue
    const text = tokens[index + 1]?.content.toLowerCase() ?? ''
    token.attrSet('id', text.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-'))
  }
}

/** Links of one guide to another stay. The other files of the repository are not served, so their links become text. */
const followLinks = (tokens: readonly Token[]): void => {
  let isHidden = false
  for (const token of tokens) {
    if (token.type === 'link_open') {
      const target = String(token.attrGet('href'))
      const guide = /^([\w-]+)\.md(#.*)?$/.exec(target)
      isHidden = guide === null && !/^(https:|#)/.test(target)
      if (guide !== null) token.attrSet('href', `${guide[1]}${guide[2] ?? ''}`)
    }
    if (isHidden && token.type.startsWith('link_')) token.hidden = true
    if (token.type === 'link_close') isHidden = false
  }
}

const listPage = (base: string): string => {
  const entries = names.map(
    (name) => `<li><a href="${escapeHtml(base)}/guides/${name}">${escapeHtml(guideOf(name).title)}</a></li>`,
  )
  return page(
    'Guides',
    `<main>
<h1>Guides</h1>
<ul>
${entries.join('\n')}
</ul>
<p><a href="${escapeHtml(base)}/">Taskwright</a></p>
</main>`,
  )
}

const guidePage = (base: string, { title, html }: Guide): string =>
  page(
    title,
    `<main>
${html}
<p><a href="${escapeHtml(base)}/guides">All guides</a></p>
</main>`,
  )
