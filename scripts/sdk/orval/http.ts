// Sends the requests of the generated client.

/** The URL of the service, and the token of the signed-in user. */
export const session = { url: '', token: '' }

/** Reads a response by its media type. The caller reads an event stream, which has no end. */
const dataOf = async (response: Response): Promise<unknown> => {
  const type = response.headers.get('Content-Type') ?? ''
  if (type.startsWith('text/event-stream')) return response.body
  return /^application\/(problem\+)?json\b/.test(type) ? response.json() : response.blob()
}

export const send = async <Answer>(path: string, options: RequestInit): Promise<Answer> => {
  const headers = new Headers(options.headers)
  if (session.token !== '') headers.set('Authorization', `Bearer ${session.token}`)
  const response = await fetch(session.url + path, { ...options, headers })
  return { data: await dataOf(response), status: response.status, headers: response.headers } as Answer
}
