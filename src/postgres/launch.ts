import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Binaries, PostgresUnusable } from './binaries.ts'

const run = promisify(execFile)

/** How the programs of PostgreSQL are started on this system. */
export interface Launcher {
  /** The command for a program, which this process starts. */
  command(program: 'initdb' | 'postgres', args: readonly string[]): readonly string[]
  /** The same while it holds a lock file, which it and its children keep locked until the last of them has ended. */
  lockedCommand(lock: string, program: 'postgres', args: readonly string[]): readonly string[]
  /** Their environment: without the secrets of the service, and without variables that PostgreSQL would read. */
  readonly environment: Readonly<Record<string, string>>
  /** Whether lock files are supported. */
  readonly hasLocks: boolean
}

/** Another user id, to which the files of root belong as well. PostgreSQL refuses to run as root. */
const asOtherUser = ['unshare', '--user', '--map-user=65534', '--map-group=65534', '--']

/** The kernel stops PostgreSQL when this process is killed. */
const withParent = ['setpriv', '--pdeathsig', 'INT', '--']

/** Where systems have these tools. */
const systemPath = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin'

const lockArguments = ['--nonblock', '--no-fork']

/** Locked while PostgreSQL uses the data folder. Unlike the lock of the service, it is also held by a process that was left behind. */
export const lockFile = (dataDir: string): string => join(dataDir, 'postgresql.lock')

/** Waits up to `seconds` until nothing holds a lock file. Resolves to whether it is free. */
export const isLockFree = (lock: string, seconds: number): Promise<boolean> =>
  works(['flock', '--wait', String(seconds), lock])

/**
 * Looks which tools of Linux this system has and allows.
 *
 * @throws PostgresUnusable as root, if user namespaces are forbidden
 */
export const createLauncher = async ({ folder, environment }: Binaries): Promise<Launcher> => {
  const isRoot = process.getuid?.() === 0
  const [mayBeOther, hasParentSignal, hasLocks] = await Promise.all([
    isRoot && works(asOtherUser),
    works(withParent),
    works(['flock', '--shared', ...lockArguments, folder]),
  ])
  if (isRoot && !mayBeOther)
    throw new PostgresUnusable(
      'PostgreSQL does not run as root, and this system forbids root to give it another user (unshare --user). Run the service as an ordinary user that owns DATA_DIR, or set DATABASE_URL to a database server',
    )
  // In this order: a new user namespace would clear the signal.
  const prefix = [...(isRoot ? asOtherUser : []), ...(hasParentSignal ? withParent : [])]
  const command = (program: string, args: readonly string[]): readonly string[] => [
    `${folder}/${program}`,
    ...args,
  ]
  return {
    command: (program, args) => [...prefix, ...command(program, args)],
    lockedCommand: (lock, program, args) => [
      ...prefix,
      ...(hasLocks ? ['flock', ...lockArguments, lock] : []),
      ...command(program, args),
    ],
    environment: { PATH: systemPath, LC_ALL: 'C', ...environment },
    hasLocks,
  }
}

/** Whether a tool can start another program. */
const works = async ([file = '', ...args]: readonly string[]): Promise<boolean> => {
  if (process.platform !== 'linux') return false
  try {
    await run(file, [...args, 'true'], { env: { PATH: systemPath } })
    return true
  } catch {
    return false
  }
}
