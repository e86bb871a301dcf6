import { AsyncLocalStorage } from 'node:async_hooks'

/** The request, or the background job, on whose behalf statements run. */
export interface Work {
  /** Whose share of the connections it takes. */
  readonly principal: string
  /** Whether it is not to go on: its client was told that nothing was done, or has gone and only wanted to read. */
  readonly isAbandoned: () => boolean
  /** The texts of statements that were sent, except those that were certainly rolled back. */
  readonly sent: string[]
}

const storage = new AsyncLocalStorage<Work>()

/** The principal of background jobs. */
export const background = ''

/**
 * The work that the caller runs in; a background job of its own outside of any. It is carried implicitly because every
 * statement belongs to some work, while no query has a use for it.
 */
export const currentWork = (): Work =>
  storage.getStore() ?? { principal: background, isAbandoned: () => false, sent: [] }

/** Runs `task`, and everything that it awaits, as part of `work`. */
export const runAs = <T>(work: Work, task: () => T): T => storage.run(work, task)

/** Whether a statement writes, as far as its text tells. Its name is a comment in front. */
export const writes = (text: string): boolean =>
  !/^(?:\s*\/\*[^*]*\*\/)?\s*(?:select|with|show)\b/i.test(text) ||
  /\b(?:insert into|delete from|set)\s/i.test(text)

/** Whether the work may have changed something. */
export const mayHaveWritten = ({ sent }: Work): boolean => sent.some(writes)
