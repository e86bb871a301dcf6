import { writeFileSync } from 'node:fs'

/**
 * Lets Linux end this process before others when memory runs out, and with it neither the service nor its PostgreSQL. Every process may
 * raise its own score.
 */
export const endFirstWithoutMemory = (): void => {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    // Another system, or one without /proc.
  }
}
