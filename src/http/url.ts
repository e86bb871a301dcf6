/** The path of a request's URL, without the query. */
export const pathOf = (url: string): string => url.split('?', 1)[0] ?? url

/** Characters of a path in logs and problems. */
const maxShownPath = 256

/** The path for logs and problems, truncated between percent-encoded bytes. */
export const shownPathOf = (url: string): string => {
  const path = pathOf(url)
  return path.length <= maxShownPath ? path : `${path.slice(0, maxShownPath).replace(/%.?$/, '')}...`
}

/**
 * Removes `base`, the path of PUBLIC_URL, from a request's URL, if the proxy has not. The asterisk form (RFC 9112 §3.2.4)
 * becomes a path that does not exist, since the router treats it as the root.
 */
export const withoutBase = (url: string, base: string): string => {
  if (url === '*') return '/*'
  const rest = url.startsWith(base) ? url.slice(base.length) : url
  if (rest.startsWith('/')) return rest
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url
}

/** The URL of a host name or IP address; RFC 3986 puts IPv6 addresses in brackets. */
export const httpUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`
