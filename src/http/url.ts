/** The path of a request's URL: what stands before the query. */
export const pathOf = (url: string): string => url.split('?', 1)[0] ?? url

/** A request's URL under the path of PUBLIC_URL, `base`; a proxy may have taken that path away already. */
export const withoutBase = (url: string, base: string): string => {
  const rest = url.startsWith(base) ? url.slice(base.length) : url
  if (rest.startsWith('/')) return rest
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url
}

/** A host name or an IP address as an address for people; RFC 3986 has an IPv6 one in brackets. */
export const httpUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`
