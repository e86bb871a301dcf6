import { createHash } from 'node:crypto'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import type { components } from '../../generated/openapi.ts'
import { newId } from '../../src/db/ids.ts'
import { type Storage, StorageFull, StorageUnavailable } from '../../src/storage/storage.ts'
import { createThumbnailer, thumbnailQueue } from '../../src/thumbnailer.ts'
import { eventually } from '../fixture/eventually.ts'
import { blackPng, longComment } from '../fixture/images.ts'
import { type Account, type Call, fileForm, startService } from '../fixture/service.ts'
import { openTestStorage } from '../fixture/storage.ts'
import { countStatuses } from '../fixture/tasks.ts'

type Attachment = components['schemas']['Attachment']

const mebibyte = 1_048_576
const maxQueue = 4
const { storage: files, keys } = await openTestStorage(t)

/** What happens in the storage before a file is opened or put. */
let before = { open: async (_key: string) => {}, put: async () => {} }
const usual = { ...before }

/** How many bytes of files were asked for; all of a file counts as infinitely many. */
let bytesRead = 0

const storage: Storage = {
  ...files,
  async open(key, range) {
    await before.open(key)
    bytesRead += range === undefined ? Infinity : range.end - range.start + 1
    return files.open(key, range)
  },
  async put(source, options) {
    await before.put()
    return files.put(source, options)
  },
}

/** Changes what happens in the storage, until the test ends. */
const intervene = (t: Test, actions: Partial<typeof usual>): void => {
  t.teardown(() => (before = usual))
  before = { ...usual, ...actions }
}

const service = await startService(t, {
  storage,
  thumbnailer: createThumbnailer(thumbnailQueue(maxQueue)),
  config: { attachmentMaxBytes: 40 * mebibyte },
})
await service.register('admin')
const owner = await service.register('owner')
const { token } = owner
const { body: task } = await service.expect('createTask', 201, { token, body: { title: 'With pictures' } })

/** Attaches a file that claims to be no image, unless said otherwise. */
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

/** An image of a thumbnail that there must be. */
const imageOf = async (attachment: Attachment, width?: number) => {
  const { status, body } = await thumbnailOf(attachment, width === undefined ? {} : { query: { width } })
  if (status !== 200) throw new Error(`There is no thumbnail: ${JSON.stringify(body)}`)
  const bytes = Buffer.from(body as Uint8Array)
  return { bytes, header: await sharp(bytes).metadata() }
}

const canvas = (width: number, height: number, background = 'red') =>
  sharp({ create: { width, height, channels: 3, background } })

const photo = () => canvas(600, 300).jpeg().toBuffer()

/** The files that `action` has added when it is done. */
const filesMadeBy = async (action: () => Promise<unknown>): Promise<string[]> => {
  const known = new Set(await keys())
  await action()
  return (await keys()).filter((key) => !known.has(key))
}

const areGone = (gone: readonly string[]) => async () => {
  const left = await keys()
  return gone.every((key) => !left.includes(key))
}

