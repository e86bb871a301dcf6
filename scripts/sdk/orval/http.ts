// What the generated client sends its requests with.

/** The service, and the token of whoever is signed in. */
export const session = { url: '', token: '' }

/** Sends a request, and reads the answer by its media type. */
export const send = async <Answer>(path: string, options: RequestInit): Promise<Answer> => {
  const headers = new Headers(options.headers)
  if (session.token !== '') headers.set('Authorization', `Bearer ${session.token}`)
  const response = await fetch(session.url + path, { ...options, headers })
  const isJson = /^application\/(problem\+)?json\b/.test(response.headers.get('Content-Type') ?? '')
  const data: unknown = isJson ? await response.json() : await response.blob()
  return { data, status: response.status, headers: response.headers } as Answer
}
