/** Milliseconds. A process that ends earlier counts as a crash loop. */
export const minLifetime = 10_000

/** Milliseconds before a process is started again, after this many consecutive early ends. */
export const restartDelay = (earlyExits: number): number =>
  earlyExits === 0 ? 0 : Math.min(125 * 2 ** earlyExits, 30_000)
