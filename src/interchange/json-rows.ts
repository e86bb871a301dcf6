import { type Draft, refusal } from './drafts.ts'
import { type Fields, fieldsOf } from './fields.ts'
import type { InterchangeRecord, ReportLine } from './records.ts'

/** Projects in each other whose names are joined. Products have far fewer, and a name is cut off after 100 characters. */
export const maxNesting = 100

/**
 * Drafts of the objects of a list, in their order in the product. `records` returns those that an object is made of; what is wrong with
 * the object belongs to the last one.
 */
export function* draftsOfList(
  list: readonly unknown[],
  part: string,
  order: (fields: Fields) => number,
  records: (fields: Fields, id: string) => readonly InterchangeRecord[],
): Generator<Draft | ReportLine, void> {
  const rows = list.map((item, index) => ({ fields: fieldsOf(item), row: index + 1 }))
  const place = (fields: Fields | null): number => (fields === null ? 0 : order(fields))
  for (const { fields, row } of rows.toSorted((one, other) => place(one.fields) - place(other.fields))) {
    const id = fields?.id('id') ?? null
    if (fields === null || id === null) {
      const message = 'The entry is not an object with an id.'
      yield refusal(part, row, { field: null, code: 'invalid', message })
      continue
    }
    const made = records(fields, id)
    for (const [index, record] of made.entries())
      yield { record, part, row, faults: index === made.length - 1 ? fields.faults : [] }
  }
}
