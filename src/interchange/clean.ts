import { isVisible, toCleanText, toNfc, withFewerMarks } from '../domain/shared/text.ts'
import type { Fault } from './drafts.ts'

/** The limits of the contract, in characters. */
export const limits = {
  title: 500,
  description: 65_536,
  projectName: 100,
  projectDescription: 1000,
  sectionName: 100,
  tagName: 50,
  body: 65_536,
  displayName: 100,
  fileName: 255,
  externalSource: 100,
  externalId: 500,
  metadataValue: 500,
} as const

/** Text that can be stored: without U+0000 and lone surrogates, and not longer than the limit. */
export const cleanText = (
  text: string,
  field: keyof typeof limits,
  faults: Fault[],
  name: string = field,
): string => {
  const stored = toCleanText(text)
  const most = limits[field]
  // Code units first: counting characters of every text takes time.
  if (stored.length <= most) return stored
  const characters = Array.from(stored)
  if (characters.length <= most) return stored
  faults.push({
    field: name,
    code: 'too_long',
    message: `has ${characters.length} characters; the limit is ${most}`,
  })
  return `${characters.slice(0, most - 1).join('')}…`
}

/** Text of one line, as names are stored. Empty if there is nothing to see in it. */
export const cleanLine = (
  text: string,
  field: keyof typeof limits,
  faults: Fault[],
  name: string = field,
): string => {
  const line = cleanText(text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim(), field, faults, name)
  const normal = toNfc(withFewerMarks(line)).trim()
  return isVisible(normal) ? normal : ''
}
