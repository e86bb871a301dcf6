import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { timeLimits } from '../../src/http/slow-clients.ts'
import { createDecoder, type Decoder } from '../../src/images/decoder.ts'
import { UnsupportedImage } from '../../src/images/errors.ts'
import { createThumbnailer, type ThumbnailRequest } from '../../src/images/thumbnailer.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { eventually } from '../fixture/eventually.ts'
import { blackPng, growWebp, interlacedPng, longComment, redGif } from '../fixture/images.ts'
import { runProcess } from '../fixture/process.ts'
import { type Call, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'
import { countStatuses } from '../fixture/tasks.ts'

type Attachment = components['schemas']['Attachment']

const mebibyte = 1_048_576
const { storage: files, keys } = await openTestStorage(t)

/** Run before the storage opens or stores a file. */
let hooks = { open: async (_key: string) => {}, put: async () => {} }
const noHooks = { ...hooks }

/** The number of bytes read from the storage; infinite if a whole file was read. */
let bytesRead = 0

const storage: Storage = {
  ...files,
  async open(key, range) {
    await hooks.open(key)
    bytesRead += range === undefined ? Infinity : range.end - range.start + 1
    return files.open(key, range)
  },
  async put(source, options) {
    await hooks.put()
    return files.put(source, options)
  },
}

/** Sets hooks of the storage until the test ends. */
const setHooks = (t: Test, actions: Partial<typeof noHooks>): void => {
  t.teardown(() => (hooks = noHooks))
  hooks = { ...noHooks, ...actions }
}

/** Time limits in milliseconds that suffice on a busy machine. */
const decoderTimes = { decode: 100_000, idle: 60_000 }

const decoder = createDecoder(decoderTimes)

/** The sizes of the files sent to the decoder, in order. */
let decoded: number[] = []

/** Runs before the decoder gets a file. */
type DecodeHook = () => Promise<void>

const observedDecoder = (hook: DecodeHook = async () => {}): Decoder => ({
  pid: null,
  close() {},
  async decode(request, open) {
    decoded.push(request.size)
    await hook()
    return decoder.decode(request, open)
  },
})

const queueLimits = { maxWaiting: 16, maxWaitingInAll: 20, maxWait: 100_000 }
let thumbnailer = createThumbnailer({ decoder: observedDecoder(), limits: queueLimits })

/** Replaces the thumbnailer until the test ends. */
const replaceThumbnailer = (
  t: Test,
  { hook, limits }: { readonly hook?: DecodeHook; readonly limits?: Partial<typeof queueLimits> },
): void => {
  const previous = thumbnailer
  t.teardown(() => (thumbnailer = previous))
  decoded = []
  thumbnailer = createThumbnailer({ decoder: observedDecoder(hook), limits: { ...queueLimits, ...limits } })
}

/** The requests to the thumbnailer, so that a test can see which callers wait or have left. */
let rendering: ThumbnailRequest[] = []

const service = await startService(t, {
  storage,
  thumbnailer: {
    render(request) {
      rendering.push(request)
      return thumbnailer.render(request)
    },
    close: () => decoder.close(),
  },
  timeLimits: { ...timeLimits, answer: 120_000 },
  config: { attachmentMaxBytes: 40 * mebibyte },
})
await service.register('admin')
const owner = await service.register('owner')
const other = await service.register('other')
const { token } = owner
const { body: task } = await service.expect('createTask', 201, {
  token,
  body: { title: 'With pictures', assignee_id: other.id },
})

/** Attaches a file. By default, its name and type are not those of an image. */
const attach = async (
  content: Uint8Array | string,
  name = 'file',
  type = 'text/plain',
): Promise<Attachment> => {
  const upload = { token, params: { task_id: task.id }, body: fileForm(content, name, type) }
  return (await service.expect('addTaskAttachment', 201, upload)).body
}

const thumbnailOf = ({ id }: Pick<Attachment, 'id'>, more: Call = {}) =>
  service.call('getThumbnail', { token, params: { attach_id: id }, ...more })

/** The thumbnail of an attachment, which must exist. */
const imageOf = async (attachment: Attachment, width?: number) => {
  const { status, body } = await thumbnailOf(attachment, width === undefined ? {} : { query: { width } })
  if (status !== 200) throw new Error(`No thumbnail: ${JSON.stringify(body)}`)
  const bytes = Buffer.from(body as Uint8Array)
  return { bytes, header: await sharp(bytes).metadata() }
}

const canvas = (width: number, height: number, background = 'red') =>
  sharp({ create: { width, height, channels: 3, background } })

const photo = () => canvas(600, 300).jpeg().toBuffer()

/** The result of an action, and the peak resident memory of the decoder meanwhile in bytes. */
const peakOfDecoder = async <T>(action: () => Promise<T>) => {
  let peak = 0
  const measure = (): void => {
    try {
      const status = readFileSync(`/proc/${decoder.pid}/status`, 'utf8')
      // A process that is exiting has no VmHWM.
      peak = Math.max(peak, 1_024 * Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0))
    } catch {
      // No decoder is running, or the system has no /proc.
    }
  }
  const timer = setInterval(measure, 5)
  try {
    return { result: await action(), peak }
  } finally {
    clearInterval(timer)
  }
}

