import {
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { s3Storage } from '../../src/storage/s3.ts'
import { chunks, maxBytes, testStorage, testUnavailable } from '../fixture/storage-suite.ts'
import { s3TestStorage } from '../fixture/s3.ts'
import { noS3 } from '../fixture/storage.ts'

t.test('a bucket', { skip: noS3 }, async (t) => {
  testStorage(t, s3TestStorage, 5 * 1_048_576)

  t.test('the server has verified checksums of stored files', async (t) => {
    const { client, location, storage } = await s3TestStorage(t)
    const head = async (size: number) => {
      const { key, sha256 } = await storage.put(chunks(randomBytes(size)), { maxBytes })
      const object = {
        Bucket: location.bucket,
        Key: `${location.prefix}${key}`,
        ChecksumMode: 'ENABLED' as const,
      }
      return { ...(await client.send(new HeadObjectCommand(object))), sha256 }
    }
    const small = await head(1_000)
    t.equal(small.ChecksumSHA256, Buffer.from(small.sha256, 'hex').toString('base64'))
    t.match((await head(8_000_000)).ChecksumCRC32, /^.+-2$/, 'a checksum of both parts')
  })

  t.test('unfinished uploads are listed and can be removed, foreign ones are not', async (t) => {
    const { client, location, storage, keys } = await s3TestStorage(t)
    const begin = async (name: string) => {
      const object = { Bucket: location.bucket, Key: `${location.prefix}${name}` }
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(object))
      await client.send(new UploadPartCommand({ ...object, UploadId, PartNumber: 1, Body: 'half a file' }))
    }
    const ours = '0190c2a0-0000-7000-8000-000000000000'
    await begin(ours)
    await begin('somebody-else')
    const [unfinished, ...others] = await Array.fromAsync(storage.listUnfinished())
    t.equal(unfinished?.key, ours)
    t.ok(Math.abs(Date.now() - Number(unfinished?.modifiedAt)) < 60_000)
    t.same(others, [])
    await storage.removeUnfinished(ours)
    t.same(await keys(), ['somebody-else'])
  })

  t.test('an unfinished file with parts and a remainder is listed once', async (t) => {
    const { client, location, storage } = await s3TestStorage(t)
    const { bucket: Bucket, prefix } = location
    const [parts = '', both = '', rests = ''] = ['a', 'b', 'c'].map(
      (n) => `0190c2a0-0000-7000-8000-00000000000${n}`,
    )
    for (const key of [both, both, parts])
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: `${prefix}${key}` }))
    for (const rest of [`${both}/7`, `${both}/9`, `${rests}/8`])
      await client.send(new PutObjectCommand({ Bucket, Key: `${prefix}incoming/${rest}`, Body: 'a rest' }))
    const listed = (await Array.fromAsync(storage.listUnfinished())).map(({ key }) => key)
    t.strictSame(listed.toSorted(), [parts, both, rests])
    for (const key of listed) await storage.removeUnfinished(key)
  })

  t.test('foreign objects in the bucket are not listed', async (t) => {
    const { client, location, storage } = await s3TestStorage(t)
    const { key } = await storage.put(chunks(Buffer.from('x')), { maxBytes })
    const inner = s3Storage({ ...location, prefix: `${location.prefix}inner/` })
    t.teardown(() => inner.close())
    const { key: innerKey } = await inner.put(chunks(Buffer.from('y')), { maxBytes })
    const Key = `${location.prefix}notes.txt`
    await client.send(new PutObjectCommand({ Bucket: location.bucket, Key, Body: 'z' }))
    const listed = async (of: typeof storage) => (await Array.fromAsync(of.list())).map((file) => file.key)
    t.same(await listed(storage), [key])
    t.same(await listed(inner), [innerKey])
  })

  t.test('a missing bucket makes the storage unavailable, not empty', async (t) => {
    const { location } = await s3TestStorage(t)
    const storage = s3Storage({ ...location, bucket: 'no-such-bucket' })
    t.teardown(() => storage.close())
    const key = '0190c2a0-0000-7000-8000-000000000000'
    await testUnavailable(t, storage, key)
  })
})
