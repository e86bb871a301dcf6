import { AsyncLocalStorage } from 'node:async_hooks'

/** The request or background job that statements run for. */
export interface Work {
  /** The user or network whose share of the fair queue the work uses, or `background`. */
  readonly caller: string
  /** Whether the caller is a user who is signed in. */
  readonly isUser?: boolean
  /** Whether to stop: the client was told that nothing was done, or has disconnected from a read. */
  readonly isAbandoned: () => boolean
  /** Texts of the statements that were sent, of a transaction its commit, without those that were certainly rolled back. */
  readonly sent: string[]
  /** Whether the work is within a transaction, where only that may run statements. */
  readonly isInTransaction?: boolean
}

const storage = new AsyncLocalStorage<Work>()

/** The caller of background jobs. */
export const background = ''

/**
 * The current work; by default, a background job. It is passed by AsyncLocalStorage because the engine needs it for every
 * statement, but no query uses it.
 */
export const currentWork = (): Work =>
  storage.getStore() ?? { caller: background, isAbandoned: () => false, sent: [] }

/** Runs `task`, and everything that it awaits, as part of `work`. */
export const runAs = <T>(work: Work, task: () => T): T => storage.run(work, task)

/** Whether a statement writes, judged by its text, which can start with its name as a comment. */
export const writes = (text: string): boolean =>
  !/^(?:\s*\/\*[^*]*\*\/)?\s*(?:select|with|show)\b/i.test(text) ||
  /\b(?:insert into|delete from|set)\s/i.test(text)

/** Whether the work may have changed something. */
export const mayHaveWritten = ({ sent }: Work): boolean => sent.some(writes)
