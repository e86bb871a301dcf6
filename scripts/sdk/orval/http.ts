// What the generated client sends its requests with.

/** The service, and the token of whoever is signed in. */
export const session = { url: '', token: '' }

/** Reads an answer by its media type. An event stream has no end, so that is left to the caller. */
const dataOf = async (response: Response): Promise<unknown> => {
  const type = response.headers.get('Content-Type') ?? ''
  if (type.startsWith('text/event-stream')) return response.body
  return /^application\/(problem\+)?json\b/.test(type) ? response.json() : response.blob()
}

/** Sends a request. */
export const send = async <Answer>(path: string, options: RequestInit): Promise<Answer> => {
  const headers = new Headers(options.headers)
  if (session.token !== '') headers.set('Authorization', `Bearer ${session.token}`)
  const response = await fetch(session.url + path, { ...options, headers })
  return { data: await dataOf(response), status: response.status, headers: response.headers } as Answer
}
