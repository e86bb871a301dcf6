import { Readable } from 'node:stream'
import t from 'tap'
import { selectStreamStart } from '../../../src/db/activity/event-stream.ts'
import { beginningOf } from '../../../src/domain/activity/event-positions.ts'
import { startReader } from '../../../src/services/activity/event-reader.ts'
import { createOpenStreams, type EventStream } from '../../../src/services/activity/event-stream.ts'
import { changesToBeKnown } from '../../fixture/changes.ts'
import { eventually } from '../../fixture/eventually.ts'
import { type Account, startService } from '../../fixture/service.ts'
import { taskActions } from '../../fixture/tasks.ts'

/** The reader that serves the live streams of a process. */

const service = await startService(t)
const { createTask } = taskActions(service)
const { db } = service.deps

t.test('a stream that an event cannot be sent to is ended, and the others get it', async (t) => {
  const ada = await service.register('ada')
  await changesToBeKnown(db)
  const { newest } = await selectStreamStart(db, beginningOf(1))
  const streams = createOpenStreams(() => undefined)
  const reader = startReader(newest, { db, log: service.app.log, streams, prepare: async () => undefined })
  t.teardown(() => reader.stop())
  const open = async (push?: () => never): Promise<EventStream> => {
    const content = new Readable({ read: () => undefined })
    if (push !== undefined) content.push = push
    const stream = streamOf(ada, content, newest)
    streams.add(stream)
    await reader.join(stream)
    return stream
  }
  const sending: boolean[] = []
  const broken = await open(() => {
    sending.push(reader.isSending())
    throw new Error('This stream is broken')
  })
  const whole = await open()
  for (const title of ['First', 'Second']) {
    await createTask(ada, { title })
    let text = ''
    await eventually('the other stream gets the event', async () => {
      text += String(whole.content.read() ?? '')
      return text.includes(title)
    })
  }
  t.notOk(streams.all.has(broken), 'its client resumes after the last event that it has')
  t.ok(streams.all.has(whole))
  t.strictSame(sending, [true], 'nothing more is sent to it')
  t.notOk(reader.isSending())
})

const streamOf = ({ id }: Account, content: Readable, position: EventStream['position']): EventStream => ({
  principal: {
    userId: id,
    role: 'member',
    timeZone: 'UTC',
    taskQuota: null,
    credential: { kind: 'session', sessionId: id },
  },
  all: false,
  expiresAt: Number.POSITIVE_INFINITY,
  content,
  slot: 0,
  position,
  isLive: false,
  unread: 0,
})
