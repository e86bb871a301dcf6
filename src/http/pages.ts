import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import type { Contract } from '../contract/contract.ts'
import { retryRules } from '../contract/retries.ts'
import { version } from '../domain/version.ts'
import { isProblemCode, type ProblemCode, problemCodes, problemTypes } from '../problems/catalogue.ts'
import { problems } from '../problems/problems.ts'
import { addVary } from './cors.ts'

interface PageDeps {
  /** The path of PUBLIC_URL. */
  readonly base: string
  readonly publicUrl: string
  readonly contract: Contract
}

/**
 * Registers the start page, the catalogue of problems and the API catalogue. A plugin of its own, so that its hook applies to
 * these routes only.
 */
export const registerPages = async (
  app: FastifyInstance,
  { base, publicUrl, contract }: PageDeps,
): Promise<void> => {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-cache')
  })
  app.get('/', (_request, reply) => sendPage(reply.header('link', rootLinks(publicUrl)), rootPage(base)))
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

const wantsPage = ({ headers }: FastifyRequest): boolean => (headers.accept ?? '').includes('text/html')

const catalogPath = '/.well-known/api-catalog'

const catalogLink = (publicUrl: string): string => `<${publicUrl}${catalogPath}>; rel="api-catalog"`

const rootLinks = (publicUrl: string): string =>
  [
    `<${publicUrl}/openapi.yaml>; rel="service-desc"`,
    `<${publicUrl}/docs>; rel="service-doc"`,
    `<${publicUrl}/reference>; rel="service-doc"`,
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
        'service-doc': [
          { href: `${publicUrl}/docs`, type: 'text/html' },
          { href: `${publicUrl}/reference`, type: 'text/html' },
        ],
        status: [{ href: `${publicUrl}/health/ready`, type: 'application/json' }],
      },
    ],
  })

const pageStyle = `
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
  code { font-size: 0.95em; }
  pre { overflow-x: auto; padding: 0.75rem; background: light-dark(#f3f5f8, #23272f); }
  li { margin: 0.5rem 0; }
  dd { margin: 0.25rem 0 1rem 1rem; }
  table { display: block; overflow-x: auto; }
  th, td { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; }
`

/** The source expression that allows an inline style in a Content Security Policy. */
const hashOf = (style: string): string => `'sha256-${createHash('sha256').update(style).digest('base64')}'`

// data: is for the icon.
const pagePolicy = `default-src 'none'; style-src ${hashOf(pageStyle)}; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`

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

const rootPage = (base: string): string =>
  page(
    'Taskwright',
    `<main>
<h1>Taskwright</h1>
<p>This is the HTTP API of a Taskwright service (version ${version}), which manages tasks that people share in projects, with
comments, attachments, history, notifications and webhooks. It has no user interface of its own: use it from programs, or
work with it in Swagger UI.</p>
<ul>
  <li><a href="${escapeHtml(base)}/docs">Work with the API in Swagger UI</a>: sign in and send requests</li>
  <li><a href="${escapeHtml(base)}/reference">Read the API reference</a>, with samples in many languages</li>
  <li><a href="${escapeHtml(base)}/guides">Read the guides</a>: sign-in, errors, lists, retries, events, uploads and more</li>
  <li>Download the OpenAPI description <a href="${escapeHtml(base)}/openapi.yaml">as YAML</a> or <a href="${escapeHtml(base)}/openapi.json">as JSON</a></li>
  <li><a href="${escapeHtml(base)}/problems">Look up a problem code</a></li>
  <li><a href="${escapeHtml(base)}/health/ready">Check whether the service is ready</a></li>
</ul>
</main>`,
  )

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
<dd><strong>${escapeHtml(title)}.</strong> ${escapeHtml(cause)}<br><strong>What to do:</strong> ${escapeHtml(remedy)}</dd>`
}

const problemPage = (base: string, code: ProblemCode): string => {
  const { status, title, cause, remedy } = problemTypes[code]
  return page(
    title,
    `<main>
<h1>${escapeHtml(title)}</h1>
<p><code>${code}</code>, status ${status}</p>
<h2>Cause</h2>
<p>${escapeHtml(cause)}</p>
<h2>What to do</h2>
<p>${escapeHtml(remedy)}</p>
<p><a href="${escapeHtml(base)}/problems#${code}">All problems</a> · <a href="${escapeHtml(base)}/guides/errors">The guide on errors</a></p>
</main>`,
  )
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
