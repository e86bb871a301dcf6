import t from 'tap'
import { checkResponse, type SeenResponse } from '../scripts/client/contract-check.ts'

/** Tests the check of every response in every test: it must notice what the contract does not document. */

const live = (changes: Partial<SeenResponse> & { readonly cacheControl?: string } = {}): SeenResponse => ({
  status: 200,
  headers: new Headers({
    'content-type': 'application/json',
    'x-request-id': 'some-id',
    'api-version': '1.2.3',
    'cache-control': changes.cacheControl ?? 'no-store',
  }),
  body: { status: 'ok', version: '1.2.3' },
  ...changes,
})

const check = (response: SeenResponse) => () => checkResponse('getLiveness', 'GET', response)

t.test('a documented response passes', async (t) => {
  t.doesNotThrow(check(live()))
})

t.test('an undocumented status, header value or field fails', async (t) => {
  t.throws(check(live({ status: 202 })), /getLiveness 202 is not documented/)
  t.throws(check(live({ cacheControl: 'public' })), /Cache-Control: public, not "no-store"/)
  t.throws(check(live({ body: {} })), /must have required property 'status'/)
  t.throws(
    check(live({ body: { status: 'ok', version: '1.2.3', extra: 1 } })),
    /must NOT have unevaluated properties/,
  )
})

t.test('a value that is not listed in an enumeration that may grow fails', async (t) => {
  const ready = (degraded: readonly string[]) => () =>
    checkResponse('getReadiness', 'GET', live({ body: { status: 'ok', version: '0.1.0', degraded } }))
  t.doesNotThrow(ready(['attachments']))
  t.throws(ready(['proof']), /degraded\/0 must be one of the values in x-extensible-enum/)
})

t.test('an undocumented field fails at any depth', async (t) => {
  const problem = (changes: object) => ({
    type: '/problems/invalid_request',
    title: 'Invalid request',
    status: 400,
    detail: 'x is required.',
    instance: '/health/live',
    code: 'invalid_request',
    request_id: 'some-id',
    errors: [{ pointer: '/x', detail: 'is required', ...changes }],
  })
  const refused = (changes: object) => {
    const headers = {
      'content-type': 'application/problem+json',
      'x-request-id': 'some-id',
      'api-version': '1.2.3',
    }
    const body = problem(changes)
    return live({ status: 400, headers: new Headers({ ...headers, 'cache-control': 'no-store' }), body })
  }
  t.doesNotThrow(check(refused({})))
  t.throws(check(refused({ extra: 1 })), /errors\/0 must NOT have unevaluated properties/)
})
