import type { OpContext } from '../shared/context.ts'

export interface WarningLog {
  warn(fields: object, message: string): void
}

/** Waits for work whose failure must not replace the answer: it is logged. */
export const orLog = async (
  { client }: OpContext,
  work: Promise<void>,
  { log, message }: { readonly log: WarningLog; readonly message: string },
): Promise<void> => {
  try {
    await work
  } catch (error) {
    log.warn({ err: error, request_id: client.requestId }, message)
  }
}
