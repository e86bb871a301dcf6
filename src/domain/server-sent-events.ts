/** The format of server-sent events (HTML Living Standard, 9.2.6). */

/** An event. `data` has no line break, as JSON text has none. */
export const serverSentEvent = ({
  id,
  type,
  data,
}: {
  readonly id: string
  readonly type: string
  readonly data: string
}): string => `id: ${id}\nevent: ${type}\ndata: ${data}\n\n`

/** A comment, which keeps proxies from closing the connection. With an id, it also moves where the client resumes. */
export const heartbeat = (id: string | null): string =>
  id === null ? ': heartbeat\n\n' : `: heartbeat\nid: ${id}\n\n`

/** How long clients wait before they reconnect, in milliseconds. */
export const reconnectionTime = (milliseconds: number): string => `retry: ${milliseconds}\n\n`
