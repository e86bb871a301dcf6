import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Contract } from '../contract/contract.ts'
import { retryRules } from '../contract/retries.ts'
import { version } from '../domain/shared/version.ts'
import { isProblemCode, type ProblemCode, problemCodes, problemTypes } from '../problems/catalogue.ts'
import { problems } from '../problems/problems.ts'
import { addVary } from './cors.ts'
import { type Asset, ownAsset, serveAssets } from './static-assets.ts'

interface PageDeps {
  /** The path of PUBLIC_URL. */
  readonly base: string
  readonly publicUrl: string
  readonly contract: Contract
  readonly isRegistrationOpen: boolean
}

/**
 * Registers the start page, the catalogue of problems and the API catalogue. A plugin of its own, so that its hook applies to
 * these routes only.
 */
export const registerPages = async (
  app: FastifyInstance,
  { base, publicUrl, contract, isRegistrationOpen }: PageDeps,
): Promise<void> => {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-cache')
  })
  const script = await ownAsset('start.js')
  serveAssets(app, [script])
  app.get('/', (_request, reply) =>
    sendPage(
      reply.header('link', rootLinks(publicUrl)),
      rootPage(base, script, isRegistrationOpen),
      scriptedPagePolicy,
    ),
  )
  // A Buffer, since Fastify would add a charset to the type of a string, and this media type has none.
  const catalog = Buffer.from(linkSet(publicUrl))
  app.get(catalogPath, (_request, reply) =>
    reply.header('link', catalogLink(publicUrl)).type(catalogType).send(catalog),
  )
  app.get('/problems', (request, reply) => {
    addVary(reply, 'Accept')
    return wantsPage(request)
      ? sendPage(reply, problemsPage(base, contract))
      : reply.send({ items: problemCodes.map((code) => ({ code, ...problemTypes[code] })) })
  })
  app.get<{ Params: { code: string } }>('/problems/:code', (request, reply) => {
    const { code } = request.params
    if (!isProblemCode(code)) throw problems.notFound()
    addVary(reply, 'Accept')
    return wantsPage(request)
      ? sendPage(reply, problemPage(base, code))
      : reply.send({ code, ...problemTypes[code] })
  })
}

/**
 * The key in sessionStorage under which Swagger UI keeps the session of the tab. Services under different paths of one origin must not
 * share tokens.
 */
export const sessionKey = (base: string): string => `taskwright ${base}/docs`

const wantsPage = ({ headers }: FastifyRequest): boolean => (headers.accept ?? '').includes('text/html')

const catalogPath = '/.well-known/api-catalog'

const catalogLink = (publicUrl: string): string => `<${publicUrl}${catalogPath}>; rel="api-catalog"`

const rootLinks = (publicUrl: string): string =>
  [
    `<${publicUrl}/openapi.yaml>; rel="service-desc"`,
    `<${publicUrl}/docs>; rel="service-doc"`,
    catalogLink(publicUrl),
  ].join(', ')

/** RFC 9727, section 4.2. */
const catalogType = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'

/** A link set (RFC 9264) with the relations of RFC 8631. */
const linkSet = (publicUrl: string): string =>
  JSON.stringify({
    linkset: [
      { anchor: `${publicUrl}${catalogPath}`, item: [{ href: `${publicUrl}/` }] },
      {
        anchor: `${publicUrl}/`,
        'service-desc': [
          { href: `${publicUrl}/openapi.yaml`, type: 'application/yaml' },
          { href: `${publicUrl}/openapi.json`, type: 'application/json' },
        ],
        'service-doc': [{ href: `${publicUrl}/docs`, type: 'text/html' }],
        status: [{ href: `${publicUrl}/health/ready`, type: 'application/json' }],
      },
    ],
  })

const pageStyle = readFileSync(new URL('assets/page.css', import.meta.url), 'utf8')

/** The source expression that allows an inline style in a Content Security Policy. */
const hashOf = (style: string): string => `'sha256-${createHash('sha256').update(style).digest('base64')}'`

// data: is for the icon.
const policyWith = (scripts: string): string =>
  `default-src 'none'; ${scripts}style-src ${hashOf(pageStyle)}; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`

const pagePolicy = policyWith('')

/** The policy of a page with scripts of the service, which can send requests to it. */
export const scriptedPagePolicy = policyWith("script-src 'self'; connect-src 'self'; ")

