import { write } from 'node:fs'
import { hostname } from 'node:os'
import { workerData } from 'node:worker_threads'

/**
 * The thread of the watchdog. It is JavaScript because a thread that loads Node's TypeScript compiler takes more memory for
 * that than for everything else.
 */

const { beats, every, maxMissed, format, worker } = /** @type {import('./watchdog.ts').WatchdogData} */ (
  workerData
)

/** Milliseconds for writing the log line: its reader may be blocked. */
const writeTimeout = 1_000

/**
 * A line as log.ts writes it. A thread's console.log would wait for the main thread.
 *
 * @param {string} msg
 */
const logLine = (msg) => ({
  level: 60,
  time: Date.now(),
  pid: process.pid,
  hostname: hostname(),
  ...(worker !== null && { worker }),
  msg,
})

const endProcess = () => process.kill(process.pid, 'SIGKILL')

let seen = Atomics.load(beats, 0)
let missed = 0

// Counts ticks of this thread instead of time: when the process is stopped or the machine suspended, this thread is too.
const timer = setInterval(() => {
  const beat = Atomics.load(beats, 0)
  missed = beat === seen ? missed + 1 : 0
  seen = beat
  if (missed < maxMissed) return
  clearInterval(timer)
  const msg = `The event loop has been blocked for ${(every * maxMissed) / 1_000} s; killing the process`
  write(1, `${format === 'pretty' ? `taskwright: ${msg}` : JSON.stringify(logLine(msg))}\n`, endProcess)
  setTimeout(endProcess, writeTimeout)
}, every)
