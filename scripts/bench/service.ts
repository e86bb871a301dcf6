import { join } from 'node:path'
import { createClient } from '../../test/fixture/service.ts'
import type { Teardown } from '../run-to-end.ts'
import { type Server, service, startServer } from './processes.ts'
import type { Target } from './transfer.ts'

/** Where a server runs: on a processor, with its files in a folder. */
interface Place {
  readonly core: number | null
  readonly folder: string
}

/** The service, as somebody uses it who has a task to attach files to. */
interface ServiceUnderTest {
  readonly server: Server
  readonly target: Target
  /** Where the task takes files. */
  readonly uploads: string
}

/** Starts the service in production, taking files of up to 2 GiB at any rate. */
export const startService = async (
  t: Teardown,
  { core, folder }: Place,
  environment: Readonly<Record<string, string>>,
): Promise<ServiceUnderTest> => {
  const production = {
    DATA_DIR: join(folder, 'data'),
    RATE_LIMIT: 'off',
    ATTACHMENT_MAX_BYTES: String(2 ** 31),
    ...environment,
  }
  const server = await startServer(t, {
    program: service,
    environment: production,
    core,
    folder,
  })
  const client = createClient(server.url, () => undefined)
  const { token } = await client.register('bench')
  const { body: task } = await client.expect('createTask', 201, { token, body: { title: 'With files' } })
  const headers = { authorization: `Bearer ${token}` }
  return { server, target: { url: server.url, headers }, uploads: `/tasks/${task.id}/attachments` }
}
