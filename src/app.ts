import fastifyMultipart from '@fastify/multipart'
import { hostname } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance, LogController } from 'fastify'
import { createAccessTokens } from './auth/access-tokens.ts'
import { limitAuditedFailures } from './auth/audited-failures.ts'
import { createAttemptKeys } from './auth/attempts.ts'
import {
  createAuthenticate,
  createAuthenticateFeed,
  createAuthenticateLink,
  createExpiryOf,
} from './http/authenticate.ts'
import { createCheckPassword, createUsablePassword } from './services/accounts/check-password.ts'
import { createApiTokens } from './services/accounts/api-tokens.ts'
import { createInvitations } from './services/projects/invitations.ts'
import { createContext } from './services/shared/context.ts'
import { createOidc } from './services/accounts/oidc.ts'
import { createPasswords } from './services/accounts/passwords.ts'
import { createCheckReadiness, type OwnDatabase } from './services/upkeep/readiness.ts'
import { createReauthenticate } from './services/accounts/reauthenticate.ts'
import { createSecondFactors } from './services/accounts/second-factor.ts'
import { createSessions } from './services/accounts/sessions.ts'
import { createSignIn } from './services/accounts/sign-in.ts'
import { createUsers } from './services/accounts/users.ts'
import { createWebhooks } from './services/activity/webhooks.ts'
import { cacheCredentials } from './auth/credentials.ts'
import { deriveKeys, type Secrets } from './auth/keys.ts'
import type { PasswordHasher } from './auth/passwords.ts'
import { authProblem } from './auth/problems.ts'
import type { Config } from './config/config.ts'
import { version } from './domain/shared/version.ts'
import { loadContract } from './contract/contract.ts'
import { auditRead } from './db/activity/audit.ts'
import type { Database } from './db/engine/client.ts'
import { createDatabaseClock } from './db/shared/database-clock.ts'
import { TemporaryFailure } from './db/engine/errors.ts'
import { databaseProblem } from './db/shared/problems.ts'
import { apiTokenHandlers } from './handlers/api-tokens.ts'
import { attachmentHandlers } from './handlers/attachments.ts'
import { auditHandlers } from './handlers/audit.ts'
import { authHandlers } from './handlers/auth.ts'
import { memberHandlers } from './handlers/members.ts'
import { assistantHandlers } from './handlers/assistants.ts'
import { eventHandlers } from './handlers/events.ts'
import { feedHandlers } from './handlers/feeds.ts'
import { createReadCalendar, type FeedLimits } from './services/interchange/feed-calendars.ts'
import { createFeeds } from './services/interchange/feeds.ts'
import { createFeedLinks } from './auth/feed-links.ts'
import { createLinks } from './auth/file-links.ts'
import { invitationHandlers } from './handlers/invitations.ts'
import { notificationHandlers } from './handlers/notifications.ts'
import { oidcHandlers } from './handlers/oidc.ts'
import { passwordHandlers } from './handlers/passwords.ts'
import { secondFactorHandlers } from './handlers/second-factor.ts'
import { commentHandlers } from './handlers/comments.ts'
import { exportHandlers } from './handlers/exports.ts'
import { importHandlers } from './handlers/imports.ts'
import { reminderHandlers } from './handlers/reminders.ts'
import { sectionHandlers } from './handlers/sections.ts'
import { relationHandlers } from './handlers/relations.ts'
import { sessionHandlers } from './handlers/sessions.ts'
import { systemHandlers } from './handlers/system.ts'
import { projectHandlers } from './handlers/projects.ts'
import { tagHandlers } from './handlers/tags.ts'
import { taskTagHandlers } from './handlers/task-tags.ts'
import { taskBatchHandlers } from './handlers/task-batch.ts'
import { taskHandlers } from './handlers/tasks.ts'
import { teamHandlers } from './handlers/teams.ts'
import { thumbnailHandlers } from './handlers/thumbnails.ts'
import { recurrenceHandlers } from './handlers/recurrence.ts'
import { trashHandlers } from './handlers/trash.ts'
import { uploadHandlers } from './handlers/uploads.ts'
import { userHandlers } from './handlers/users.ts'
import { webhookHandlers } from './handlers/webhooks.ts'
import { imageProblem } from './images/problems.ts'
import type { Thumbnailer } from './images/thumbnailer.ts'
import type { LogStream } from './observe/log.ts'
import type { OpenMailer } from './mail/mailer.ts'
import type { Handlers } from './handlers/handlers.ts'
import {
  closeGracefully,
  awaitOnClose,
  maxRequests,
  refuseExpectations,
  requireHost,
  serializePipelining,
  shedLoad,
} from './http/connections.ts'
import { delayContinue, maxBodyBytes } from './http/body.ts'
import { maxUnread, shareAmongCallers } from './http/caller-shares.ts'
import { corsHeaders, enableCors } from './http/cors.ts'
import { createDispatcher } from './http/dispatch.ts'
import { overrideMethod } from './http/method-override.ts'
import { registerDocumentationPages } from './http/documentation-pages.ts'
import { registerGuides } from './http/guides.ts'
import { registerPages } from './http/pages.ts'
import { createPaging } from './http/paging.ts'
import { registerProviderRoutes } from './http/provider-routes.ts'
import { registerEmailChangeUndoPage } from './http/email-change-undo-page.ts'
import { registerInvitationPage } from './http/invitation-page.ts'
import { registerPasswordResetPage } from './http/password-reset-page.ts'
import { problemOf, refuseUnreadable, sendProblem } from './http/problem-responses.ts'
import { logRequests, requestIdOf } from './http/request-log.ts'
import { createLimit, limitOtherRoutes } from './http/rate-limit.ts'
import { countInMemory, countInSupervisor } from './http/request-counts.ts'
import { handleUnknownRoutes, collectPaths, installBodyParser, registerOperations } from './http/routes.ts'
import { setDefaultHeaders } from './http/default-headers.ts'
import { limitBodyTime, type TimeLimits, timeLimits as defaultTimeLimits } from './http/slow-clients.ts'
import { withoutBase } from './http/url.ts'
import type { FetchLimits } from './oidc/fetch.ts'
import { oidcProblem } from './oidc/problems.ts'
import type { Providers } from './oidc/providers.ts'
import { instrumentDatabase, instrumentStorage } from './observe/instrument.ts'
import { reportOutages } from './observe/outages.ts'
import type { MapError } from './problems/problems.ts'
import { storageProblem } from './storage/problems.ts'
import { openFolder } from './storage/free-space.ts'
import type { Storage } from './storage/storage.ts'
import { createAddressRules } from './webhooks/addresses.ts'
import { createSend, type Resolve } from './webhooks/send.ts'
import { createSendDue } from './webhooks/sender.ts'
import { uploadTimeout } from './jobs/inventory.ts'
import { jobsOf, type JobTimes, jobTimes as defaultJobTimes } from './jobs/registry.ts'
import { startJobs } from './jobs/runner.ts'
import { createAttachments } from './services/files/attachments.ts'
import { createSendDigests } from './services/activity/digests.ts'
import { createExports } from './services/interchange/exports.ts'
import { createRunImports } from './services/interchange/import-run.ts'
import { createImports } from './services/interchange/imports.ts'
import { createSendReminders } from './services/activity/reminder-mails.ts'
import { createEventStreams, maxStreams } from './services/activity/event-streams.ts'
import { createAnswerAssistant } from './services/shared/assistants.ts'
import { createTags } from './services/tasks/tags.ts'
import { createListTaskChanges } from './services/activity/task-changes.ts'
import { createProjects } from './services/projects/lifecycle.ts'
import { createTrash } from './services/tasks/trash.ts'
import { createThumbnails } from './services/files/thumbnails.ts'
import { createUploads } from './services/files/uploads.ts'

