import type { Database } from './client.ts'
import { sql } from './drizzle.ts'
import { statement } from './statement.ts'

/** Milliseconds between two rounds. */
const every = 600_000

const checkpoint = statement({}, {}, () => sql`checkpoint`)
const vacuum = statement({}, {}, () => sql`vacuum (analyze)`)

/**
 * Does for the embedded database what a server's background processes do: without checkpoints its log would grow for
 * ever, and without vacuum its tables. Through the one client, since nobody else may come between its messages.
 * Answers with a function that ends it.
 */
export const keepEmbeddedTidy = (db: Database): (() => Promise<void>) => {
  let running: Promise<unknown> = Promise.resolve()
  const timer = setInterval(() => {
    // A round that fails is made up for by the next.
    running = checkpoint(db, {})
      .then(() => vacuum(db, {}))
      .catch(() => undefined)
  }, every)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await running
  }
}
