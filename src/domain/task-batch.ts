import type { Refusal } from './outcome.ts'

/** What a batch does to tasks, by kind; the order has no meaning, since no two items are about the same thing. */
export interface TaskBatch<NewTask, TaskChange> {
  readonly create?: readonly NewTask[]
  readonly update?: readonly (NamedTask & { readonly patch: TaskChange })[]
  readonly delete?: readonly NamedTask[]
  readonly tag?: readonly NamedLink[]
  readonly untag?: readonly (NamedLink & NamedTask)[]
}

interface NamedTask {
  readonly task_id: string
  /** An entity tag with its quotes. */
  readonly if_match?: string
}

interface NamedLink {
  readonly task_id: string
  readonly tag_id: string
}

export const batchKinds = ['create', 'update', 'delete', 'tag', 'untag'] as const
export type BatchKind = (typeof batchKinds)[number]

/** An item of a batch, by its place in it. */
export interface BatchPlace {
  readonly kind: BatchKind
  readonly index: number
}

/** How an item ended. */
export interface BatchResult extends BatchPlace {
  /** Null when it was done. */
  readonly refusal: Refusal | null
  /** Of a task that was created. */
  readonly id: string | null
  /** Of a task that was created or changed. */
  readonly version: number | null
}

/** How many items a batch may have. */
export const maxItems = 500

export const countItems = (batch: TaskBatch<unknown, unknown>): number =>
  batchKinds.reduce((count, kind) => count + (batch[kind]?.length ?? 0), 0)

/**
 * What indexing the titles and descriptions of a batch may cost, in characters. The embedded database takes about 1 µs for a
 * character, and 4 µs where each of them is a word of its own (measured on a busy machine).
 */
export const maxIndexedCharacters = 262_144

/** Characters at the beginning of a description that are indexed; searched_text() in routines.sql has the same bound. */
const maxIndexedPerText = 8_192

interface Text {
  readonly title?: string
  readonly description?: string
}

/** In UTF-16 code units; those from U+0E00 on, which may be words of their own or fold to several, count as four. */
export const countIndexedCharacters = ({ create = [], update = [] }: TaskBatch<Text, Text>): number =>
  [...create, ...update.map(({ patch }) => patch)].reduce(
    (count, { title = '', description = '' }) =>
      count + indexingCost(title) + indexingCost(description.slice(0, maxIndexedPerText)),
    0,
  )

const indexingCost = (text: string): number => {
  let cost = 0
  for (let index = 0; index < text.length; index += 1) cost += text.charCodeAt(index) < 0x0e00 ? 1 : 4
  return cost
}

/**
 * The first item that is about the same as another one before it: a task is named once, or by several items that put
 * tags on it or take tags off it, and these are different tags.
 */
export const findRepeated = (batch: TaskBatch<unknown, unknown>): BatchPlace | null => {
  const named = new Map<string, BatchKind>()
  const links = new Set<string>()
  for (const kind of ['update', 'delete', 'tag', 'untag'] as const) {
    for (const [index, item] of (batch[kind] ?? []).entries()) {
      const id = item.task_id
      const link = 'tag_id' in item ? `${id} ${item.tag_id}` : null
      const before = named.get(id)
      if (before !== undefined && (before !== kind || link === null || links.has(link)))
        return { kind, index }
      named.set(id, kind)
      if (link !== null) links.add(link)
    }
  }
  return null
}
