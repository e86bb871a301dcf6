import { removeOldAttempts } from '../db/accounts/attempts.ts'
import { removeOldAuditEvents } from '../db/activity/audit.ts'
import { removeOldEvents } from '../db/activity/events.ts'
import { fireDueReminders } from '../db/tasks/due-reminders.ts'
import { expireExports, selectExportLeases } from '../db/interchange/exports.ts'
import type { DatabaseClock } from '../db/shared/database-clock.ts'
import { removeRevokedFeeds } from '../db/interchange/feeds.ts'
import { removeExpiredKeys } from '../db/shared/idempotency-keys.ts'
import { removeExpiredInvitations, removeOldInvitationMails } from '../db/projects/invitations.ts'
import { notifyOfEvents, removeOldNotifications } from '../db/activity/notifications.ts'
import { removeExpiredLogoutTokens } from '../db/accounts/logout-tokens.ts'
import { removeExpiredOidcCodes } from '../db/accounts/oidc-codes.ts'
import { removeExpiredOneTimeTokens } from '../db/accounts/one-time-tokens.ts'
import { purgeDeleted } from '../db/tasks/purge.ts'
import { removeOldReminders } from '../db/tasks/reminders.ts'
import { removeSpentRefreshTokens } from '../db/accounts/refresh-tokens.ts'
import { expireImports, selectImportLeases } from '../db/interchange/imports.ts'
import { afterSetBack } from '../db/shared/retention.ts'
import { redeliverTasks } from '../db/projects/redelivery.ts'
import { removeExpiredSessions } from '../db/accounts/sessions.ts'
import { removeOldTombstones } from '../db/activity/task-changes.ts'
import { correctTimesAhead } from '../db/upkeep/times-ahead.ts'
import { removeOldTrash } from '../db/tasks/trash.ts'
import { removeExpiredUploads } from '../db/files/uploads.ts'
import { makeNewDeliveries, removeOldDeliveries } from '../db/activity/webhook-deliveries.ts'
import { removeExpiredSecrets } from '../db/activity/webhooks.ts'
import type { KeyRing } from '../domain/shared/key-ring.ts'
import { type SendDue, webhookLease } from '../webhooks/sender.ts'
import { removeAbandonedFolders } from './abandoned-folders.ts'
import { uploadTimeout } from './inventory.ts'
import { resealSecrets } from './reseal-secrets.ts'
import type { Job, RunningJobs } from './runner.ts'
import { createRunExports } from './run-exports.ts'
import { createSkippedTimeReport } from './skipped-time.ts'
import {
  type FileDeps,
  confirmFileOwnership,
  removeDeletedFiles,
  removeOrphans,
  removeUnfinishedOrphans,
  reportLostFiles,
} from './stored-files.ts'

/** The schedule of jobs. Times are in milliseconds. */
export interface JobTimes {
  /** Interval of the jobs that look for obsolete data. */
  readonly cleanup: number
  /** Whether those jobs also run when the service starts. */
  readonly cleanupAtStart: boolean
  /** Interval of the jobs that finish deletions, and the delay before the removal of a file is retried. */
  readonly retry: number
  /** Interval of the jobs that read events. */
  readonly events: number
  /** Interval of the looks at the clock of the database. One that was set back is accepted after three. */
  readonly clock: number
  /** Minimum age of an orphan. A younger file without a row may still get one. */
  readonly grace: number
  /** Lease TTL of exclusive jobs. */
  readonly lease: number
}

export interface JobDeps extends FileDeps {
  readonly secondFactorKeys: KeyRing
  readonly webhookKeys: KeyRing
  readonly sendWebhooks: SendDue
  readonly sendDigests: Job['run']
  readonly sendReminders: Job['run']
  /** For exports in progress. */
  readonly exportFolder: string
  /** Checks the disk of that folder. */
  readonly checkExportSpace: () => Promise<void>
  /** Retention of the files of exports. */
  readonly exportDays: number
  readonly runImports: Job['run']
  /** For imports in progress. */
  readonly importFolder: string
  /** Name and version of the service. */
  readonly generator: string
  /** The OpenAPI document. */
  readonly contract: Readonly<Record<string, unknown>>
  readonly databaseClock: DatabaseClock
  /** Retention of the audit trail. */
  readonly auditDays: number
  /** Retention of events and notifications. */
  readonly eventDays: number
  /** Retention of the trash. */
  readonly trashDays: number
  /** Overridden by tests. */
  readonly times?: JobTimes | undefined
}

export const jobTimes: JobTimes = {
  cleanup: 3_600_000,
  cleanupAtStart: true,
  retry: 60_000,
  events: 500,
  clock: 10_000,
  grace: 2 * uploadTimeout,
  lease: 30_000,
}

/** Retention of tombstones. The contract promises it. */
const tombstoneDays = 30

/** Retention of reminders that have fired. The contract promises it. */
const reminderDays = 30

/** Retention of imports. The contract promises it. */
const importDays = 30

/** Maximum retention of the deliveries of webhooks. The contract promises it. */
const deliveryDays = 30

