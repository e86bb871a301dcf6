import type { FastifyInstance } from 'fastify'
import { runAs } from '../concurrency/work.ts'
import { networkOf } from '../domain/network.ts'

interface OidcRedirects {
  /** Where a browser goes on to that an identity provider has sent back. @throws Problem */
  readonly complete: (answer: {
    readonly provider: string
    readonly query: string
    readonly requestId: string
  }) => Promise<string>
}

/**
 * Registers the address to which identity providers send browsers back. It is no operation of the contract: only browsers come to it,
 * with parameters that each provider chooses.
 */
export const registerOidcRedirects = (app: FastifyInstance, { complete }: OidcRedirects): void => {
  app.get<{ Params: { provider: string } }>('/auth/oidc/:provider/callback', async (request, reply) => {
    const { params, id, ip, raw } = request
    const query = new URL(raw.url ?? '', 'http://localhost').search
    const work = { caller: `network ${networkOf(ip)}`, isAbandoned: () => false, sent: [] }
    const location = await runAs(work, () => complete({ provider: params.provider, query, requestId: id }))
    // The code must not get into caches or into the Referer of another page.
    return reply
      .headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
      .redirect(location, 302)
  })
}
