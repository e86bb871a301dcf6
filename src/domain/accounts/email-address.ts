import { domainToASCII } from 'node:url'
import { toNfkc } from '../shared/text.ts'

/**
 * Email addresses. All spellings of an address that reach one mailbox have one canonical form, or are refused: otherwise one
 * person could have several accounts, or receive the emails of several limits. Emails are sent to the canonical form, in which
 * nothing is left for a mail program to interpret: no quotes, comments, names, lists, groups, routes or address literals.
 *
 * Addresses that only the receiving server knows to be one mailbox stay different addresses: `ada+tasks@example.com` and
 * `ada@example.com`, or `a.da@gmail.com` and `ada@gmail.com`. They count as one for limits (`mailboxOf`).
 */

/** Code units before canonicalization. */
const maxRawLength = 1_016

/**
 * A dot-atom (RFC 5322 §3.2.3) without `%` and `!`, which relays read as a route to another host (`ada%host`, `host!ada`). Letters
 * outside of ASCII (RFC 6531) are excluded, because unlike those of a domain they have no spelling in ASCII.
 */
const localPart = /^(?!\.)(?:[\w#$&'*+/=?^`{|}~-]|\.(?!\.|$))+$/

/** Text that can be a domain name. Excludes the delimiters of a URL, which the functions of `node:url` would interpret. */
const domainText = /^(?:[\w.-]|[^\p{ASCII}\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800])+$/u

/** A host name (RFC 5321 §2.3.5) without a trailing dot. A number at the end makes it an IPv4 address in URLs. */
const hostName =
  /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?!\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * The form in which email addresses are stored, compared and sent to, in ASCII; null if the text is not an address. Both parts
 * are in lower case and without compatibility forms. An international domain is mapped to its `xn--` form as in UTS #46,
 * nontransitional, which distinguishes ß from ss and ς from σ: such domains can have different owners, and email must not go to
 * the wrong one.
 *
 * @throws TextTooCostly
 */
export const canonicalEmail = (text: string): string | null => {
  if (text.length > maxRawLength) return null
  const address = toNfkc(text).trim()
  const at = address.lastIndexOf('@')
  const local = address.slice(0, Math.max(at, 0))
  const domain = canonicalDomain(address.slice(at + 1))
  return localPart.test(local) && domain !== null ? `${local.toLowerCase()}@${domain}` : null
}

const canonicalDomain = (text: string): string | null => {
  if (!domainText.test(text)) return null
  const ascii = domainToASCII(text)
  return hostName.test(ascii) ? ascii : null
}

/**
 * The mailbox that an address probably belongs to, for limits: most servers ignore a `+` and what follows (RFC 5233), and some
 * ignore dots. Two people whose addresses differ only in that share a limit.
 */
export const mailboxOf = (canonical: string): string => {
  const at = canonical.lastIndexOf('@')
  const [user = ''] = canonical.slice(0, at).split('+')
  return `${user.replaceAll('.', '')}${canonical.slice(at)}`
}