/** All background jobs. Each works in batches, so that none occupies the database for long. */
export const jobsOf = (deps: JobDeps) => {
  const { db, auditDays, eventDays, trashDays, times = jobTimes } = deps
  /** No job of a start that depends on the clock runs before a look at it. */
  const job = (interval: number, run: Job['run']): Job => ({
    interval,
    atStart: true,
    exclusive: false,
    async run(stop) {
      await deps.databaseClock.followed(db)
      await run(stop)
    },
  })
  const cleanup = (run: Job['run']): Job => ({
    ...job(times.cleanup, run),
    atStart: times.cleanupAtStart,
    exclusive: true,
  })
  /** A job that several instances share; each takes different rows. */
  const completion = (run: Job['run']): Job => job(times.retry, run)
  /** A job that reads events. Instances take turns by leases of their own. */
  const reader = (run: Job['run']): Job => job(times.events, run)
  /** One whose first run begins with the next event, so that it waits for nothing. */
  const firstReader = (run: Job['run']): Job => ({ ...reader(run), run })
  const orphans = (stop: AbortSignal) => ({ grace: times.grace, stop })
  const runExports = createRunExports({
    ...deps,
    folder: deps.exportFolder,
    checkSpace: deps.checkExportSpace,
    lease: times.lease,
  })
  const removeFiles = (stop: AbortSignal) => removeDeletedFiles(deps, { retryAfter: times.retry, stop })
  return {
    follow_database_clock: job(times.clock, () => deps.databaseClock.follow(db)),
    correct_times_ahead: job(times.clock, (stop) =>
      afterSetBack(db, 3 * times.clock, () => correctTimesAhead(db, { webhookLease }, stop)),
    ),
    report_skipped_time: cleanup(createSkippedTimeReport(deps)),
    confirm_file_ownership: cleanup(() => confirmFileOwnership(deps)),
    remove_old_trash: cleanup((stop) => removeOldTrash(db, trashDays, stop)),
    remove_old_tombstones: cleanup((stop) => removeOldTombstones(db, tombstoneDays, stop)),
    remove_expired_uploads: cleanup((stop) => removeExpiredUploads(db, {}, stop)),
    purge_deleted_rows: completion(async (stop) => {
      await purgeDeleted(db, stop)
      await removeFiles(stop)
    }),
    redeliver_tasks: completion((stop) => redeliverTasks(db, stop)),
    remove_deleted_files: completion(removeFiles),
    remove_orphans: cleanup((stop) => removeOrphans(deps, orphans(stop))),
    remove_unfinished_orphans: cleanup((stop) => removeUnfinishedOrphans(deps, orphans(stop))),
    report_lost_files: cleanup((stop) => reportLostFiles(deps, { stop })),
    remove_expired_sessions: cleanup((stop) => removeExpiredSessions(db, {}, stop)),
    remove_spent_refresh_tokens: cleanup((stop) => removeSpentRefreshTokens(db, {}, stop)),
    remove_expired_idempotency_keys: cleanup((stop) => removeExpiredKeys(db, {}, stop)),
    remove_expired_logout_tokens: cleanup((stop) => removeExpiredLogoutTokens(db, {}, stop)),
    remove_expired_oidc_codes: cleanup((stop) => removeExpiredOidcCodes(db, {}, stop)),
    remove_expired_one_time_tokens: cleanup((stop) => removeExpiredOneTimeTokens(db, {}, stop)),
    remove_expired_invitations: cleanup((stop) => removeExpiredInvitations(db, {}, stop)),
    remove_old_invitation_mails: cleanup((stop) => removeOldInvitationMails(db, {}, stop)),
    remove_old_attempts: cleanup((stop) => removeOldAttempts(db, {}, stop)),
    remove_old_audit_events: cleanup((stop) => removeOldAuditEvents(db, { days: auditDays }, stop)),
    remove_old_events: cleanup((stop) => removeOldEvents(db, eventDays, stop)),
    remove_old_reminders: cleanup((stop) => removeOldReminders(db, { days: reminderDays }, stop)),
    remove_old_notifications: cleanup((stop) => removeOldNotifications(db, { days: eventDays }, stop)),
    notify_of_events: firstReader((stop) => notifyOfEvents(db, stop)),
    make_webhook_deliveries: firstReader((stop) => makeNewDeliveries(db, stop)),
    send_webhooks: reader(deps.sendWebhooks),
    send_digests: completion(deps.sendDigests),
    fire_reminders: reader((stop) => fireDueReminders(db, stop)),
    send_reminders: reader(deps.sendReminders),
    // Two at a time.
    run_exports: reader(runExports),
    run_more_exports: reader(runExports),
    run_imports: reader(deps.runImports),
    run_more_imports: reader(deps.runImports),
    expire_imports: cleanup(async (stop) => {
      await expireImports(db, importDays, stop)
      await removeAbandonedFolders(deps.importFolder, () => selectImportLeases(db))
    }),
    expire_exports: cleanup(async (stop) => {
      await expireExports(db, stop)
      await removeAbandonedFolders(deps.exportFolder, () => selectExportLeases(db))
    }),
    remove_old_deliveries: cleanup((stop) =>
      removeOldDeliveries(db, { days: Math.min(eventDays, deliveryDays) }, stop),
    ),
    remove_revoked_feeds: cleanup((stop) => removeRevokedFeeds(db, {}, stop)),
    remove_expired_secrets: cleanup((stop) => removeExpiredSecrets(db, stop)),
    reseal_secrets: cleanup((stop) => resealSecrets(db, deps, stop)),
  } satisfies Record<string, Job>
}

/** The running jobs of the service. */
export type Jobs = RunningJobs<keyof ReturnType<typeof jobsOf>>
