import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir, open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dump, load } from 'js-yaml'
import { eventually } from '../../test/fixture/eventually.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { startTcpProxy } from '../../test/fixture/tcp-proxy.ts'
import { findBinaries, findIdentity, signalServer } from '../postgres.ts'
import type { Teardown } from '../run-to-end.ts'

/** A PostgreSQL server under Patroni, as a machine of its own: others reach it by links that can be cut. */
export interface Node {
  readonly name: string
  /** The ports of its PostgreSQL and of Patroni's REST API, as others see them. */
  readonly ports: { readonly database: number; readonly api: number }
  /** The configuration, for patronictl. */
  readonly configFile: string
  /** False while it is killed, frozen or cut off. */
  readonly isReachable: () => boolean
  start(): Promise<void>
  /** Kills all of its processes at once. */
  kill(): Promise<void>
  /** Stops all of its processes in their tracks, with connections open. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** Drops everything between it and the others, etcd included. */
  cutOff(): void
  reconnect(): void
  /** The role that it takes itself to have, asked on its own machine; null if it does not answer. */
  role(): Promise<string | null>
  /** Patroni's view of all nodes; null if it does not answer. */
  members(): Promise<readonly Member[] | null>
}

/** A node as Patroni describes it. */
export interface Member {
  readonly name: string
  readonly role: 'leader' | 'sync_standby' | 'replica'
  readonly state: string
  readonly timeline?: number
  readonly lag?: number | 'unknown'
}

/** The passwords of a node, which all nodes share. */
export interface Passwords {
  readonly superuser: string
  readonly replication: string
}

/** The part of patroni.yaml that is different here. */
interface PatroniConfig {
  readonly postgresql: Readonly<Record<string, unknown>>
}

interface NodeOptions {
  readonly name: string
  /** The parent of its folder. */
  readonly folder: string
  readonly etcdPort: number
  readonly passwords: Passwords
}

const template = new URL('../../deploy/patroni/patroni.yaml', import.meta.url)

/** The folder of the programs of PostgreSQL that Patroni runs. */
export const findPatroniBinaries = (): string =>
  findBinaries(['initdb', 'postgres', 'pg_controldata', 'pg_basebackup', 'pg_rewind', 'pg_isready'])

/** Milliseconds in which a node has to answer what is asked about it. */
const answerWithin = 2_000

const askPatroni = async (url: string): Promise<unknown> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerWithin) })
    return await response.json()
  } catch {
    return null
  }
}

const hasExited = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null

/** Prepares a node, which is not started yet. It is killed when `t` ends. */
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
    // Without use_proxies, Patroni would find the member of etcd behind the link, and go there.
    etcd3: { host: `127.0.0.1:${links.etcd.port}`, use_proxies: true },
    postgresql: {
      ...config.postgresql,
      listen: `127.0.0.1:${own.database}`,
      connect_address: `127.0.0.1:${links.database.port}`,
      data_dir: dataFolder,
      bin_dir: findPatroniBinaries(),
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
  const { uid, gid } = identity
  if (uid !== undefined && gid !== undefined)
    await Promise.all([folder, configFile].map((path) => chown(path, uid, gid)))

  let patroni: ChildProcess | null = null
  let isReachable = false

  const serverPid = async (): Promise<number | null> => {
    const lines = await readFile(join(dataFolder, 'postmaster.pid'), 'utf8').catch(() => '')
    const pid = Number.parseInt(lines, 10)
    if (!(pid > 0)) return null
    // The file of a killed server stays, and its id may be somebody else's by now.
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
      const log = await open(join(folder, 'patroni.log'), 'a')
      patroni = spawn('patroni', [configFile], {
        ...identity,
        cwd: folder,
        stdio: ['ignore', log.fd, log.fd],
      })
      await log.close()
      isReachable = true
    },
    async kill() {
      isReachable = false
      const ended = patroni === null || hasExited(patroni) ? null : once(patroni, 'exit')
      await signalAll('SIGKILL')
      await ended
      await eventually(`the server of ${name} has ended`, async () => (await serverPid()) === null)
    },
    async freeze() {
      isReachable = false
      await signalAll('SIGSTOP')
    },
    async thaw() {
      await signalAll('SIGCONT')
      isReachable = true
    },
    cutOff() {
      isReachable = false
      setPassage('swallow')
    },
    reconnect() {
      setPassage('pass')
      // What was dropped is missing in connections that were open.
      for (const link of Object.values(links)) link.cut()
      isReachable = true
    },
    async role() {
      const answer = (await askPatroni(`http://127.0.0.1:${own.api}/patroni`)) as { role?: string } | null
      return answer?.role ?? null
    },
    async members() {
      const answer = (await askPatroni(`http://127.0.0.1:${own.api}/cluster`)) as {
        members?: readonly Member[]
      } | null
      return answer?.members ?? null
    },
  }
  t.teardown(() => node.kill())
  return node
}
