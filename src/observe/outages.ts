import type { FastifyBaseLogger } from 'fastify'
import { isOutage, SchemaPending } from '../db/engine/errors.ts'
import { watchOutage } from '../domain/upkeep/outage.ts'
import { StorageFull, StorageUnavailable } from '../storage/storage.ts'
import type { Instrument } from './instrument.ts'

/** Logs the start and the end of an outage of the database or the storage, once each. */
export const reportOutages = (
  log: FastifyBaseLogger,
): { readonly forStatements: Instrument; readonly forStorage: Instrument } => ({
  forStatements: reporting(log, 'The database', isOutageOfDatabase),
  forStorage: reporting(log, 'The file storage', isOutageOfStorage),
})

const isOutageOfDatabase = (error: unknown): error is Error =>
  isOutage(error) && !(error instanceof SchemaPending)

const isOutageOfStorage = (error: unknown): error is Error =>
  error instanceof StorageUnavailable || error instanceof StorageFull

const reporting = (
  log: FastifyBaseLogger,
  what: string,
  isOutage: (error: unknown) => error is Error,
): Instrument => {
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