t.test('getThumbnail', async (t) => {
  t.test('200: of each kind of image, whatever type was claimed', async (t) => {
    for (const format of ['png', 'jpeg', 'gif', 'webp', 'avif'] as const) {
      const attachment = await attach(await canvas(600, 300).toFormat(format).toBuffer())
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

  t.test('200: a strip is at most four times as high as the width', async (t) => {
    const { header } = await imageOf(await attach(await canvas(10, 4_000).png().toBuffer()), 16)
    t.match(header, { width: 1, height: 64 })
  })

  t.test('200: of several frames the first', async (t) => {
    const frames = await Promise.all(['red', 'blue'].map((color) => canvas(30, 30, color).png().toBuffer()))
    const animation = await sharp(frames, { join: { animated: true } })
      .gif()
      .toBuffer()
    const { bytes, header } = await imageOf(await attach(animation))
    t.match(header, { width: 30, height: 30 })
    const [red = 0, , blue = 255] = await sharp(bytes).raw().toBuffer()
    t.ok(red > 200 && blue < 50, 'it is the red one')
  })

  t.test('200: the first frame of a GIF image, and nothing behind it is read', async (t) => {
    const screen = Buffer.from('GIF89a\x01\0\x01\0\0\0\0', 'latin1')
    const comment = Buffer.from('!\xfe\x07Nothing\x02,;\0', 'latin1')
    // One pixel, of the first of two colours.
    const frame = (color: string) => Buffer.from(`2c000000000100010080${color}0000000202440100`, 'hex')
    const damaged = [frame('0000ff'), Buffer.from('This is no frame.')]
    const { bytes } = await imageOf(
      await attach(Buffer.concat([screen, comment, frame('ff0000'), comment, ...damaged])),
    )
    const [red = 0, , blue = 255] = await sharp(bytes).raw().toBuffer()
    t.ok(red > 200 && blue < 50, 'it is the red one')
  })

  t.test('200: upright, and without metadata', async (t) => {
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

  t.test('200: comments that would unpack to half a gigabyte stay packed', async (t) => {
    const comment = longComment(7_500_000)
    const chunks = Array.from({ length: 64 }, () => comment)
    const bomb = await attach(blackPng({ width: 60, height: 30, chunks }))
    t.ok(bomb.size < mebibyte, `${bomb.size} bytes`)
    // What is loaded for the first image does not count.
    await thumbnailOf(await attach(await photo()))
    const memory = process.memoryUsage.rss()
    t.match((await imageOf(bomb)).header, { width: 60, height: 30 })
    const grown = (process.memoryUsage.rss() - memory) / mebibyte
    t.ok(grown < 30, `it takes ${grown.toFixed(1)} MiB`)
  })

  t.test('200: made once, and by nobody twice', async (t) => {
    const attachment = await attach(await photo())
    const replies: Awaited<ReturnType<typeof thumbnailOf>>[] = []
    const made = await filesMadeBy(async () => {
      const requests = Array.from({ length: 1 + maxQueue }, () => thumbnailOf(attachment))
      replies.push(...(await Promise.all(requests)))
    })
    t.equal(made.length, 1, 'one file is left')
    t.same(new Set(replies.map(({ status }) => status)), new Set([200]))
    t.equal(new Set(replies.map(({ headers }) => headers.get('etag'))).size, 1)
    intervene(t, { put: () => Promise.reject(new StorageFull()) })
    t.equal((await thumbnailOf(attachment)).status, 200, 'nothing is made again')
  })

  t.test('200: HEAD has the headers and no body', async (t) => {
    const attachment = await attach(await photo())
    const seen = await thumbnailOf(attachment, { method: 'HEAD' })
    const got = await thumbnailOf(attachment)
    t.equal(seen.status, 200)
    t.equal(seen.body, null)
    for (const name of ['etag', 'content-length', 'content-type'])
      t.equal(seen.headers.get(name), got.headers.get(name), name)
  })

  t.test('304: If-None-Match', async (t) => {
    const attachment = await attach(await photo())
    const etag = (await thumbnailOf(attachment)).headers.get('etag') ?? ''
    const { status, headers, body } = await thumbnailOf(attachment, { headers: { 'if-none-match': etag } })
    t.equal(status, 304)
    t.equal(body, null)
    t.equal(headers.get('etag'), etag)
    t.equal((await thumbnailOf(attachment, { headers: { 'if-none-match': '"other"' } })).status, 200)
  })

  t.test('400: a width that there is not, a malformed id', async (t) => {
    const attachment = await attach(await photo())
    for (const width of ['15', '1025', '0', '-16', '16.5', '1e2', 'wide', '']) {
      const { status, body } = await thumbnailOf(attachment, { query: { width } })
      t.equal(status, 400, width)
      t.match(body, { errors: [{ pointer: '/width' }] })
    }
    t.equal((await thumbnailOf(attachment, { query: { height: 64 } })).status, 400)
    t.equal((await thumbnailOf({ id: '1' })).status, 400)
  })

  t.test('401', async (t) => {
    t.equal((await thumbnailOf({ id: newId() }, { token: undefined })).status, 401)
  })

  t.test('404: of an attachment that is not there or not seen', async (t) => {
    const stranger: Account = await service.register('stranger')
    const attachment = await attach(await photo())
    await thumbnailOf(attachment)
    t.equal((await thumbnailOf(attachment, { token: stranger.token })).status, 404)
    t.equal((await thumbnailOf({ id: newId() })).status, 404)
  })

  t.test('404: of an attachment that is deleted while its thumbnail is made', async (t) => {
    const attachment = await attach(await photo())
    intervene(t, {
      put: async () => {
        await service.expect('deleteAttachment', 204, { token, params: { attach_id: attachment.id } })
      },
    })
    t.equal((await thumbnailOf(attachment)).status, 404)
  })

  t.test('404: of an attachment that is deleted before its file is opened', async (t) => {
    for (const isMade of [false, true]) {
      const known = new Set(await keys())
      const attachment = await attach(await photo())
      if (isMade) await imageOf(attachment)
      const own = (await keys()).filter((key) => !known.has(key))
      intervene(t, {
        open: async () => {
          await service.call('deleteAttachment', { token, params: { attach_id: attachment.id } })
          await eventually('its files are gone', areGone(own))
        },
      })
      t.equal((await thumbnailOf(attachment)).status, 404, isMade ? 'made before' : 'not made yet')
      intervene(t, {})
    }
  })

  t.test('410: the file is not in the storage any more', async (t) => {
    const known = new Set(await keys())
    const attachment = await attach(await photo())
    const key = (await keys()).find((one) => !known.has(one)) ?? ''
    await files.remove(key)
    const { status, body } = await thumbnailOf(attachment)
    t.equal(status, 410)
    t.notMatch(JSON.stringify(body), key)
  })

  t.test('415: what is no image, whatever type was claimed', async (t) => {
    const tiff = await canvas(20, 20).tiff().toBuffer()
    const png = await canvas(20, 20).png().toBuffer()
    const svg =
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    const contents: Readonly<Record<string, Uint8Array | string>> = {
      'an empty file': '',
      'a word': 'word',
      'a page': '<!doctype html><title>A page</title>',
      'an SVG image': svg,
      'a TIFF image': tiff,
      'the beginning of a PNG image': png.subarray(0, 40),
      'a signature and nonsense': Buffer.concat([png.subarray(0, 8), Buffer.alloc(100, 'x')]),
      'a film': Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom', 'latin1'),
    }
    for (const [what, content] of Object.entries(contents)) {
      const { status, headers, body } = await thumbnailOf(await attach(content, 'picture.png', 'image/png'))
      t.equal(status, 415, what)
      t.match(body, { code: 'unsupported_image' })
      t.equal(headers.get('etag'), null)
    }
  })

  t.test('415: no other decoder would run, should a file get past its signature', async (t) => {
    await imageOf(await attach(await photo()))
    const text = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    await t.rejects(sharp(Buffer.from(text)).metadata(), 'which holds for all of the process')
  })

  t.test('415: of what is no image hardly anything is read', async (t) => {
    const attachment = await attach('text '.repeat(100_000), 'picture.png', 'image/png')
    bytesRead = 0
    t.equal((await thumbnailOf(attachment)).status, 415)
    t.ok(bytesRead > 0 && bytesRead < 100, `${bytesRead} bytes`)
  })

  t.test('415: a JPEG image that is a million empty segments', async (t) => {
    const image = await photo()
    const segments = Buffer.alloc(4_000_000, Buffer.from([0xff, 0xe1, 0, 2]))
    const bomb = await attach(Buffer.concat([image.subarray(0, 2), segments, image.subarray(2)]))
    // What is loaded for the first image does not count.
    await thumbnailOf(await attach(image))
    const memory = process.memoryUsage.rss()
    t.match(await thumbnailOf(bomb), { status: 415, body: { code: 'unsupported_image' } })
    const grown = (process.memoryUsage.rss() - memory) / mebibyte
    t.ok(grown < 30, `it takes ${grown.toFixed(1)} MiB`)
  })

  t.test(
    '415: a WebP image of a million empty chunks, or of more frames than anybody looks at',
    async (t) => {
      const still = await canvas(60, 30)
        .withExif({ IFD0: { Copyright: 'nobody' } })
        .webp()
        .toBuffer()
      const frames = await Promise.all(['red', 'blue'].map((color) => canvas(60, 30, color).png().toBuffer()))
      const moving = await sharp(frames, { join: { animated: true } })
        .webp()
        .toBuffer()
      const grow = (image: Buffer, chunk: Uint8Array, count: number): Buffer => {
        const grown = Buffer.concat([image, Buffer.alloc(count * chunk.length, chunk)])
        grown.writeUInt32LE(grown.length - 8, 4)
        return grown
      }
      const frame = moving.subarray(moving.lastIndexOf('ANMF'))
      t.equal((await thumbnailOf(await attach(grow(moving, frame, 100)))).status, 200)
      const chunk = Buffer.from('none\0\0\0\0')
      for (const bomb of [grow(still, chunk, 1_000_000), grow(moving, frame, 10_000)])
        t.match(await thumbnailOf(await attach(bomb)), { status: 415, body: { code: 'unsupported_image' } })
    },
  )

  t.test('422: a few kilobytes that would be 900 million pixels', async (t) => {
    const bomb = await attach(blackPng({ width: 30_000, height: 30_000 }), 'picture.png', 'image/png')
    t.ok(bomb.size < mebibyte, `${bomb.size} bytes`)
    // What is loaded for the first image does not count.
    await thumbnailOf(await attach(await photo()))
    const memory = process.memoryUsage.rss()
    const begun = performance.now()
    const { status, body } = await thumbnailOf(bomb)
    t.equal(status, 422)
    t.match(body, { code: 'image_too_large' })
    t.ok(performance.now() - begun < 5_000, 'it is refused soon')
    const grown = (process.memoryUsage.rss() - memory) / mebibyte
    t.ok(grown < 30, `and takes ${grown.toFixed(1)} MiB`)
  })

  t.test('422: an AVIF image may have fewer pixels', async (t) => {
    const wide = canvas(5_000, 4_000)
    const png = await attach(await wide.png().toBuffer())
    t.equal((await thumbnailOf(png)).status, 200)
    const avif = await attach(await wide.avif({ effort: 0 }).toBuffer())
    t.match(await thumbnailOf(avif), { status: 422, body: { detail: /at most 16000000 pixels/ } })
  })

  t.test('422: a file that is too large', async (t) => {
    const signature = blackPng({ width: 1, height: 1 }).subarray(0, 16)
    const attachment = await attach(Buffer.concat([signature, Buffer.alloc(32 * mebibyte)]))
    t.match(await thumbnailOf(attachment), { status: 422, body: { code: 'image_too_large' } })
  })

  t.test('429: more at once than may wait', async (t) => {
    const attachment = await attach(await photo())
    const { promise: gate, resolve: release } = Promise.withResolvers<void>()
    t.teardown(release)
    intervene(t, { open: () => gate })
    const requests = Array.from({ length: 2 + maxQueue }, () => thumbnailOf(attachment))
    const refused = await Promise.race(requests)
    t.equal(refused.status, 429)
    t.ok(Number(refused.headers.get('retry-after')) > 0)
    release()
    t.strictSame(countStatuses(await Promise.all(requests)), { 200: 1 + maxQueue, 429: 1 })
  })

  t.test('503: the storage cannot be read', async (t) => {
    const attachment = await attach(await photo())
    intervene(t, { open: () => Promise.reject(new StorageUnavailable()) })
    t.equal((await thumbnailOf(attachment)).status, 503)
    before = usual
    t.equal((await thumbnailOf(attachment)).status, 200, 'once it can be read again')
  })

  t.test('503: a thumbnail whose file is lost is made again', async (t) => {
    const attachment = await attach(await photo())
    const [lost = ''] = await filesMadeBy(() => thumbnailOf(attachment))
    await files.remove(lost)
    const { status, headers } = await thumbnailOf(attachment)
    t.equal(status, 503)
    t.ok(Number(headers.get('retry-after')) > 0)
    const made = await filesMadeBy(() => imageOf(attachment))
    t.equal(made.length, 1)
  })

  t.test('507: there is no room for it', async (t) => {
    const attachment = await attach(await photo())
    intervene(t, { put: () => Promise.reject(new StorageFull()) })
    t.equal((await thumbnailOf(attachment)).status, 507)
  })
})

t.test('thumbnails go with their attachment', async (t) => {
  for (const [what, remove] of [
    [
      'that is deleted',
      ({ id }: Attachment) => service.expect('deleteAttachment', 204, { token, params: { attach_id: id } }),
    ],
    [
      'whose task is deleted for good',
      async ({ task_id }: Attachment) => {
        await service.expect('deleteTask', 204, { token, params: { task_id } })
        await service.expect('deleteTrashedTask', 204, { token, params: { task_id } })
      },
    ],
  ] as const) {
    const { body } = await service.expect('createTask', 201, { token, body: { title: 'To be deleted' } })
    const upload = { token, params: { task_id: body.id }, body: fileForm(await photo()) }
    const { body: attachment } = await service.expect('addTaskAttachment', 201, upload)
    const made = await filesMadeBy(() => Promise.all([16, 32].map((width) => imageOf(attachment, width))))
    t.equal(made.length, 2)
    await remove(attachment)
    await eventually(`the thumbnails of one ${what} are gone`, areGone(made))
  }
})
