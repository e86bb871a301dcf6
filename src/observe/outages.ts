import type { FastifyBaseLogger } from 'fastify'
import { DatabaseUnavailable, SchemaPending } from '../db/engine/errors.ts'
import { watchOutage } from '../domain/outage.ts'
import { StorageFull, StorageUnavailable } from '../storage/storage.ts'
import type { Around } from './around.ts'

/** Tells the log when what the service relies on cannot be used, and when it can be again: once, whatever is asked meanwhile. */
export const reportOutages = (
  log: FastifyBaseLogger,
): { readonly aroundStatements: Around; readonly aroundStorage: Around } => ({
  aroundStatements: reporting(log, 'The database', isOutageOfDatabase),
  aroundStorage: reporting(log, 'The file storage', isOutageOfStorage),
})

const isOutageOfDatabase = (error: unknown): error is Error =>
  error instanceof DatabaseUnavailable && !(error instanceof SchemaPending)

const isOutageOfStorage = (error: unknown): error is Error =>
  error instanceof StorageUnavailable || error instanceof StorageFull

const reporting = (
  log: FastifyBaseLogger,
  what: string,
  isOutage: (error: unknown) => error is Error,
): Around => {
  const report = watchOutage({
    began: ({ message }) =>
      log.error({ reason: message }, `${what} is unavailable; requests that need it fail`),
    ended: (outage) => log.warn(outage, `${what} is available again`),
  })
  return async (_name, work) => {
    try {
      const result = await work()
      report(null)
      return result
    } catch (error) {
      if (isOutage(error)) report(error)
      throw error
    }
  }
}