export interface AppDeps {
  readonly config: Pick<
    Config,
    | 'registration'
    | 'invitations'
    | 'invitationsPerDay'
    | 'mcp'
    | 'oidc'
    | 'publicUrl'
    | 'trustProxy'
    | 'corsOrigins'
    | 'corsHeaders'
    | 'logLevel'
    | 'attachmentMaxBytes'
    | 'attachmentQuotaBytes'
    | 'interchangeQuotaBytes'
    | 'taskQuota'
    | 'auditDays'
    | 'eventDays'
    | 'trashDays'
    | 'dataDir'
    | 'exportDays'
    | 'importFileDays'
    | 'importMaxBytes'
    | 'diskReserveBytes'
    | 'webhookAllow'
    | 'rateLimit'
    | 'rateLimitSignIn'
    | 'rateLimitRefresh'
    | 'rateLimitApi'
    | 'rateLimitUpload'
    | 'rateLimitAnonymous'
    | 'redisUrl'
    | 'shutdownSeconds'
  >
  readonly secrets: Secrets
  readonly db: Database
  /** For background work, which waits while the database is unavailable; `db` by default. */
  readonly backgroundDb?: Database
  /** The database that the service has started, whose disk readiness reports on; null by default. */
  readonly ownDatabase?: OwnDatabase | null
  readonly storage: Storage
  readonly passwords: PasswordHasher
  readonly thumbnailer: Thumbnailer
  readonly openMailer: OpenMailer
  /** Overridden by tests. */
  readonly timeLimits?: TimeLimits
  /** The current time in filters and for `overdue`. Overridden by tests. */
  readonly clock?: () => Date
  /** Standard output by default. */
  readonly logStream?: LogStream
  /** Maximum number of concurrent requests. Overridden by tests. */
  readonly requestLimit?: number
  /** Maximum number of open event streams. Overridden by tests. */
  readonly streamLimit?: number
  /** Maximum number of response bytes that clients have not read yet. Overridden by tests. */
  readonly unreadLimit?: number
  /** Called before any other hook is added, so that their hooks observe the whole request. */
  readonly observers?: readonly ((app: FastifyInstance) => void)[]
  readonly jobTimes?: JobTimes
  /** The limits of requests to identity providers. Overridden by tests. */
  readonly oidcLimits?: FetchLimits
  /** Overridden by tests. */
  readonly feedLimits?: FeedLimits
  /** Overridden by tests. */
  readonly resolveWebhookHost?: Resolve
  /** The number of this worker; null without a supervisor. */
  readonly worker?: number | null
}

