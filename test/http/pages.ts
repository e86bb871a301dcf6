import { lookUp } from '../../scripts/client/contract-check.ts'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { loadContract } from '../../src/contract/contract.ts'
import { problemTypes } from '../../src/problems/catalogue.ts'
import { proseHtml } from '../../src/http/pages.ts'
import { startService } from '../fixture/service.ts'

/** Discovery of the API from the address of a service: root page, API catalog, contract and problem pages. */

const publicUrl = 'https://tasks.example.com/api'
const service = await startService(t)
const prefixed = await startService(t, { db: service.deps.db, config: { publicUrl } })

const linkSet = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'

/** The addresses that a page links to or loads. */
const addressesIn = (html: string): string[] =>
  [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address = '']) => address)

/** Fetches an address from the service at `url`, which stands in for PUBLIC_URL. */
const follow = async (url: string, address: string, init?: RequestInit) => {
  const response = await fetch(new URL(address.replace('https://tasks.example.com', ''), url), {
    redirect: 'manual',
    ...init,
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

const targetOf = (link: string | null, relation: string): string =>
  new RegExp(`<([^>]+)>; rel="${relation}"`).exec(link ?? '')?.[1] ?? 'no such link'

t.test('the root page', async (t) => {
  const response = await follow(service.url, '/')
  const html = response.text

  t.test('describes the service, and its links work', async (t) => {
    t.equal(response.status, 200)
    t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8')
    t.match(html, /<html lang="en">[\s\S]+<title>Taskwright<\/title>[\s\S]+<main>\s*<h1>Taskwright<\/h1>/)
    t.match(html, /HTTP API of a Taskwright service/)
    const addresses = addressesIn(html).filter((address) => !address.startsWith('data:'))
    const [script = '', ...links] = addresses
    t.match(script, /^\/assets\/\w+\/start\.js$/)
    t.strictSame(links, [
      '/docs#/auth/register',
      '/docs#/auth/login',
      '/docs',
      '/guides',
      '/openapi.yaml',
      '/openapi.json',
      '/problems',
      '/health/ready',
    ])
    for (const address of addresses) t.equal((await follow(service.url, address)).status, 200, address)
  })

  t.test('allows no scripts of others and no framing', async (t) => {
    const policy = response.headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none'; script-src 'self'; connect-src 'self';/)
    t.notMatch(policy, /unsafe|https?:|\*/)
    t.match(policy, /frame-ancestors 'none'/)
    t.notMatch(html, /<script>|\son\w+=/)
  })

  t.test('says that the tab is not signed in, and where Swagger UI keeps its session', async (t) => {
    t.match(html, '<output id="signed-in" data-key="taskwright /docs">Not signed in: ')
    const { text: docs } = await follow(prefixed.url, '/api/docs')
    t.match(docs, 'data-key="taskwright /api/docs"')
    t.match((await follow(prefixed.url, '/api/')).text, 'data-key="taskwright /api/docs"')
  })

  t.test('links to no registration if it is closed', async (t) => {
    const closed = await startService(t, { db: service.deps.db, config: { registration: 'closed' } })
    const { text } = await follow(closed.url, '/')
    t.match(text, 'Not signed in: <a href="/docs#/auth/login">sign in</a> in Swagger UI.')
  })

  t.test('has a viewport for phones', async (t) => {
    t.match(html, '<meta name="viewport" content="width=device-width, initial-scale=1">')
  })

  t.test('has a Link header to the contract, its pages and the catalog, also for HEAD', async (t) => {
    const links =
      '</openapi.yaml>; rel="service-desc", </docs>; rel="service-doc", </.well-known/api-catalog>; rel="api-catalog"'
    t.equal(response.headers.get('link'), links)
    const head = await follow(service.url, '/', { method: 'HEAD' })
    t.equal(head.status, 200)
    t.equal(head.headers.get('link'), links)
    t.equal(head.text, '')
  })
})

t.test('/.well-known/api-catalog', async (t) => {
  const address = '/.well-known/api-catalog'

  t.test('is a link set of the API, and its links have the declared media types', async (t) => {
    const response = await follow(service.url, address)
    t.equal(response.status, 200)
    t.equal(response.headers.get('content-type'), linkSet)
    t.strictSame(JSON.parse(response.text), {
      linkset: [
        { anchor: '/.well-known/api-catalog', item: [{ href: '/' }] },
        {
          anchor: '/',
          'service-desc': [
            { href: '/openapi.yaml', type: 'application/yaml' },
            { href: '/openapi.json', type: 'application/json' },
          ],
          'service-doc': [{ href: '/docs', type: 'text/html' }],
          status: [{ href: '/health/ready', type: 'application/json' }],
        },
      ],
    })
    const types = {
      '/openapi.yaml': 'application/yaml',
      '/openapi.json': 'application/json',
      '/docs': 'text/html',
      '/health/ready': 'application/json',
    }
    for (const [address, type] of Object.entries(types)) {
      const linked = await follow(service.url, address)
      t.equal(linked.status, 200, address)
      t.equal(linked.headers.get('content-type')?.split(';')[0], type)
    }
  })

  t.test('HEAD has its Link relation (RFC 9727)', async (t) => {
    const head = await follow(service.url, address, { method: 'HEAD' })
    t.equal(head.status, 200)
    t.equal(head.headers.get('content-type'), linkSet)
    t.equal(head.headers.get('link'), '</.well-known/api-catalog>; rel="api-catalog"')
  })

  t.test('405 with Allow for another method', async (t) => {
    const refused = await follow(service.url, address, { method: 'POST' })
    t.equal(refused.status, 405)
    t.equal(refused.headers.get('allow'), 'GET, HEAD')
  })
})

t.test('/openapi.yaml is byte-identical to the file in the repository', async (t) => {
  const file = await readFile(new URL('../../openapi.yaml', import.meta.url))
  for (const one of [service, prefixed]) {
    const { status, body } = await one.call('getContract')
    t.equal(status, 200)
    t.ok(file.equals(body as Uint8Array))
  }
})

t.test('causes and remedies of problems are sentences, titles are phrases', async (t) => {
  for (const [code, { title, cause, remedy }] of Object.entries(problemTypes)) {
    t.match(title, /^[A-Z][^.]*[^.]$/, code)
    for (const text of [cause, remedy]) t.match(text, /^[A-Z][^]*\.$/, code)
  }
})

t.test('the guides', async (t) => {
  for (const { url, base } of [
    { url: service.url, base: '' },
    { url: prefixed.url, base: '/api' },
  ]) {
    const { text: list } = await follow(url, `${base}/guides`)
    const pages = addressesIn(list).filter((address) => address.startsWith(`${base}/guides/`))
    t.ok(pages.length > 10)
    const texts = new Map<string, string>()
    for (const page of pages) texts.set(page, (await follow(url, page)).text)
    t.match(texts.get(`${base}/guides/errors`), /<h1 id="errors">Errors<\/h1>/)
    for (const [page, text] of texts) {
      const links = [...text.matchAll(/<a href="([^"]+)"/g)].map(([, href = '']) => href)
      for (const link of links.filter((one) => !one.startsWith('https:'))) {
        const target = new URL(link, `${url}${page}`)
        const found = texts.get(target.pathname) ?? (await follow(url, target.pathname)).text
        if (target.hash !== '') t.match(found, `id="${target.hash.slice(1)}"`, `${page}: ${link}`)
        else t.match(found, '<h1', `${page}: ${link}`)
      }
    }
  }
})

t.test('/problems lists the problem codes of the contract', async (t) => {
  const forPrograms = await follow(service.url, '/problems')
  t.equal(forPrograms.headers.get('vary'), 'Accept')
  const { items } = JSON.parse(forPrograms.text) as { readonly items: readonly { readonly code: string }[] }
  t.strictSame(Object.fromEntries(items.map(({ code, ...type }) => [code, type])), problemTypes)
  const { 'x-extensible-enum': codes } = lookUp(['components', 'schemas', 'ProblemCode'])?.node ?? {}
  t.strictSame(codes, Object.keys(problemTypes))

  const forPeople = await follow(service.url, '/problems', { headers: { accept: 'text/html' } })
  t.equal(forPeople.headers.get('content-type'), 'text/html; charset=utf-8')
  for (const [code, { status, title }] of Object.entries(problemTypes)) {
    t.match(forPeople.text, `<dt id="${code}"><a href="/problems/${code}">`)
    t.match(forPeople.text, `<code>${code}</code></a>, status ${status}`)
    t.match(forPeople.text, title)
  }
})

t.test('/problems shows which operations can be retried', async (t) => {
  const { text } = await follow(service.url, '/problems', { headers: { accept: 'text/html' } })
  const rowOf = (operation: string) =>
    text.split('\n').find((line) => line.includes(`<code>${operation}</code>`))
  for (const { method, path } of loadContract().operations.values()) t.ok(rowOf(`${method} ${path}`))
  t.match(rowOf('POST /tasks'), 'with the same Idempotency-Key')
  t.match(rowOf('POST /auth/register'), 'returns 409 if the first request succeeded')
  t.match(rowOf('GET /tasks'), '<td>yes, after Retry-After</td><td>yes</td>')
})

t.test('/problems/<code>', async (t) => {
  for (const [code, { status, title, cause, remedy }] of Object.entries(problemTypes)) {
    t.test(code, async (t) => {
      const forPrograms = await follow(service.url, `/problems/${code}`)
      t.equal(forPrograms.status, 200)
      t.equal(forPrograms.headers.get('vary'), 'Accept')
      t.strictSame(JSON.parse(forPrograms.text), { code, status, title, cause, remedy })
      const forPeople = await follow(service.url, `/problems/${code}`, {
        headers: { accept: 'text/html,*/*;q=0.8' },
      })
      t.equal(forPeople.headers.get('content-type'), 'text/html; charset=utf-8')
      t.match(forPeople.headers.get('content-security-policy'), "default-src 'none'")
      t.match(forPeople.text, new RegExp(`<code>${code}</code>, status ${status}`))
      for (const text of [title, cause, remedy]) t.match(forPeople.text, proseHtml(text))
      t.match(forPeople.text, `href="/problems#${code}"`)
      t.notMatch(forPeople.text, '`')
    })
  }

  t.test('404 for an unknown code', async (t) => {
    for (const code of ['nonsense', '__proto__', 'constructor', 'toString', '%3Cscript%3E'])
      for (const headers of [{}, { accept: 'text/html' }])
        t.equal((await follow(service.url, `/problems/${code}`, { headers })).status, 404, code)
  })
})

t.test('under the path of PUBLIC_URL', async (t) => {
  t.test('the root page is served with and without a trailing slash, and its links work', async (t) => {
    for (const address of ['/api/', '/api', '/api?from=mail']) {
      const response = await follow(prefixed.url, address)
      t.equal(response.status, 200, address)
      const addresses = addressesIn(response.text).filter((one) => !one.startsWith('data:'))
      t.ok(addresses.length >= 4)
      for (const one of addresses) {
        t.match(one, /^\/api\//)
        t.equal((await follow(prefixed.url, one)).status, 200, one)
      }
    }
  })

  t.test('404 for a path that only starts with the same characters', async (t) => {
    t.equal((await follow(prefixed.url, '/apidocs')).status, 404)
  })

  t.test('links in headers and in the catalog start with PUBLIC_URL', async (t) => {
    const link = (await follow(prefixed.url, '/api/')).headers.get('link')
    t.equal(targetOf(link, 'service-desc'), `${publicUrl}/openapi.yaml`)
    t.equal(targetOf(link, 'service-doc'), `${publicUrl}/docs`)
    const catalog = await follow(prefixed.url, targetOf(link, 'api-catalog'))
    t.equal(catalog.headers.get('content-type'), linkSet)
    t.match(catalog.text, `{"anchor":"${publicUrl}/"`)
    for (const [, address = ''] of catalog.text.matchAll(/"href":"([^"]+)"/g)) {
      t.match(address, /^https:\/\/tasks\.example\.com\/api\//)
      t.equal((await follow(prefixed.url, address)).status, 200, address)
    }
  })
})
