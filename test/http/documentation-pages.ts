import { readFile } from 'node:fs/promises'
import t from 'tap'
import { asObject, loadContract } from '../../src/contract/contract.ts'
import { documentationContract } from '../../src/http/documentation-contract.ts'
import { operations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** Swagger UI: its page and assets. */

const service = await startService(t)
const prefixed = await startService(t, {
  db: service.deps.db,
  config: { publicUrl: 'https://tasks.example.com/api' },
})

const load = async (address: string, headers: Readonly<Record<string, string>> = {}, url = service.url) => {
  const response = await fetch(new URL(address, url), { redirect: 'manual', headers })
  return {
    status: response.status,
    headers: response.headers,
    content: Buffer.from(await response.arrayBuffer()),
  }
}

const textOf = async (address: string, url = service.url): Promise<string> =>
  String((await load(address, {}, url)).content)

/** The URLs of everything that a page loads. Links are not included. */
const assetsOf = (html: string): readonly string[] =>
  [...html.matchAll(/(?:<link rel="stylesheet" href|src|data-contract)="([^"]+)"/g)].map(
    ([, address = '']) => address,
  )

t.test('/docs', async (t) => {
  const { status, headers, content } = await load('/docs')
  const html = String(content)
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(headers.get('cache-control'), 'no-cache')

  t.test('loads scripts of the service only', async (t) => {
    const policy = headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none'; script-src 'self';/)
    t.match(policy, /; connect-src 'self';/)
    t.match(policy, /; frame-ancestors 'none';/)
    t.notMatch(policy, /unsafe-eval|https?:|\*/)
    t.notMatch(html, /<script>|\son\w+=|https?:\/\/(?!www\.w3\.org\/2000\/svg)/)
  })

  t.test('has a language, a title, navigation and an icon', async (t) => {
    t.match(html, '<html lang="en">')
    t.match(html, /<title>Taskwright API/)
    t.match(html, /<header[\s\S]+<nav aria-label=/)
    t.match(html, /<link rel="icon" type="image\/svg\+xml" href="data:/)
  })

  t.test('loads only assets that exist', async (t) => {
    const assets = assetsOf(html)
    t.ok(assets.length >= 4)
    for (const asset of assets) {
      t.match(asset, /^\/assets\/[\w.]+\/[\w-]+\.(css|js|json)$/)
      t.equal((await load(asset)).status, 200, asset)
    }
  })

  t.test('308 from the path with a trailing slash, and from that of the former reference', async (t) => {
    for (const path of ['/docs/', '/reference', '/reference/']) {
      const moved = await load(path)
      t.equal(moved.status, 308)
      t.equal(moved.headers.get('location'), '/docs')
    }
  })

  t.test('is served under the path of PUBLIC_URL, with its assets', async (t) => {
    const assets = assetsOf(await textOf('/api/docs', prefixed.url))
    t.ok(assets.length >= 4)
    for (const asset of assets) {
      t.match(asset, /^\/api\/assets\//)
      t.equal((await load(asset, {}, prefixed.url)).status, 200, asset)
    }
    t.equal((await load('/api/reference', {}, prefixed.url)).headers.get('location'), '/api/docs')
  })
})

t.test('assets of the page', async (t) => {
  const assets = assetsOf(await textOf('/docs'))
  for (const asset of assets) {
    t.test(asset.replace(/.*\//, ''), async (t) => {
      const plain = await load(asset, { 'accept-encoding': 'identity' })
      t.equal(plain.headers.get('content-encoding'), null)
      const { status, headers, content } = await load(asset, { 'accept-encoding': 'gzip' })
      t.equal(status, 200)
      t.equal(headers.get('content-encoding'), 'gzip')
      t.equal(headers.get('vary'), 'Accept-Encoding')
      t.equal(headers.get('cache-control'), 'public, max-age=31536000, immutable')
      t.ok(content.equals(plain.content), 'the same content')
      if (content.length > 20_000)
        t.ok(Number(headers.get('content-length')) < content.length / 3, 'compressed to less than a third')

      const etag = headers.get('etag') ?? ''
      t.not(etag, plain.headers.get('etag'), 'each encoding has its own ETag')
      const same = await load(asset, { 'accept-encoding': 'gzip', 'if-none-match': etag })
      t.equal(same.status, 304)
      t.equal(same.headers.get('etag'), etag)
      t.equal(same.headers.get('vary'), 'Accept-Encoding')
      t.equal(same.content.length, 0)
    })
  }

  t.test('are compressed if the client accepts gzip', async (t) => {
    const [asset = ''] = assets
    for (const [accepted, sent] of [
      ['gzip, deflate, br, zstd', 'gzip'],
      ['*', 'gzip'],
      ['gzip;q=0, br', null],
      ['deflate', null],
    ] as const) {
      const { headers } = await load(asset, { 'accept-encoding': accepted })
      t.equal(headers.get('content-encoding'), sent, accepted)
    }
  })

  t.test('are sent whole, even for a Range', async (t) => {
    const { status, headers } = await load(assets[0] ?? '', { range: 'bytes=0-9' })
    t.equal(status, 200)
    t.equal(headers.get('accept-ranges'), null)
  })

  t.test('404 for other files of their packages', async (t) => {
    const folder = /.*\//.exec(assets.find((asset) => asset.endsWith('swagger-ui.css')) ?? '')?.[0] ?? ''
    for (const name of ['package.json', 'index.html', 'swagger-ui.css.map', '..%2fpackage.json', ''])
      t.equal((await load(`${folder}${name}`)).status, 404, name)
  })
})

t.test('the contract on the page', async (t) => {
  interface Described {
    readonly servers: readonly { readonly url: string }[]
    readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly description: string }>>>>
  }
  const contractOf = async (prefix: string, url: string): Promise<Described> => {
    const asset =
      assetsOf(await textOf(`${prefix}/docs`, url)).find((address) => address.endsWith('.json')) ?? ''
    return JSON.parse(await textOf(asset, url)) as Described
  }
  const contract = await contractOf('', service.url)

  t.test('has the permission and scope in each description', async (t) => {
    for (const { path, method, scope, permission } of operations) {
      const { description = '' } = contract.paths[path]?.[method.toLowerCase()] ?? {}
      if (scope === 'none') t.match(description, /\*\*Access:\*\* anyone/)
      else
        t.match(
          description,
          new RegExp(`\\n\\n\\*\\*Permission:\\*\\* \`${permission}\` \\(.+\\)\\. \\*\\*Scope:\\*\\* `),
        )
    }
    const { description } = contract.paths['/tasks']?.post ?? {}
    t.match(description, '**Permission:** `task.create` (signed in). **Scope:** `tasks:write`.')
    const { description: uploadsDescription } = contract.paths['/uploads/{upload_id}']?.patch ?? {}
    t.match(uploadsDescription, '**Scope:** `attachments:write` or `imports:write`.')
  })

  t.test('has the path prefix of the service as its server', async (t) => {
    t.strictSame(contract.servers, [{ url: '/' }])
    t.strictSame((await contractOf('/api', prefixed.url)).servers, [{ url: '/api' }])
  })

  t.test('does not change the contract at /openapi.yaml', async (t) => {
    const file = await readFile(new URL('../../openapi.yaml', import.meta.url), 'utf8')
    t.equal(await textOf('/openapi.yaml'), file)
  })
})

t.test('a preview says so first in its description', async (t) => {
  const contract = loadContract()
  const previews = new Map(
    [...contract.operations].map(([id, operation]) => [id, { ...operation, isPreview: id === 'listTags' }]),
  )
  const shown = asObject(JSON.parse(documentationContract({ ...contract, operations: previews }, '')))
  const { get: list, post: create } = asObject(asObject(shown.paths)['/tags'])
  t.match(asObject(list).description, /^\*\*Preview:\*\* a minor version may change or remove this operation/)
  t.notMatch(asObject(create).description, 'Preview')
})
