import { write } from 'node:fs'
import { hostname } from 'node:os'
import { workerData } from 'node:worker_threads'

/**
 * The thread of the watchdog. It is JavaScript, because Node's TypeScript compiler would take more memory than the rest of the
 * thread.
 */

const { beats, every, maxMissed, format, worker } = /** @type {import('./watchdog.ts').WatchdogData} */ (
  workerData
)

/** Milliseconds to wait for the log line to be written, since the reader of the log may be blocked. */
const writeTimeout = 1_000

/**
 * A log line in the format of log.ts. Not console.log, which in a thread waits for the main thread.
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

// Counts ticks of this thread rather than time, since this thread also pauses when the process is stopped or the machine suspended.
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
