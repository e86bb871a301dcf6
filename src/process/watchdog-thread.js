import { write } from 'node:fs'
import { hostname } from 'node:os'
import { workerData } from 'node:worker_threads'

/**
 * The thread of the watchdog; in JavaScript, since a thread that compiles TypeScript takes more memory than it needs for
 * everything else.
 */

const { beats, every, maxMissed, format, worker } = /** @type {import('./watchdog.ts').WatchdogData} */ (
  workerData
)

/** Long enough for a line of the log, which whoever reads it may be holding up. */
const writeTimeout = 1_000

/**
 * As process-log.ts writes it; console.log of a thread waits for the main one.
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

// Own turns are counted and not time: when the process was stopped or the machine suspended, this thread was too.
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
