import t from 'tap'
import { newId } from '../../src/db/shared/ids.ts'
import { operations } from '../fixture/operations.ts'
import { startService } from '../fixture/service.ts'

/** Paths with a slash at the end. */

const service = await startService(t, { config: { publicUrl: 'http://tasks.example/base' } })

const send = async (method: string, path: string) => {
  const response = await fetch(`${service.url}${path}`, { method })
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) }
}

t.test('404 names the path without it', async (t) => {
  for (const { method, path } of operations) {
    const filled = path.replaceAll(/\{\w+\}/g, newId())
    for (const slashes of ['/', '//']) {
      const { status, body } = await send(method, `${filled}${slashes}?limit=1`)
      t.equal(status, 404, path)
      if (method === 'HEAD') continue
      t.match(body, {
        code: 'not_found',
        detail: `No path ends with a slash. Send the request to ${filled}.`,
        instance: `http://tasks.example/base${filled}${slashes}`,
      })
    }
  }
})

t.test('404 names no path that does not exist', async (t) => {
  for (const path of ['/nope/', '//', '/tasks/x/y/', `/${'/'.repeat(8_000)}`])
    t.match(await send('GET', path), {
      status: 404,
      body: { detail: 'The resource does not exist, or you are not allowed to see it.' },
    })
})
