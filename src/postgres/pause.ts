import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

/** Milliseconds. Statements wait meanwhile, for up to 10 seconds. */
const maxPause = 5_000

/** Milliseconds. A process that waits for the disk stops only after that. */
const pollInterval = 5

/**
 * Stops all processes of PostgreSQL in the middle of what they do, for 5 seconds at most, so that its files can be copied: they are then
 * what a kill at this moment would leave. Resolves to a function that continues them, and tells whether they were stopped until then.
 * Needs /proc.
 */
export const pauseProcesses = async (postmaster: number): Promise<() => boolean> => {
  // First of all, so that it starts no others.
  process.kill(postmaster, 'SIGSTOP')
  const stopped = [postmaster]
  let isPaused = true
  const resume = (): boolean => {
    const wasPaused = isPaused
    isPaused = false
    clearTimeout(timer)
    process.off('exit', resume)
    for (const pid of stopped) signal(pid, 'SIGCONT')
    return wasPaused
  }
  const timer = setTimeout(resume, maxPause)
  process.on('exit', resume)
  await untilStopped([postmaster])
  stopped.push(...(await childrenOf(postmaster)))
  for (const pid of stopped) signal(pid, 'SIGSTOP')
  await untilStopped(stopped)
  return resume
}

/** Ignores a process that has ended. */
const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

const untilStopped = async (pids: readonly number[]): Promise<void> => {
  for (const pid of pids)
    while (['R', 'S', 'D'].includes((await readState(pid))?.state ?? '')) await pause(pollInterval)
}

const childrenOf = async (parent: number): Promise<readonly number[]> => {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const parents = await Promise.all(pids.map(async (pid) => (await readState(pid))?.parent))
  return pids.filter((_pid, index) => parents[index] === parent)
}

/** The state of a process by the letters of proc(5), and its parent; null if it has ended. */
const readState = async (
  pid: number,
): Promise<{ readonly state: string; readonly parent: number } | null> => {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name before, in parentheses, can contain spaces.
  const [state, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return state === undefined || parent === undefined ? null : { state, parent: Number(parent) }
}