/** Maps the errors of the parts that throw their own. */
const mapError: MapError = (error) =>
  databaseProblem(error) ??
  storageProblem(error) ??
  imageProblem(error) ??
  authProblem(error) ??
  oidcProblem(error)

/** Bytes. The longest filter takes 24,000 bytes in a URL if none of its characters is ASCII; Node's default is 16,384. */
const maxHeadSize = 65_536

/** The part of `shutdownSeconds` that is reserved for everything after the requests. */
const closingSeconds = 4

/** Builds the service, ready for `listen` or `inject`. Closing it leaves the database open. */
export const buildApp = async ({
  config,
  secrets,
  db: rawDb,
  ownDatabase = null,
  backgroundDb = rawDb,
  logStream,
  storage: rawStorage,
  passwords,
  thumbnailer,
  openMailer,
  timeLimits = defaultTimeLimits,
  clock = () => new Date(),
  requestLimit = maxRequests,
  streamLimit = maxStreams,
  unreadLimit = maxUnread,
  observers = [],
  jobTimes = defaultJobTimes,
  oidcLimits,
  feedLimits,
  resolveWebhookHost,
  worker = null,
}: AppDeps): Promise<FastifyInstance> => {
  const contract = loadContract()
  const publicUrl = config.publicUrl ?? ''
  const base = config.publicUrl === null ? '' : new URL(config.publicUrl).pathname.replace(/\/$/, '')

  const app = Fastify({
    logger: {
      level: config.logLevel,
      ...(logStream && { stream: logStream }),
      ...(worker !== null && { base: logBase(worker) }),
    },
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: maxBodyBytes,
    requestTimeout: uploadTimeout,
    connectionTimeout: timeLimits.stall,
    keepAliveTimeout: timeLimits.keepAlive,
    // joinDuplicateHeaders: otherwise Node keeps the first of two Authorization or Content-Type headers, while a proxy may
    // have read the second. requireHostHeader: Node's own answer to a missing Host is not a problem document.
    http: {
      joinDuplicateHeaders: true,
      requireHostHeader: false,
      headersTimeout: timeLimits.head,
      maxHeaderSize: maxHeadSize,
      connectionsCheckingInterval: timeLimits.checkEvery,
    },
    trustProxy: config.trustProxy.length > 0 ? [...config.trustProxy] : false,
    genReqId: requestIdOf,
    // `closeGracefully` answers with a problem document instead.
    return503OnClosing: false,
    rewriteUrl: (request) => {
      const path = withoutBase(request.url ?? '/', base)
      overrideMethod(request, path)
      return path
    },
    routerOptions: { maxParamLength: 1_024 },
    // Hooks do not run for these requests, so CORS headers are set here.
    frameworkErrors: (error, request, reply) => {
      reply.headers(corsHeaders(config.corsOrigins, request.headers.origin))
      sendProblem(problemOf(error, mapError), publicUrl, request, reply)
    },
    clientErrorHandler: (error, socket) => refuseUnreadable(error, publicUrl, socket),
  })

  app.setErrorHandler((error, request, reply) =>
    sendProblem(problemOf(error, mapError, request.routeOptions.bodyLimit), publicUrl, request, reply),
  )
  const outages = reportOutages(app.log)
  const storage = instrumentStorage(rawStorage, outages.forStorage)
  const background = instrumentDatabase(backgroundDb, outages.forStatements)
  const db: Database = {
    ...instrumentDatabase(rawDb, outages.forStatements),
    audited: (event) => app.log.info({ audit: event }, 'audit'),
  }

  // Faster than weak maps keyed by request, especially in garbage collection.
  app.decorateRequest('principal', null)
  app.decorateRequest('linkRefusal', null)
  app.decorateRequest('takeBack', null)
  app.decorateRequest('problem', undefined)

  serializePipelining(app)
  for (const observe of observers) observe(app)
  logRequests(app)
  const paths = collectPaths(app)
  setDefaultHeaders(app, publicUrl)
  enableCors(app, {
    origins: config.corsOrigins,
    headers: config.corsHeaders,
    methodsOf: paths.methodsOf,
  })
  requireHost(app)
  refuseExpectations(app)
  delayContinue(app)
  closeGracefully(app, {
    lameDuck: timeLimits.lameDuck,
    drain: (config.shutdownSeconds - closingSeconds) * 1_000,
  })
  shedLoad(app, requestLimit)
  limitBodyTime(app, timeLimits.body)
  const limit = await createLimit(app, {
    limits: limitsOf(config),
    redisUrl: config.redisUrl,
    countHere: worker === null ? countInMemory() : countInSupervisor(),
  })
  limitOtherRoutes(app, limit)
  const shares = shareAmongCallers(app, { running: requestLimit, unread: unreadLimit })
  handleUnknownRoutes(app, paths)
  installBodyParser(app)

  await app.register(fastifyMultipart, { throwFileSizeLimit: false })

  const databaseClock = createDatabaseClock()
  const accessTokens = await createAccessTokens(app, secrets, databaseClock.now)
  const credentials = cacheCredentials(db, { background, log: app.log })
  const attemptKeys = createAttemptKeys(deriveKeys(secrets, 'sign-in').active)
  const secondFactorKeys = deriveKeys(secrets, 'second-factor')
  const providerPolicy = config.oidc ?? noProviderPolicy
  const { isOnly } = providerPolicy
  const usablePassword = createUsablePassword({ isOnly })
  const checkPassword = createCheckPassword({ passwords, attemptKeys, usablePassword })
  const reauthenticate = createReauthenticate({ checkPassword, attemptKeys, secondFactorKeys })
  const webhookKeys = deriveKeys(secrets, 'webhook')
  const replayKeys = deriveKeys(secrets, 'idempotent-answer')
  const cursorKeys = deriveKeys(secrets, 'cursor')
  const linkKeys = deriveKeys(secrets, 'attachment-link')
  const exportLinkKeys = deriveKeys(secrets, 'export-link')
  const paging = createPaging({ cursorKeys, publicUrl, clock })
  // onClose hooks run in reverse order: the jobs, which use the storage, must close first.
  app.addHook('onClose', () => storage.close())
  app.addHook('onClose', async () => thumbnailer.close())
  const { auditDays, dataDir, eventDays, exportDays, trashDays } = config
  const exportFolder = join(dataDir, 'exports')
  const importFolder = join(dataDir, 'imports')
  const checkExportSpace = () => openFolder(exportFolder, config.diskReserveBytes, 0)
  const { log } = app
  const addressRules = createAddressRules(config.webhookAllow)
  const mailer = openMailer(log)
  app.addHook('onClose', () => mailer.close())
  const jobs = startJobs(
    jobsOf({
      db: background,
      storage,
      secondFactorKeys,
      webhookKeys,
      sendWebhooks: createSendDue({
        db: background,
        log,
        keys: webhookKeys,
        mailer,
        send: createSend({ rules: addressRules, resolve: resolveWebhookHost }),
      }),
      sendDigests: createSendDigests({ db: background, mailer }),
      sendReminders: createSendReminders({ db: background, mailer }),
      exportFolder,
      checkExportSpace,
      exportDays,
      runImports: createRunImports({
        db: background,
        storage,
        log,
        onlyUserId: null,
        folder: importFolder,
        diskReserveBytes: config.diskReserveBytes,
        lease: jobTimes.lease,
        taskQuota: config.taskQuota,
        attachmentQuotaBytes: config.attachmentQuotaBytes,
        attachmentMaxBytes: config.attachmentMaxBytes,
      }),
      importFolder,
      generator: `Taskwright ${version}`,
      contract: contract.document,
      databaseClock,
      auditDays,
      eventDays,
      trashDays,
      log,
      times: jobTimes,
    }),
    { db: background, log, lease: jobTimes.lease },
  )
  app.addHook('onClose', () => jobs.close())
  const streams = createEventStreams({
    db: background,
    credentials,
    log,
    heartbeat: timeLimits.heartbeat,
    now: databaseClock.now,
    limit: streamLimit,
  })
  app.addHook('preClose', () => streams.close())

  const shouldAuditFailure = limitAuditedFailures((network) =>
    app.log.warn(
      { network },
      'Too many failed sign-ins to audit: the audit log omits further ones from this network for an hour',
    ),
  )

  const { attachmentMaxBytes, attachmentQuotaBytes, interchangeQuotaBytes, taskQuota } = config
  const isRegistrationOpen = config.registration === 'open'
  const signIn = createSignIn({
    accessTokens,
    passwords,
    attemptKeys,
    secondFactorKeys,
    shouldAuditFailure,
    isRegistrationOpen,
    invitations: config.invitations,
    providerSessionHours: providerPolicy.sessionHours,
    reauthDays: providerPolicy.reauthDays,
    usablePassword,
    isOnly,
    log,
  })
  const sessions = createSessions({
    accessTokens,
    credentials,
    refreshKeys: deriveKeys(secrets, 'refresh'),
  })
  const oidc = createOidc({
    // Loaded only when needed: the client takes 35 ms of each start.
    providers:
      config.oidc === null
        ? noProviders
        : (await import('./oidc/providers.ts')).createProviders(config.oidc, oidcLimits),
    keys: deriveKeys(secrets, 'oidc'),
    accessTokens,
    credentials,
    sessions,
    attemptKeys,
    shouldAuditFailure,
    create: providerPolicy.create,
    isOnly,
    usablePassword,
    sessionHours: providerPolicy.sessionHours,
    reauthDays: providerPolicy.reauthDays,
    invitations: config.invitations,
    ownIssuer: config.oidc?.publicUrl ?? '',
    now: databaseClock.now,
    log,
  })
  const users = createUsers({
    passwords,
    reauthenticate,
    credentials,
    mailer,
    jobs,
    quotas: {
      attachmentBytes: attachmentQuotaBytes,
      interchangeBytes: interchangeQuotaBytes,
      tasks: taskQuota,
    },
    log,
  })
  const handlers: Handlers = {
    ...authHandlers({ signIn, sessions, reauthenticate, oidc, users }),
    ...oidcHandlers({ paging, oidc }),
    ...sessionHandlers({ paging, sessions }),
    ...passwordHandlers({
      passwords: createPasswords({
        passwords,
        checkPassword,
        usablePassword,
        isOnly,
        credentials,
        mailer,
        log,
      }),
    }),
    ...apiTokenHandlers({
      paging,
      apiTokens: createApiTokens({ credentials, replayKeys }),
    }),
    ...secondFactorHandlers({
      secondFactor: createSecondFactors({ checkPassword, attemptKeys, secondFactorKeys }),
    }),
    ...auditHandlers({ paging }),
    ...userHandlers({ paging, users }),
    ...taskBatchHandlers({ publicUrl, taskQuota }),
    ...taskHandlers({ paging, listTaskChanges: createListTaskChanges(cursorKeys), taskQuota }),
    ...recurrenceHandlers,
    ...trashHandlers({ paging, trash: createTrash({ jobs }) }),
    ...eventHandlers({ paging, streams, expiryOf: createExpiryOf(accessTokens) }),
    ...attachmentHandlers({
      paging,
      publicUrl,
      attachments: createAttachments({
        storage,
        jobs,
        createLink: createLinks(linkKeys, databaseClock.now),
        attachmentMaxBytes,
        attachmentQuotaBytes,
      }),
    }),
    ...thumbnailHandlers({ thumbnails: createThumbnails({ storage, thumbnailer }) }),
    ...uploadHandlers({
      uploads: createUploads({
        storage,
        jobs,
        attachmentQuotaBytes,
        importFileDays: config.importFileDays,
        interchangeQuotaBytes,
      }),
      attachmentMaxBytes,
      importMaxBytes: config.importMaxBytes,
    }),
    ...tagHandlers({ paging, tags: createTags({ jobs }) }),
    ...taskTagHandlers({ paging }),
    ...relationHandlers({ paging }),
    ...notificationHandlers({ paging }),
    ...projectHandlers({ paging, projects: createProjects({ jobs }) }),
    ...memberHandlers({ paging }),
    ...invitationHandlers({
      paging,
      invitations: createInvitations({
        mode: config.invitations,
        maxPerDay: config.invitationsPerDay,
        isRegistrationOpen,
        mailer,
      }),
    }),
    ...teamHandlers({ paging }),
    ...sectionHandlers({ paging }),
    ...commentHandlers({ paging }),
    ...reminderHandlers({ paging }),
    ...exportHandlers({
      paging,
      publicUrl,
      exports: createExports({
        storage,
        checkSpace: checkExportSpace,
        jobs,
        mailer,
        createLink: createLinks(exportLinkKeys, databaseClock.now),
        interchangeQuotaBytes,
      }),
    }),
    ...importHandlers({
      paging,
      imports: createImports({
        storage,
        jobs,
        importMaxBytes: config.importMaxBytes,
        importFileDays: config.importFileDays,
        interchangeQuotaBytes,
      }),
    }),
    ...webhookHandlers({
      paging,
      webhooks: createWebhooks({ webhookKeys, replayKeys, addressRules, jobs }),
    }),
    ...feedHandlers({
      paging,
      feeds: createFeeds({ replayKeys, publicUrl }),
      readCalendar: createReadCalendar(feedLimits),
    }),
    ...assistantHandlers({
      answerAssistant: createAnswerAssistant(contract),
      isEnabled: config.mcp === 'on',
      corsOrigins: config.corsOrigins,
      publicUrl,
    }),
    ...systemHandlers({
      contract,
      checkReadiness: createCheckReadiness({
        db,
        ownDatabase,
        storage,
        readinessTime: timeLimits.readiness,
      }),
    }),
  }

  await registerOperations(app, contract, handlers, {
    db,
    auditRead,
    mapError,
    isTemporary: (error) => error instanceof TemporaryFailure,
    limit,
    shares,
    authenticate: createAuthenticate(accessTokens, credentials),
    authenticateByLink: {
      attach_id: createAuthenticateLink(linkKeys, credentials, databaseClock.now),
      feed_id: createAuthenticateFeed(createFeedLinks(db)),
      export_id: createAuthenticateLink(exportLinkKeys, credentials, databaseClock.now),
    },
    dispatch: createDispatcher(app, base),
    fingerprintKeys: deriveKeys(secrets, 'idempotency'),
    publicUrl,
    maxFileBytes: (id) => (id === 'createImport' ? config.importMaxBytes : attachmentMaxBytes),
    deadline: timeLimits.answer,
    finish: awaitOnClose(app),
  })
  await registerProviderRoutes(app, {
    complete: (client, answer) => oidc.complete(createContext(db, null, client), answer),
    endSessions: (client, logout) => oidc.endByProvider(createContext(db, null, client), logout),
    countRefused: async (request, reply) => void (await limit(request, reply, 'anonymous', null)),
  })
  await app.register(registerPages, { base, publicUrl, contract, isRegistrationOpen })
  await app.register(registerGuides, { base })
  await registerDocumentationPages(app, { base, contract })
  await registerPasswordResetPage(app, { base })
  await registerEmailChangeUndoPage(app, { base })
  await registerInvitationPage(app, { base })
  return app
}

/** Without identity providers. */
const noProviders: Providers = { all: [], find: () => null, allowsReturn: () => false }
const noProviderPolicy = { create: 'never', isOnly: false, sessionHours: 1, reauthDays: 1 } as const

/** The fields of every log line of a worker: pino's defaults and its number. */
const logBase = (worker: number) => ({ pid: process.pid, hostname: hostname(), worker })

const limitsOf = (config: AppDeps['config']) =>
  config.rateLimit === 'off'
    ? null
    : {
        anonymous: config.rateLimitAnonymous,
        sign_in: config.rateLimitSignIn,
        refresh: config.rateLimitRefresh,
        link: config.rateLimitApi,
        api: config.rateLimitApi,
        upload: config.rateLimitUpload,
        resume: config.rateLimitApi,
      }
