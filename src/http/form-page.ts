import type { FastifyInstance, FastifyReply } from 'fastify'
import { readFile } from 'node:fs/promises'
import { escapeHtml, page, scriptedPagePolicy, sendPage } from './pages.ts'

/** A page that is opened by a link in an email. */
interface FormPage {
  /** The path of PUBLIC_URL. */
  readonly base: string
  /** The page is at `/<name>`, its script in `assets/<name>.js`. */
  readonly name: string
  readonly title: string
  /** The HTML of the form. Hidden until the script has found a token. */
  readonly form: string
}

/**
 * Registers a page whose script takes a token from the URL's fragment and calls an operation with it. Browsers do not send
 * the fragment, so the token reaches no log.
 */
export const registerFormPage = async (
  app: FastifyInstance,
  { base, name, title, form }: FormPage,
): Promise<void> => {
  const [script, sharedScript] = await Promise.all(
    [`${name}.js`, 'form.js'].map((file) => readFile(new URL(`assets/${file}`, import.meta.url))),
  )
  const html = formPage(title, `${base}/${name}/script.js`, form)
  app.get(`/${name}`, (_request, reply) =>
    sendPage(
      reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }),
      html,
      scriptedPagePolicy,
    ),
  )
  const sendScript = (reply: FastifyReply, text: Buffer | undefined): FastifyReply =>
    reply.header('cache-control', 'no-cache').type('text/javascript; charset=utf-8').send(text)
  app.get(`/${name}/script.js`, (_request, reply) => sendScript(reply, script))
  app.get(`/${name}/form.js`, (_request, reply) => sendScript(reply, sharedScript))
}

const formPage = (title: string, script: string, form: string): string =>
  page(
    title,
    `<script type="module" src="${escapeHtml(script)}"></script>
<main>
<h1>${escapeHtml(title)}</h1>
<form method="post" hidden>
${form}
</form>
<p id="outcome" role="status"></p>
<noscript><p>This page needs JavaScript.</p></noscript>
</main>`,
  )