/** The files that an action adds to the storage. */
const filesAddedBy = async (action: () => Promise<unknown>): Promise<string[]> => {
  const known = new Set(await keys())
  await action()
  return (await keys()).filter((key) => !known.has(key))
}

const areRemoved = (gone: readonly string[]) => async () => {
  const left = await keys()
  return gone.every((key) => !left.includes(key))
}

t.test('getThumbnail', async (t) => {
  t.test('200 for each image format, whatever the declared type', async (t) => {
    for (const format of ['png', 'jpeg', 'gif', 'webp', 'avif'] as const) {
      const options = format === 'avif' ? { effort: 0 } : {}
      const attachment = await attach(await canvas(600, 300).toFormat(format, options).toBuffer())
      const { status, headers, body } = await thumbnailOf(attachment)
      t.equal(status, 200, format)
      t.equal(headers.get('content-type'), 'image/webp')
      t.equal(headers.get('cache-control'), 'private, no-cache')
      t.equal(headers.get('x-content-type-options'), 'nosniff')
      const bytes = Buffer.from(body as Uint8Array)
      t.equal(headers.get('content-length'), String(bytes.length))
      t.equal(headers.get('etag'), `"${createHash('sha256').update(bytes).digest('hex')}"`)
      t.match(await sharp(bytes).metadata(), { format: 'webp', width: 256, height: 128 })
    }
  })

  t.test('200: the width is rounded up, and no image is enlarged', async (t) => {
    const wide = await attach(await photo())
    for (const [asked, given] of [
      [16, 16],
      [17, 32],
      [100, 128],
      [256, 256],
      [257, 512],
      [1_024, 600],
    ] as const)
      t.equal((await imageOf(wide, asked)).header.width, given, String(asked))
    const small = await attach(await canvas(40, 20).png().toBuffer())
    t.match((await imageOf(small)).header, { width: 40, height: 20 })
  })

  t.test('200: the height is at most four times the requested width', async (t) => {
    const { header } = await imageOf(await attach(await canvas(10, 4_000).png().toBuffer()), 16)
    t.match(header, { width: 1, height: 64 })
  })

  t.test('200: the first frame of an animation', async (t) => {
    const frames = await Promise.all(['red', 'blue'].map((color) => canvas(30, 30, color).png().toBuffer()))
    const animation = await sharp(frames, { join: { animated: true } })
      .gif()
      .toBuffer()
    const { bytes, header } = await imageOf(await attach(animation))
    t.match(header, { width: 30, height: 30 })
    const [red = 0, , blue = 255] = await sharp(bytes).raw().toBuffer()
    t.ok(red > 200 && blue < 50, 'it is red')
  })

  t.test('200: rotated upright, without metadata', async (t) => {
    const taken = await canvas(600, 300)
      .withMetadata({ orientation: 6 })
      .withExifMerge({ IFD0: { Copyright: 'Somebody' } })
      .jpeg()
      .toBuffer()
    t.match(await sharp(taken).metadata(), { width: 600, height: 300, orientation: 6 })
    const { bytes, header } = await imageOf(await attach(taken))
    t.match(header, { width: 256, height: 512, orientation: undefined, exif: undefined })
    t.notMatch(bytes.toString('latin1'), 'Somebody')
  })

  t.test('200: rendered once for 64 requests at the same time', async (t) => {
    const attachment = await attach(await photo())
    replaceThumbnailer(t, {})
    const replies: Awaited<ReturnType<typeof thumbnailOf>>[] = []
    const added = await filesAddedBy(async () => {
      const requests = Array.from({ length: 64 }, (_, at) =>
        thumbnailOf(attachment, { token: at % 2 === 0 ? token : other.token }),
      )
      replies.push(...(await Promise.all(requests)))
    })
    t.equal(decoded.length, 1)
    t.equal(added.length, 1, 'one file is stored')
    t.strictSame(countStatuses(replies), { 200: 64 })
    t.equal(new Set(replies.map(({ headers }) => headers.get('etag'))).size, 1)
    t.equal((await thumbnailOf(attachment)).status, 200)
    t.equal(decoded.length, 1, 'it is not decoded again')
  })

  t.test('404 if the attachment is deleted while its thumbnail is rendered', async (t) => {
    const attachment = await attach(await photo())
    setHooks(t, {
      put: async () => {
        await service.expect('deleteAttachment', 204, { token, params: { attach_id: attachment.id } })
      },
    })
    t.equal((await thumbnailOf(attachment)).status, 404)
  })

  t.test('404 if the attachment is deleted before its file is opened', async (t) => {
    for (const isRendered of [false, true]) {
      const known = new Set(await keys())
      const attachment = await attach(await photo())
      if (isRendered) await imageOf(attachment)
      const own = (await keys()).filter((key) => !known.has(key))
      setHooks(t, {
        open: async () => {
          await service.call('deleteAttachment', { token, params: { attach_id: attachment.id } })
          await eventually('its files are removed', areRemoved(own))
        },
      })
      t.equal(
        (await thumbnailOf(attachment)).status,
        404,
        isRendered ? 'rendered before' : 'not rendered yet',
      )
      setHooks(t, {})
    }
  })

  t.test('410 if the storage has lost the file', async (t) => {
    const known = new Set(await keys())
    const attachment = await attach(await photo())
    const key = (await keys()).find((one) => !known.has(one)) ?? ''
    await files.remove(key)
    const { status, body } = await thumbnailOf(attachment)
    t.equal(status, 410)
    t.notMatch(JSON.stringify(body), key)
  })

  t.test('415 for files that are not images, whatever the declared type', async (t) => {
    const tiff = await canvas(20, 20).tiff().toBuffer()
    const png = await canvas(20, 20).png().toBuffer()
    const svg =
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    const contents: Readonly<Record<string, Uint8Array | string>> = {
      'an empty file': '',
      'a word': 'word',
      'an HTML page': '<!doctype html><title>A page</title>',
      'an SVG image': svg,
      'a TIFF image': tiff,
      'a truncated PNG image': png.subarray(0, 40),
      'a PNG signature and other bytes': Buffer.concat([png.subarray(0, 8), Buffer.alloc(100, 'x')]),
      'a video': Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom', 'latin1'),
    }
    for (const [what, content] of Object.entries(contents)) {
      const { status, headers, body } = await thumbnailOf(await attach(content, 'picture.png', 'image/png'))
      t.equal(status, 415, what)
      t.match(body, { code: 'unsupported_image' })
      t.equal(headers.get('etag'), null)
    }
  })

  t.test('the decoder itself rejects other formats', async (t) => {
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    for (const content of [svg, await canvas(20, 20).tiff().toBuffer()]) {
      const request = { size: content.length, width: 16, height: 64 }
      const open = async () => Readable.from([content])
      await t.rejects(decoder.decode(request, open), UnsupportedImage)
    }
  })

  t.test('415: fewer than 100 bytes of a file that is not an image are read', async (t) => {
    const attachment = await attach('text '.repeat(100_000), 'picture.png', 'image/png')
    bytesRead = 0
    t.equal((await thumbnailOf(attachment)).status, 415)
    t.ok(bytesRead > 0 && bytesRead < 100, `${bytesRead} bytes`)
  })

  t.test('415: a file that cannot be decoded is decoded once', async (t) => {
    const image = await photo()
    const attachment = await attach(image.subarray(0, image.length / 2))
    replaceThumbnailer(t, {})
    for (const width of [64, 64, 128])
      t.match(await thumbnailOf(attachment, { query: { width } }), { status: 415 })
    t.equal(decoded.length, 1)
  })

  t.test('422 for images that exceed the limits of pixels, memory or time', async (t) => {
    const still = await canvas(60, 30)
      .withExif({ IFD0: { Copyright: 'nobody' } })
      .webp()
      .toBuffer()
    const frames = await Promise.all(['red', 'blue'].map((color) => canvas(60, 30, color).png().toBuffer()))
    const moving = await sharp(frames, { join: { animated: true } })
      .webp()
      .toBuffer()
    const frame = moving.subarray(moving.lastIndexOf('ANMF'))
    const image = await photo()
    const segments = Buffer.alloc(8_000_000, Buffer.from([0xff, 0xe1, 0, 2]))
    const comments = Array<Buffer>(64).fill(longComment(7_500_000))
    const avif = await canvas(3_000, 2_700).avif({ effort: 0 }).toBuffer()

    const pixels = /^The image has more than \d+ pixels/
    const memory = /too much memory/
    const attacks: Readonly<Record<string, readonly [Buffer, RegExp]>> = {
      'a PNG image of 900 million pixels': [blackPng({ width: 30_000, height: 30_000 }), pixels],
      'a PNG image that is too high': [blackPng({ width: 1, height: 32_769 }), pixels],
      'a PNG image of one column': [blackPng({ width: 1, height: 50_000_000 }), pixels],
      'an AVIF image of 8.1 million pixels': [avif, pixels],
      'an interlaced PNG image of 64 bits per pixel': [interlacedPng(5_600), memory],
      'a PNG image with half a gigabyte of comments': [
        blackPng({ width: 60, height: 30, chunks: comments }),
        memory,
      ],
      'a GIF image of one large frame': [redGif({ side: 7_000 }), memory],
      'a JPEG image of two million empty segments': [
        Buffer.concat([image.subarray(0, 2), segments, image.subarray(2)]),
        memory,
      ],
      'a WebP image of four million empty chunks': [
        growWebp(still, Buffer.from('none\0\0\0\0'), 4_000_000),
        memory,
      ],
      'a WebP image of 300,000 frames': [growWebp(moving, frame, 300_000), /too long/],
    }
    for (const [what, [content, detail]] of Object.entries(attacks)) {
      const attachment = await attach(content)
      const own = process.memoryUsage.rss()
      const { result, peak } = await peakOfDecoder(() => thumbnailOf(attachment))
      t.match(result, { status: 422, body: { code: 'image_too_large', detail } }, what)
      t.ok(peak < 320 * mebibyte, `${what}: the decoder takes ${Math.round(peak / mebibyte)} MiB`)
      const grown = process.memoryUsage.rss() - own
      t.ok(grown < 64 * mebibyte, `${what}: the service takes ${Math.round(grown / mebibyte)} MiB more`)
    }
    t.equal((await thumbnailOf(await attach(image))).status, 200, 'other images are decoded')
  })

  t.test('200 for large images within the limits', async (t) => {
    const images = {
      'a PNG image of 49 million pixels': blackPng({ width: 7_000, height: 7_000 }),
      'a PNG image of the maximum height': blackPng({ width: 1, height: 32_768 }),
      'a GIF image of 100,000 frames': redGif({ frames: 100_000 }),
      'an AVIF image of 7.5 million pixels': await canvas(3_000, 2_500).avif({ effort: 0 }).toBuffer(),
    }
    for (const [what, image] of Object.entries(images)) {
      const { result, peak } = await peakOfDecoder(async () => thumbnailOf(await attach(image)))
      t.equal(result.status, 200, what)
      t.ok(peak < 320 * mebibyte, `${what}: the decoder takes ${Math.round(peak / mebibyte)} MiB`)
    }
  })

  t.test('422 for a file that is too large', async (t) => {
    const signature = blackPng({ width: 1, height: 1 }).subarray(0, 16)
    const attachment = await attach(Buffer.concat([signature, Buffer.alloc(32 * mebibyte)]))
    t.match(await thumbnailOf(attachment), { status: 422, body: { code: 'image_too_large' } })
  })

  t.test('429 for too many requests of one user, which delay others by one image', async (t) => {
    const gate = Promise.withResolvers<void>()
    t.teardown(gate.resolve)
    replaceThumbnailer(t, { hook: () => gate.promise })
    const image = await photo()
    const attachments: Attachment[] = []
    while (attachments.length < 70) attachments.push(await attach(image))
    const others = await attach(Buffer.concat([image, Buffer.from('longer')]))
    const refusals = Promise.withResolvers<void>()
    let refused = 0
    const requests = attachments.map(async (attachment) => {
      const reply = await thumbnailOf(attachment)
      if (reply.status === 429) refused += 1
      if (refused === 53) refusals.resolve()
      return reply
    })
    await refusals.promise
    const theirs = thumbnailOf(others, { token: other.token })
    await eventually("the other user's request waits", async () => rendering.at(-1)?.caller === other.id)
    gate.resolve()
    t.equal((await theirs).status, 200)
    const replies = await Promise.all(requests)
    t.strictSame(countStatuses(replies), { 200: 17, 429: 53 })
    for (const { status, headers } of replies)
      if (status === 429) t.ok(Number(headers.get('retry-after')) > 0)
    t.equal(decoded.indexOf(others.size), 1, "the other user's image is the second of 18")
    t.equal(decoded.length, 18)
  })

  t.test('503 if too many requests of all users wait', async (t) => {
    const gate = Promise.withResolvers<void>()
    t.teardown(gate.resolve)
    replaceThumbnailer(t, { hook: () => gate.promise, limits: { maxWaitingInAll: 1 } })
    const [first, second, third] = [
      await attach(await photo()),
      await attach(await photo()),
      await attach(await photo()),
    ]
    const running = thumbnailOf(first)
    await eventually('the first image is at the decoder', async () => decoded.length === 1)
    const waiting = [second, third].map((attachment) => thumbnailOf(attachment, { token: other.token }))
    const refused = await Promise.race(waiting)
    t.match(refused, { status: 503, body: { code: 'service_unavailable' } })
    t.ok(Number(refused.headers.get('retry-after')) > 0)
    gate.resolve()
    t.strictSame(countStatuses(await Promise.all([running, ...waiting])), { 200: 2, 503: 1 })
  })

  t.test('200: requests of disconnected clients leave the queue', async (t) => {
    const gate = Promise.withResolvers<void>()
    t.teardown(gate.resolve)
    replaceThumbnailer(t, { hook: () => gate.promise })
    const first = await attach(await photo())
    const abandoned = await attach(Buffer.concat([await photo(), Buffer.from('longer')]))
    const running = thumbnailOf(first)
    await eventually('the first image is at the decoder', async () => decoded.length === 1)
    rendering = []
    const client = new AbortController()
    const headers = { authorization: `Bearer ${token}` }
    const url = `${service.url}/attachments/${abandoned.id}/thumbnail`
    const gone = fetch(url, { headers, signal: client.signal })
    await eventually('the second request waits', async () => rendering.length === 1)
    const [request] = rendering
    if (request === undefined) throw new Error('No request waits')
    const left = once(request.signal, 'abort')
    client.abort()
    await t.rejects(gone)
    await left
    gate.resolve()
    t.equal((await running).status, 200)
    t.equal((await thumbnailOf(await attach(await photo()))).status, 200)
    t.notOk(decoded.includes(abandoned.size))
  })

  t.test('200 after the decoder was killed during an image', async (t) => {
    const attachment = await attach(await photo())
    let kills = 1
    setHooks(t, {
      // The file is opened once for its signature, and then for the decoder.
      open: async () => {
        if (bytesRead === 0) return
        if (kills > 0 && decoder.pid !== null) process.kill(decoder.pid, 'SIGKILL')
        kills -= 1
      },
    })
    replaceThumbnailer(t, {})
    bytesRead = 0
    t.equal((await thumbnailOf(attachment)).status, 200)
    t.equal(decoded.length, 2)
  })

  t.test('415 for an image that kills the decoder each time', async (t) => {
    const attachment = await attach(await photo())
    setHooks(t, {
      open: async () => {
        if (bytesRead > 0 && decoder.pid !== null) process.kill(decoder.pid, 'SIGKILL')
      },
    })
    replaceThumbnailer(t, {})
    bytesRead = 0
    t.equal((await thumbnailOf(attachment)).status, 415)
    t.equal(decoded.length, 2)
    hooks = noHooks
    t.equal((await thumbnailOf(attachment)).status, 415, 'it is not decoded again')
    t.equal(decoded.length, 2)
    t.equal((await thumbnailOf(await attach(await photo()))).status, 200, 'other images are decoded')
  })

  t.test('503 if the storage cannot be read', async (t) => {
    const attachment = await attach(await photo())
    setHooks(t, { open: () => Promise.reject(new StorageUnavailable()) })
    t.equal((await thumbnailOf(attachment)).status, 503)
    hooks = noHooks
    t.equal((await thumbnailOf(attachment)).status, 200, 'after the storage recovers')
  })

  t.test('503 if the file of a thumbnail is lost, which is then rendered again', async (t) => {
    const attachment = await attach(await photo())
    const [lost = ''] = await filesAddedBy(() => thumbnailOf(attachment))
    await files.remove(lost)
    const { status, headers } = await thumbnailOf(attachment)
    t.equal(status, 503)
    t.ok(Number(headers.get('retry-after')) > 0)
    const added = await filesAddedBy(() => imageOf(attachment))
    t.equal(added.length, 1)
  })

  t.test('507 if the storage is full', async (t) => {
    const attachment = await attach(await photo())
    setHooks(t, { put: () => Promise.reject(new StorageFull()) })
    t.equal((await thumbnailOf(attachment)).status, 507)
  })
})

