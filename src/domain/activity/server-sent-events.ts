/** The format of server-sent events (HTML Living Standard, 9.2.6). */

/** An event. `data` must not contain line breaks; JSON text has none. */
export const serverSentEvent = ({
  id,
  type,
  data,
}: {
  readonly id: string
  readonly type: string
  readonly data: string
}): string => `id: ${id}\nevent: ${type}\ndata: ${data}\n\n`

/** A comment that keeps proxies from closing an idle connection. With an id, it also moves the client's resume position. */
export const heartbeat = (id: string | null): string =>
  id === null ? ': heartbeat\n\n' : `: heartbeat\nid: ${id}\n\n`

/** Sets the time that clients wait before they reconnect. */
export const reconnectionTime = (milliseconds: number): string => `retry: ${milliseconds}\n\n`
