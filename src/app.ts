import fastifyJwt from '@fastify/jwt'
import fastifyMultipart from '@fastify/multipart'
import Fastify, { type FastifyInstance } from 'fastify'
import { createAccessTokens, accessTokenOptions } from './auth/access-tokens.ts'
import { createAuthenticate } from './auth/authenticate.ts'
import { deriveKey } from './auth/keys.ts'
import type { PasswordHasher } from './auth/passwords.ts'
import { cacheSessions } from './auth/sessions.ts'
import type { Config } from './config.ts'
import { loadContract } from './contract.ts'
import type { Database } from './db/client.ts'
import { newId } from './db/ids.ts'
import { attachmentHandlers } from './handlers/attachments.ts'
import { authHandlers } from './handlers/auth.ts'
import { systemHandlers } from './handlers/system.ts'
import { tagHandlers } from './handlers/tags.ts'
import { taskTagHandlers } from './handlers/task-tags.ts'
import { taskHandlers } from './handlers/tasks.ts'
import { userHandlers } from './handlers/users.ts'
import type { Handlers } from './operation.ts'
import { refuseWhileClosing, requireHost, setCommonHeaders } from './http/connections.ts'
import { registerPages } from './http/pages.ts'
import { createPaging } from './http/paging.ts'
import { refuseUnreadable, sendProblem } from './http/problem-answers.ts'
import { answerUnknownRoutes, readBodies, registerOperations } from './http/routes.ts'
import { withoutBase } from './http/url.ts'
import { largestBody, problemOf } from './problems.ts'
import type { Storage } from './storage/storage.ts'
import { startSweeper, uploadTimeout } from './sweeper.ts'

/** What an app is made of; a test passes its own. */
export interface AppDeps {
  readonly config: Pick<
    Config,
    'registration' | 'publicUrl' | 'trustProxy' | 'logLevel' | 'attachmentMaxBytes'
  >
  /** Signs tokens; at least 32 bytes. */
  readonly secret: Buffer
  readonly db: Database
  readonly storage: Storage
  readonly passwords: PasswordHasher
}

/** Builds the service, ready to listen or to be asked by `inject`. Closing it leaves the database open. */
export const buildApp = async ({
  config,
  secret,
  db,
  storage,
  passwords,
}: AppDeps): Promise<FastifyInstance> => {
  const contract = loadContract()
  const publicUrl = config.publicUrl ?? ''
  const base = config.publicUrl === null ? '' : new URL(config.publicUrl).pathname.replace(/\/$/, '')

  const app = Fastify({
    logger: { level: config.logLevel },
    bodyLimit: largestBody,
    requestTimeout: uploadTimeout,
    // Else Node keeps the first of two Authorization or Content-Type headers, where a proxy may have read the other.
    // And its own answer to a request without Host would be no problem document.
    http: { joinDuplicateHeaders: true, requireHostHeader: false },
    trustProxy: config.trustProxy.length > 0 ? [...config.trustProxy] : false,
    genReqId: newId,
    // Ours is a problem, like every other refusal.
    return503OnClosing: false,
    rewriteUrl: ({ url = '/' }) => withoutBase(url, base),
    routerOptions: { maxParamLength: 1_024 },
    frameworkErrors: (error, request, reply) => sendProblem(problemOf(error), publicUrl, request, reply),
    clientErrorHandler: (error, socket) => refuseUnreadable(error, publicUrl, socket),
  })

  app.setErrorHandler((error, request, reply) => sendProblem(problemOf(error), publicUrl, request, reply))
  setCommonHeaders(app)
  requireHost(app)
  refuseWhileClosing(app)
  answerUnknownRoutes(app)
  readBodies(app)

  await app.register(fastifyMultipart, { throwFileSizeLimit: false })
  await app.register(fastifyJwt, accessTokenOptions(secret))

  const accessTokens = createAccessTokens(app.jwt)
  const sessions = cacheSessions(db)
  const paging = createPaging(deriveKey(secret, 'cursor'), publicUrl)
  const sweeper = startSweeper({ db, storage, log: app.log })
  app.addHook('onClose', () => sweeper.close())

  const { attachmentMaxBytes } = config
  const handlers = {
    ...authHandlers({
      db,
      accessTokens,
      passwords,
      sessions,
      isRegistrationOpen: config.registration === 'open',
    }),
    ...userHandlers({ db, paging, passwords, sessions, sweeper }),
    ...taskHandlers({ db, paging, sweeper }),
    ...attachmentHandlers({ db, paging, storage, sweeper, attachmentMaxBytes }),
    ...tagHandlers({ db, paging }),
    ...taskTagHandlers({ db, paging }),
    ...systemHandlers({ contract, db, storage }),
  } satisfies Handlers

  await registerOperations(app, contract, handlers, {
    authenticate: createAuthenticate(accessTokens, sessions),
    idempotencyKey: deriveKey(secret, 'idempotency'),
    publicUrl,
    attachmentMaxBytes,
  })
  await registerPages(app, { base, publicUrl })
  return app
}
