import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '../../../src/db/engine/connection.ts'
import { eventually } from '../../../test/fixture/eventually.ts'
import { freePort } from '../../../test/fixture/ports.ts'
import { createRun } from '../../run/commands.ts'
import { findIdentity, giveTo } from '../../run/postgres.ts'
import { answers, startProgram, stopProgram } from '../../run/processes.ts'
import type { Teardown } from '../../run/run-to-end.ts'
import { createNode, type Member, type Node } from './node.ts'

/** Three PostgreSQL nodes managed by Patroni, with etcd and HAProxy. */
export interface ReplicatedDatabase {
  /** Connects to the primary. */
  readonly url: string
  readonly proxy: Restartable
  /** The current primary or synchronous standby, as reported by a reachable node. */
  node(role: 'leader' | 'sync_standby'): Promise<Node>
  /** Resolves when a node other than `before` has the role. */
  untilAnother(role: 'leader' | 'sync_standby', before: Node): Promise<void>
  /** Resolves when there are a primary, a synchronous standby and another replica, with little lag. */
  untilHealthy(): Promise<void>
  /** Runs patronictl. */
  control(...parameters: readonly string[]): Promise<void>
}

/** A program that can be stopped and restarted at the same address. */
export interface Restartable {
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** Milliseconds for the recovery from a fault: three times the lease of the primary. */
const recoveryDeadline = 60_000

/** Milliseconds between two checks of the nodes. */
const checkInterval = 200

const nodeNames = ['node1', 'node2', 'node3']

const scope = 'taskwright'

const proxyTemplate = new URL('../../../deploy/patroni/haproxy.cfg', import.meta.url)

const acceptsConnections = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

const startEtcd = async (t: Teardown, folder: string): Promise<number> => {
  const [port, peerPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  const peer = `http://127.0.0.1:${peerPort}`
  const options = {
    name: 'etcd1',
    'data-dir': join(folder, 'etcd'),
    'listen-client-urls': url,
    'advertise-client-urls': url,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `etcd1=${peer}`,
    'log-level': 'warn',
  }
  const parameters = Object.entries(options).map(([name, value]) => `--${name}=${value}`)
  const log = join(folder, 'etcd.log')
  await startProgram(t, ['etcd', ...parameters], { log, isReady: () => answers(`${url}/health`) })
  return port
}

/** HAProxy with the configuration in deploy/patroni and the addresses of these nodes. */
const createProxy = async (
  t: Teardown,
  folder: string,
  nodes: readonly Node[],
): Promise<Restartable & { readonly port: number }> => {
  const port = await freePort()
  const config = nodes.reduce(
    (text, { name, ports }) =>
      text.replace(
        new RegExp(`server ${name} .*`),
        `server ${name} 127.0.0.1:${ports.database} check port ${ports.api}`,
      ),
    (await readFile(proxyTemplate, 'utf8')).replace(/bind .*/, `bind 127.0.0.1:${port}`),
  )
  const file = join(folder, 'haproxy.cfg')
  await writeFile(file, config)
  const options = { log: join(folder, 'haproxy.log'), isReady: () => acceptsConnections(port) }
  let running: ChildProcess | null = null
  return {
    port,
    async start() {
      running = await startProgram(t, ['haproxy', '-db', '-f', file], options)
    },
    async stop() {
      if (running !== null) await stopProgram(running)
    },
  }
}

/** Starts the nodes and HAProxy, with an empty database owned by the service. `isDirect`: its URL names the nodes, not HAProxy. */
export const startReplicatedDatabase = async (
  t: Teardown,
  { folder, isDirect }: { readonly folder: string; readonly isDirect: boolean },
): Promise<ReplicatedDatabase> => {
  await giveTo(findIdentity(), folder)
  const etcdPort = await startEtcd(t, folder)
  const newPassword = () => randomBytes(16).toString('hex')
  const passwords = { superuser: newPassword(), replication: newPassword() }
  const nodes: Node[] = []
  for (const name of nodeNames) nodes.push(await createNode(t, { name, folder, etcdPort, passwords }))
  await Promise.all(nodes.map((node) => node.start()))

  /** The members, as reported by a reachable node. */
  const members = async (): Promise<readonly Member[]> => {
    for (const node of nodes) {
      const reported = node.isReachable() ? await node.members() : null
      if (reported !== null) return reported
    }
    return []
  }

  const findNode = async (role: Member['role']): Promise<Node | null> => {
    const found = (await members()).find((member) => member.role === role && member.state === 'running')
    return nodes.find(({ name }) => name === found?.name) ?? null
  }

  const untilTrue = (condition: string, check: () => Promise<boolean>): Promise<void> =>
    eventually(
      condition,
      async () => {
        if (await check()) return true
        await pause(checkInterval)
        return false
      },
      recoveryDeadline,
    )

  const untilHealthy = (): Promise<void> =>
    untilTrue('the cluster is healthy', async () => isHealthy(await members()))

  const node = async (role: Member['role']): Promise<Node> => {
    const found = await findNode(role)
    if (found === null) throw new Error(`No node is the ${role}`)
    return found
  }

  await untilHealthy()
  const proxy = await createProxy(t, folder, nodes)
  await proxy.start()
  const password = newPassword()
  const { ports } = await node('leader')
  await createOwner(
    `postgres://postgres:${passwords.superuser}@127.0.0.1:${ports.database}/postgres`,
    password,
  )

  const direct = nodes.map((member) => `127.0.0.1:${member.ports.database}`).join(',')
  return {
    url: isDirect
      ? `postgres://${scope}:${password}@${direct}/${scope}?target_session_attrs=primary`
      : `postgres://${scope}:${password}@127.0.0.1:${proxy.port}/${scope}`,
    proxy,
    node,
    untilAnother: (role, before) =>
      untilTrue(`a ${role} other than ${before.name}`, async () => {
        const found = await findNode(role)
        return found !== null && found !== before
      }),
    untilHealthy,
    async control(...parameters) {
      const [{ configFile }] = nodes as [Node]
      await createRun(t, folder)('patronictl', '--config-file', configFile, ...parameters)
    },
  }
}

const isHealthy = (members: readonly Member[]): boolean => {
  const primary = members.find(({ role }) => role === 'leader')
  return (
    members.length === nodeNames.length &&
    members.some(({ role }) => role === 'sync_standby') &&
    members.every(
      ({ state, timeline, role, lag }) =>
        state === 'running' && timeline === primary?.timeline && (role === 'leader' || Number(lag) < maxLag),
    )
  )
}

/** Maximum lag of a replica in bytes. Under load, it is never zero for long. */
const maxLag = 1_048_576

/** Creates the user and the database of the service, as described in docs/operations/scaling.md. */
const createOwner = async (url: string, password: string): Promise<void> => {
  const sql = createClient({ url })
  try {
    await sql.unsafe(`create role ${scope} login password '${password}'`)
    await sql.unsafe(`create database ${scope} owner ${scope}`)
  } finally {
    await sql.end()
  }
}
