import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Contract } from '../contract/contract.ts'
import { escapeHtml, iconLink, sendPage, sessionKey } from './pages.ts'
import { documentationContract } from './documentation-contract.ts'
import { type Asset, contentAsset, ownAsset, packageAsset, serveAssets } from './static-assets.ts'

/** Registers Swagger UI at `/docs`. `base` is the path of PUBLIC_URL. */
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
  }
  serveAssets(app, Object.values(assets))
  const addressOf = ({ path }: Asset): string => escapeHtml(base + path)

  const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Taskwright API</title>
${iconLink}
<link rel="stylesheet" href="${addressOf(assets.swaggerStyle)}">
<link rel="stylesheet" href="${addressOf(assets.style)}">
<body>
${bar(base)}
<div id="swagger-ui" data-contract="${addressOf(assets.contract)}"></div>
<script src="${addressOf(assets.swagger)}"></script>
<script src="${addressOf(assets.docs)}" type="module"></script>
<script src="${addressOf(assets.docsOidc)}" type="module"></script>
</body>
</html>
`
  app.get('/docs', (_request, reply) => sendPage(revalidated(reply), page, policy))
  // Until 0.2.0, there was a reference at a path of its own.
  for (const path of ['/docs/', '/reference', '/reference/'])
    app.get(path, (_request, reply) => revalidated(reply).redirect(`${base}/docs`, 308))
}

const revalidated = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-cache')

// Swagger UI sets style attributes and embeds small images.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** The top of the page, with links to the others. */
const bar = (base: string): string => {
  const root = escapeHtml(base)
  return `<header class="bar">
<nav aria-label="Pages">
<a href="${root}/">Taskwright</a>
<a href="${root}/docs" aria-current="page">Swagger UI</a>
<a href="${root}/guides">Guides</a>
<a href="${root}/openapi.yaml">openapi.yaml</a>
</nav>
<output id="signed-in" data-key="${escapeHtml(sessionKey(base))}"></output>
</header>`
}