const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3.5" fill="#1f5fb4"/><path d="M4 8.4l2.7 2.7L12 5.2" fill="none" stroke="#fff" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></svg>'

/** Inlined to save a request. */
export const iconLink = `<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(icon)}">`

export const sendPage = (reply: FastifyReply, html: string, policy = pagePolicy): FastifyReply =>
  reply.header('content-security-policy', policy).type('text/html; charset=utf-8').send(html)

export const page = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
${iconLink}
<style>${pageStyle}</style>
${body}
</html>
`

const rootPage = (base: string, script: Asset, isRegistrationOpen: boolean): string => {
  const root = escapeHtml(base)
  const register = isRegistrationOpen ? `<a href="${root}/docs#/auth/register">register</a> or ` : ''
  return page(
    'Taskwright',
    `<script type="module" src="${root}${script.path}"></script>
<main>
<h1>Taskwright</h1>
<p>This is the HTTP API of a Taskwright service (version ${version}), which manages tasks that people share in projects, with
comments, attachments, history, notifications and webhooks. It has no user interface of its own: use it from programs, or
work with it in Swagger UI.</p>
<p><output id="signed-in" data-key="${escapeHtml(sessionKey(base))}">Not signed in: ${register}<a href="${root}/docs#/auth/login">sign in</a> in Swagger UI.</output></p>
<ul class="ways">
  <li><a href="${root}/docs">Work with the API in Swagger UI</a> Sign in and send requests.</li>
  <li><a href="${root}/guides">Read the guides</a> Sign-in, errors, lists, retries, events, uploads and more.</li>
</ul>
<ul>
  <li>Download the OpenAPI description <a href="${root}/openapi.yaml">as YAML</a> or <a href="${root}/openapi.json">as JSON</a></li>
  <li><a href="${root}/problems">Look up a problem code</a></li>
  <li><a href="${root}/health/ready">Check whether the service is ready</a></li>
</ul>
</main>`,
  )
}

/** Lists all problems with their texts, so that the page can be searched for an error message. */
const problemsPage = (base: string, contract: Contract): string =>
  page(
    'Problems',
    `<main>
<h1>Problems</h1>
<p>Every error response (status 400 or higher) is a problem document (RFC 9457). Its <code>code</code> is one of these.</p>
<dl>
${problemCodes.map((code) => problemEntry(base, code)).join('\n')}
</dl>
<h2 id="retries">Retries</h2>
<p>A 4xx, 503 or 507 means that nothing was done. After 500, 504 or a lost connection, that is unknown.</p>
${retryTable(contract)}
<p><a href="${escapeHtml(base)}/guides/errors">The guide on errors</a> · <a href="${escapeHtml(base)}/">Taskwright</a></p>
</main>`,
  )

const retryTable = (contract: Contract): string => {
  const rows = retryRules(contract).map(({ operation: { method, path }, ...rule }) => {
    const cells = [rule.on409, rule.on429, rule.on503, rule.onUnknown].map(
      (text) => `<td>${text ?? '–'}</td>`,
    )
    return `<tr><th scope="row"><code>${method} ${escapeHtml(path)}</code></th>${cells.join('')}</tr>`
  })
  return `<table>
<tr><th>Operation</th><th>409</th><th>429</th><th>503</th><th>500, 504, lost connection</th></tr>
${rows.join('\n')}
</table>`
}

const problemEntry = (base: string, code: ProblemCode): string => {
  const { status, title, cause, remedy } = problemTypes[code]
  return `<dt id="${code}"><a href="${escapeHtml(base)}/problems/${code}"><code>${code}</code></a>, status ${status}</dt>
<dd><strong>${escapeHtml(title)}.</strong> ${proseHtml(cause)}<br><strong>What to do:</strong> ${proseHtml(remedy)}</dd>`
}

const problemPage = (base: string, code: ProblemCode): string => {
  const { status, title, cause, remedy } = problemTypes[code]
  return page(
    title,
    `<main>
<h1>${escapeHtml(title)}</h1>
<p><code>${code}</code>, status ${status}</p>
<h2>Cause</h2>
<p>${proseHtml(cause)}</p>
<h2>What to do</h2>
<p>${proseHtml(remedy)}</p>
<p><a href="${escapeHtml(base)}/problems#${code}">All problems</a> · <a href="${escapeHtml(base)}/guides/errors">The guide on errors</a></p>
</main>`,
  )
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** A text of the catalogue, in which backticks enclose code. */
export const proseHtml = (text: string): string =>
  escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