t.test('thumbnails are removed with their attachment', async (t) => {
  for (const [what, remove] of [
    [
      'that is deleted',
      ({ id }: Attachment) => service.expect('deleteAttachment', 204, { token, params: { attach_id: id } }),
    ],
    [
      'whose task is permanently deleted',
      async ({ task_id }: Attachment) => {
        await service.expect('deleteTask', 204, { token, params: { task_id } })
        await service.expect('deleteTrashedTask', 204, { token, params: { task_id } })
      },
    ],
  ] as const) {
    const { body } = await service.expect('createTask', 201, { token, body: { title: 'To be deleted' } })
    const upload = { token, params: { task_id: body.id }, body: fileForm(await photo()) }
    const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
    const added = await filesAddedBy(() => Promise.all([16, 32].map((width) => imageOf(attachment, width))))
    t.equal(added.length, 2)
    await remove(attachment)
    await eventually(`the thumbnails of an attachment ${what} are removed`, areRemoved(added))
  }
})

t.test('an idle decoder exits', async () => {
  const decoder = createDecoder({ ...decoderTimes, idle: 1 })
  const image = await photo()
  const request = { size: image.length, width: 16, height: 64 }
  await decoder.decode(request, async () => Readable.from([image]))
  await eventually('the decoder has exited', async () => decoder.pid === null)
})

t.test('a decoder exits when its service is killed', async (t) => {
  const program = fileURLToPath(new URL('../fixture/dying-decoder-parent.ts', import.meta.url))
  const { code, output } = await runProcess({}, program)
  t.equal(code, null)
  const pid = Number(output)
  t.ok(pid > 0, output)
  await eventually('the decoder has exited', async () => !isRunning(pid))
})

/** Whether a process exists and is not a zombie. */
const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
