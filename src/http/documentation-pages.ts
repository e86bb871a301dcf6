import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Contract } from '../contract/contract.ts'
import { escapeHtml, iconLink, sendPage, sessionKey } from './pages.ts'
import { documentationContract } from './documentation-contract.ts'
import {
  type Asset,
  contentAsset,
  ownAsset,
  packageAsset,
  scalarAsset,
  serveAssets,
} from './static-assets.ts'

/** Registers Swagger UI at `/docs` and the reference at `/reference`. `base` is the path of PUBLIC_URL. */
export const registerDocumentationPages = async (
  app: FastifyInstance,
  { base, contract }: { readonly base: string; readonly contract: Contract },
): Promise<void> => {
  const assets = {
    contract: contentAsset('openapi.json', Buffer.from(documentationContract(contract, base))),
    style: await ownAsset('documentation.css'),
    swaggerStyle: packageAsset('swagger-ui-dist', 'swagger-ui.css'),
    swagger: packageAsset('swagger-ui-dist', 'swagger-ui-bundle.js'),
    docs: await ownAsset('docs.js'),
    docsOidc: await ownAsset('docs-oidc.js'),
    scalar: scalarAsset(),
    reference: await ownAsset('reference.js'),
  }
  serveAssets(app, Object.values(assets))
  const addressOf = ({ path }: Asset): string => escapeHtml(base + path)

  const docsPage = documentationPage({
    title: 'Taskwright API',
    head: `<link rel="stylesheet" href="${addressOf(assets.swaggerStyle)}">
<link rel="stylesheet" href="${addressOf(assets.style)}">`,
    body: `${bar(base, 'docs')}
<div id="swagger-ui" data-contract="${addressOf(assets.contract)}"></div>
<script src="${addressOf(assets.swagger)}"></script>
<script src="${addressOf(assets.docs)}" type="module"></script>
<script src="${addressOf(assets.docsOidc)}" type="module"></script>`,
  })
  app.get('/docs', (_request, reply) => sendPage(revalidated(reply), docsPage, docsPolicy))

  const referencePage = documentationPage({
    title: 'Taskwright API reference',
    head: `<link rel="stylesheet" href="${addressOf(assets.style)}">`,
    body: `${bar(base, 'reference')}
<div id="reference" data-contract="${addressOf(assets.contract)}"></div>
<script src="${addressOf(assets.reference)}" type="module"></script>
<script src="${addressOf(assets.scalar)}" defer></script>`,
  })
  app.get('/reference', (_request, reply) => sendPage(revalidated(reply), referencePage, referencePolicy))
  for (const path of ['/docs', '/reference'])
    app.get(`${path}/`, (_request, reply) => revalidated(reply).redirect(`${base}${path}`, 308))
}

const revalidated = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-cache')

const commonPolicy =
  "default-src 'none'; script-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Swagger UI sets style attributes and embeds small images.
const docsPolicy = `${commonPolicy}; style-src 'self'`

// Scalar also adds style sheets, whose text depends on its configuration.
const referencePolicy = `${commonPolicy}; style-src 'self' 'unsafe-inline'`

const documentationPage = ({
  title,
  head,
  body,
}: {
  readonly title: string
  readonly head: string
  readonly body: string
}): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
${iconLink}
${head}
<body>
${body}
</body>
</html>
`

/** The top of a page, with links to the others. */
const bar = (base: string, current: 'docs' | 'reference'): string => {
  const link = (path: string, text: string): string =>
    `<a href="${escapeHtml(base)}/${path}"${path === current ? ' aria-current="page"' : ''}>${text}</a>`
  const status =
    current === 'docs' ? `\n<output id="signed-in" data-key="${escapeHtml(sessionKey(base))}"></output>` : ''
  return `<header class="bar">
<nav aria-label="Pages">
${link('', 'Taskwright')}
${link('docs', 'Swagger UI')}
${link('reference', 'Reference')}
${link('guides', 'Guides')}
${link('openapi.yaml', 'openapi.yaml')}
</nav>${status}
</header>`
}
