/** The items of a batch, by kind. */
export interface TaskBatch<NewTask, TaskChange, Expectation> {
  readonly create?: readonly (NewTask & {
    /** The index of an item before it that creates its parent. */
    readonly parent?: number
  })[]
  readonly update?: readonly (NamedTask & {
    readonly patch: TaskChange
    readonly expect?: Expectation
  })[]
  readonly delete?: readonly NamedTask[]
  readonly tag?: readonly NamedLink[]
  readonly untag?: readonly (NamedLink & NamedTask)[]
}

interface NamedTask {
  readonly task_id: string
  /** A version, with or without quotes, or an entity tag with its quotes. */
  readonly if_match?: string
}

interface NamedLink {
  readonly task_id: string
  readonly tag_id: string
}

/** The kinds in the order in which the items of one task are processed. Items of the same kind keep their order. */
export const batchKinds = ['create', 'update', 'tag', 'untag', 'delete'] as const
export type BatchKind = (typeof batchKinds)[number]

export const maxItems = 500

export const countItems = (batch: TaskBatch<unknown, unknown, unknown>): number =>
  batchKinds.reduce((count, kind) => count + (batch[kind]?.length ?? 0), 0)

/** Maximum cost of indexing the titles and descriptions of a batch, in characters: a batch holds its locks meanwhile. */
export const maxIndexedCharacters = 262_144

/** Only this many leading characters of a description are indexed; searched_text() in routines.sql has the same bound. */
const maxIndexedPerText = 8_192

interface Text {
  readonly title?: string
  readonly description?: string
}

/**
 * The indexing cost in UTF-16 code units. A code unit from U+0E00 on counts four times: it can be a separate word or fold to
 * several characters.
 */
export const countIndexedCharacters = ({
  create = [],
  update = [],
}: TaskBatch<Text, Text, unknown>): number =>
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
