import { join } from 'node:path'
import { createClient } from '../../test/fixture/service.ts'
import type { Teardown } from '../run-to-end.ts'
import { type Server, service, startServer } from './processes.ts'
import type { Target } from './transfer.ts'

/** The processor and the data folder of a server. */
interface Placement {
  readonly core: number | null
  readonly folder: string
}

/** The service, and a task of a user for uploads. */
interface ServiceUnderTest {
  readonly server: Server
  readonly target: Target
  /** The path for uploads. */
  readonly uploads: string
}

/** Starts the service with production settings, a maximum file size of 2 GiB and no rate limits. */
export const startService = async (
  t: Teardown,
  { core, folder }: Placement,
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
