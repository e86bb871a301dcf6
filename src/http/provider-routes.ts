import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { runAs, type Work } from '../concurrency/work.ts'
import type { Client } from '../domain/activity/audit.ts'
import { networkOf } from '../domain/shared/network.ts'
import { problems } from '../problems/problems.ts'

interface ProviderRequests {
  /** Where a browser goes on to that an identity provider has sent back. @throws Problem */
  readonly complete: (
    client: Client,
    answer: { readonly provider: string; readonly query: string },
  ) => Promise<string>
  /** Ends the sessions that a logout token names. @throws Problem */
  readonly endSessions: (
    client: Client,
    logout: { readonly provider: string; readonly token: string },
  ) => Promise<void>
  /** Counts a refused logout against the network. @throws Problem 429 */
  readonly countRefused: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

interface OfProvider {
  Params: { provider: string }
}

const workOf = ({ ip }: FastifyRequest): Work => ({
  caller: `network ${networkOf(ip)}`,
  isAbandoned: () => false,
  sent: [],
})

const clientOf = ({ ip, headers, id }: FastifyRequest): Client => ({
  address: ip,
  userAgent: headers['user-agent'] ?? null,
  requestId: id,
})

const form = 'application/x-www-form-urlencoded'

/** Bytes. Logout tokens are small. */
const maxForm = 16_384

/**
 * Registers what identity providers call: the address to which they send browsers back, and Back-Channel Logout. Neither is an operation
 * of the contract, since no client calls them; their form is that of OpenID Connect.
 */
export const registerProviderRoutes = async (
  app: FastifyInstance,
  { complete, endSessions, countRefused }: ProviderRequests,
): Promise<void> => {
  // HEAD would use up the code of the provider, and the answer has nothing to read.
  app.get<OfProvider>('/auth/oidc/:provider/callback', { exposeHeadRoute: false }, async (request, reply) => {
    const { params, raw } = request
    const query = new URL(raw.url ?? '', 'http://localhost').search
    const location = await runAs(workOf(request), () =>
      complete(clientOf(request), { provider: params.provider, query }),
    )
    // The code must not get into caches or into the Referer of another page.
    return reply
      .headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
      .redirect(location, 302)
  })

  // The parser of forms is for this route only.
  await app.register(async (route) => {
    // A provider that signs many people out is not to be stopped.
    route.setErrorHandler(async (error, request, reply) => {
      await countRefused(request, reply)
      throw error
    })
    route.removeAllContentTypeParsers()
    route.addContentTypeParser(form, { parseAs: 'string', bodyLimit: maxForm }, (_request, body, done) =>
      done(null, new URLSearchParams(String(body))),
    )
    route.addContentTypeParser('*', async () => {
      throw problems.unsupportedMediaType([form], { accept: form })
    })
    route.post<OfProvider>(
      '/auth/oidc/:provider/backchannel-logout',
      { bodyLimit: maxForm, config: { countsRefusals: true } },
      async (request, reply) => {
        const { body, params } = request
        const tokens = body instanceof URLSearchParams ? body.getAll('logout_token') : []
        const [token, ...others] = tokens
        if (token === undefined || others.length > 0)
          throw problems.invalidRequest('The body must be a form with one logout_token.')
        await runAs(workOf(request), () =>
          endSessions(clientOf(request), { provider: params.provider, token }),
        )
        return reply.header('cache-control', 'no-store').code(200).send()
      },
    )
  })
}
