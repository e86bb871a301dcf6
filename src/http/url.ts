/** The path of a request's URL: what stands before the query. */
export const pathOf = (url: string): string => url.split('?', 1)[0] ?? url

/** Characters of a path that logs and problems show. */
const maxShownPath = 256

/** The path as logs and problems show it: a long one is cut, between percent-encoded bytes. */
export const shownPathOf = (url: string): string => {
  const path = pathOf(url)
  return path.length <= maxShownPath ? path : `${path.slice(0, maxShownPath).replace(/%.?$/, '')}...`
}

/**
 * A request's URL under the path of PUBLIC_URL, `base`; a proxy may have removed that path already. The asterisk form (RFC
 * 9112 §3.2.4) becomes a path that does not exist, since the router takes it for the root.
 */
export const withoutBase = (url: string, base: string): string => {
  if (url === '*') return '/*'
  const rest = url.startsWith(base) ? url.slice(base.length) : url
  if (rest.startsWith('/')) return rest
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url
}

/** A host name or an IP address as an address for people; RFC 3986 has an IPv6 one in brackets. */
export const httpUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`
