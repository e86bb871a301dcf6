import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dump, load } from 'js-yaml'
import { eventually } from '../../../test/fixture/eventually.ts'
import { freePort } from '../../../test/fixture/ports.ts'
import { startTcpProxy } from '../../../test/fixture/tcp-proxy.ts'
import { isRunning } from '../../run/commands.ts'
import { findBinaries, findIdentity, giveTo, signalServer } from '../../run/postgres.ts'
import { spawnLogged } from '../../run/processes.ts'
import type { Teardown } from '../../run/run-to-end.ts'

/** A PostgreSQL server managed by Patroni. Other nodes reach it through proxies that can be cut, as if on another machine. */
export interface Node {
  readonly name: string
  /** The ports of PostgreSQL and of Patroni's REST API for other nodes. */
  readonly ports: { readonly database: number; readonly api: number }
  /** The configuration file for patronictl. */
  readonly configFile: string
  /** False while the node is killed, frozen or isolated. */
  readonly isReachable: () => boolean
  start(): Promise<void>
  /** Kills all processes. */
  kill(): Promise<void>
  /** Suspends all processes. Connections stay open. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** Drops all traffic between this node and others, including etcd. */
  isolate(): void
  reconnect(): void
  /** The role that the node reports about itself, even while it is isolated. Null if it does not respond. */
  role(): Promise<string | null>
  /** Patroni's view of all nodes. Null if it does not respond. */
  members(): Promise<readonly Member[] | null>
}

/** A node, as reported by Patroni. */
export interface Member {
  readonly name: string
  readonly role: 'leader' | 'sync_standby' | 'replica'
  readonly state: string
  readonly timeline?: number
  readonly lag?: number | 'unknown'
}

/** Passwords, which are the same on all nodes. */
export interface Passwords {
  readonly superuser: string
  readonly replication: string
}

/** The part of patroni.yaml that is changed. */
interface PatroniConfig {
  readonly postgresql: Readonly<Record<string, unknown>>
}

interface NodeOptions {
  readonly name: string
  /** The parent of the node's folder. */
  readonly folder: string
  readonly etcdPort: number
  readonly passwords: Passwords
}

const template = new URL('../../../deploy/patroni/patroni.yaml', import.meta.url)

/** The programs of PostgreSQL that Patroni needs. */
const programs = ['initdb', 'postgres', 'pg_controldata', 'pg_basebackup', 'pg_rewind', 'pg_isready']

/** Milliseconds for a response of Patroni's REST API. */
const responseTimeout = 2_000

const fetchFromPatroni = async (url: string): Promise<unknown> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(responseTimeout) })
    return await response.json()
  } catch {
    return null
  }
}

/** Creates a node without starting it. A teardown kills it. */
export const createNode = async (
  t: Teardown,
  { name, folder: parent, etcdPort, passwords }: NodeOptions,
): Promise<Node> => {
  const identity = findIdentity()
  const folder = join(parent, name)
  await mkdir(folder)
  const own = { database: await freePort(), api: await freePort() }
  const links = {
    database: await startTcpProxy(t, own.database),
    api: await startTcpProxy(t, own.api),
    etcd: await startTcpProxy(t, etcdPort),
  }
  const dataFolder = join(folder, 'data')
  const configFile = join(folder, 'patroni.yaml')
  const config = load(await readFile(template, 'utf8')) as PatroniConfig
  const ownConfig = {
    ...config,
    name,
    restapi: { listen: `127.0.0.1:${own.api}`, connect_address: `127.0.0.1:${links.api.port}` },
    // Without use_proxies, Patroni would discover the etcd member behind the proxy and connect to it directly.
    etcd3: { host: `127.0.0.1:${links.etcd.port}`, use_proxies: true },
    postgresql: {
      ...config.postgresql,
      listen: `127.0.0.1:${own.database}`,
      connect_address: `127.0.0.1:${links.database.port}`,
      data_dir: dataFolder,
      bin_dir: findBinaries(programs),
      pgpass: join(folder, 'pgpass'),
      authentication: {
        superuser: { username: 'postgres', password: passwords.superuser },
        replication: { username: 'replicator', password: passwords.replication },
        rewind: { username: 'rewind', password: passwords.replication },
      },
      parameters: { unix_socket_directories: folder },
    },
  }
  await writeFile(configFile, dump(ownConfig), { mode: 0o600 })
  await giveTo(identity, folder, configFile)

  let patroni: ChildProcess | null = null
  let isReachable = false

  const serverPid = async (): Promise<number | null> => {
    const lines = await readFile(join(dataFolder, 'postmaster.pid'), 'utf8').catch(() => '')
    const pid = Number.parseInt(lines, 10)
    if (!(pid > 0)) return null
    // The file of a killed server remains, and another process may have its process id.
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return command.includes(dataFolder) ? pid : null
  }

  const signalAll = async (signal: NodeJS.Signals): Promise<void> => {
    const server = await serverPid()
    patroni?.kill(signal)
    if (server !== null) signalServer(server, signal)
  }

  const setPassage = (passage: 'pass' | 'swallow'): void => {
    for (const link of Object.values(links)) link.passage = passage
  }

  const node: Node = {
    name,
    ports: { database: links.database.port, api: links.api.port },
    configFile,
    isReachable: () => isReachable,
    async start() {
      patroni = await spawnLogged(['patroni', configFile], join(folder, 'patroni.log'), {
        ...identity,
        cwd: folder,
      })
      isReachable = true
    },
    async kill() {
      isReachable = false
      const exited = patroni !== null && isRunning(patroni) && once(patroni, 'exit')
      await signalAll('SIGKILL')
      await exited
      await eventually(`the server of ${name} has exited`, async () => (await serverPid()) === null)
    },
    async freeze() {
      isReachable = false
      await signalAll('SIGSTOP')
    },
    async thaw() {
      await signalAll('SIGCONT')
      isReachable = true
    },
    isolate() {
      isReachable = false
      setPassage('swallow')
    },
    reconnect() {
      setPassage('pass')
      // Open connections have lost data.
      for (const link of Object.values(links)) link.cut()
      isReachable = true
    },
    async role() {
      const response = (await fetchFromPatroni(`http://127.0.0.1:${own.api}/patroni`)) as {
        role?: string
      } | null
      return response?.role ?? null
    },
    async members() {
      const response = (await fetchFromPatroni(`http://127.0.0.1:${own.api}/cluster`)) as {
        members?: readonly Member[]
      } | null
      return response?.members ?? null
    },
  }
  t.teardown(() => node.kill())
  return node
}
