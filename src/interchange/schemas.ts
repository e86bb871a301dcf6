import type { RecordType, RecordTypes } from './records.ts'

/** JSON Schemas of the records of an export, made from the schemas of the contract: fields of the same name are the same. */

type Json = Readonly<Record<string, unknown>>

interface Source<Type extends RecordType> {
  /** The schema of the contract that has the fields which are not in `own`. */
  readonly name: string
  readonly own: Partial<Readonly<Record<keyof RecordTypes[Type], Json>>>
  readonly fields: readonly (keyof RecordTypes[Type] & string)[]
}

const id: Json = { type: 'string', format: 'uuid' }
const external = ['metadata', 'external_source', 'external_id'] as const

const sources: { readonly [Type in RecordType]: Source<Type> } = {
  user: { name: 'User', fields: ['id', 'username', 'display_name'], own: {} },
  project: {
    name: 'Project',
    fields: ['id', 'name', 'description', 'color', 'archived_at', 'created_at', ...external],
    own: {},
  },
  section: { name: 'Section', fields: ['id', 'project_id', 'name'], own: {} },
  tag: { name: 'Tag', fields: ['id', 'name', 'color', 'project_id'], own: {} },
  task: {
    name: 'Task',
    fields: [
      'id',
      'title',
      'description',
      'status',
      'priority',
      'start_at',
      'start_on',
      'due_at',
      'due_on',
      'completed_at',
      'owner_id',
      'assignee_id',
      'project_id',
      'section_id',
      'parent_id',
      'recurrence',
      'series_id',
      'occurrence_number',
      'occurrence_at',
      'occurrence_on',
      'next_task_id',
      ...external,
      'version',
      'created_at',
      'updated_at',
    ],
    own: {
      tag_ids: { type: 'array', items: id },
      recurrence_anchor: {
        type: ['object', 'null'],
        description: 'The date of the first occurrence, and which date of the task it is.',
        required: ['of', 'date'],
        properties: {
          of: { enum: ['due', 'start'] },
          date: { type: 'string' },
          days: {
            type: ['integer', 'null'],
            description: 'The days from this date to the other one of the task.',
          },
        },
      },
      reminders: {
        type: 'array',
        description:
          'Each has `at`, or `relative_to` with `offset_minutes` and `time_of_day`; and `snoozed_until`, if it was postponed.',
        items: {
          type: 'object',
          properties: {
            at: { type: 'string', format: 'date-time' },
            relative_to: { enum: ['due', 'start'] },
            offset_minutes: { type: 'integer', minimum: -525_600, maximum: 525_600 },
            time_of_day: { type: ['string', 'null'], pattern: String.raw`^\d\d:\d\d$` },
            snoozed_until: { type: 'string', format: 'date-time' },
          },
        },
      },
    },
  },
  comment: {
    name: 'Comment',
    fields: ['id', 'task_id', 'author_id', 'body', 'created_at', 'edited_at'],
    own: { author_name: { type: ['string', 'null'] } },
  },
  relation: {
    name: 'TaskRelation',
    fields: ['other_task_id', 'created_at'],
    own: { task_id: id, kind: { enum: ['blocks', 'duplicates', 'relates_to'] } },
  },
  attachment: {
    name: 'Attachment',
    fields: ['id', 'task_id', 'file_name', 'content_type', 'size', 'sha256', 'uploaded_by', 'created_at'],
    own: {
      entry: { type: ['string', 'null'], description: 'The file in the archive.' },
      url: { type: ['string', 'null'] },
    },
  },
}

/** By the type of record. @throws Error if the contract lacks a schema */
export const recordSchemas = (contract: Json): Readonly<Record<string, Json>> => {
  const schemas = objectIn(objectIn(contract, 'components'), 'schemas')
  return Object.fromEntries(
    Object.entries(sources).map(([type, { name, fields, own }]) => {
      const known = objectIn(objectIn(schemas, name), 'properties')
      const taken = fields.filter((field) => field in known)
      const properties = {
        type: { const: type },
        ...Object.fromEntries(taken.map((field) => [field, plain(objectIn(known, field), schemas)])),
        ...own,
      }
      return [type, { type: 'object', required: Object.keys(properties), properties }]
    }),
  )
}

const objectIn = (parent: Json, name: string): Json => {
  const found = parent[name]
  if (typeof found === 'object' && found !== null) return found as Json
  throw new Error(`The contract has no ${name}`)
}

/** Keywords that JSON Schema has as OpenAPI 3.0 does. */
const shared = [
  'type',
  'format',
  'enum',
  'pattern',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'required',
  'description',
]

/** A schema of OpenAPI 3.0 as JSON Schema: with what it refers to, and null as a type. */
const plain = (schema: Json, schemas: Json): Json => {
  const { $ref, allOf, properties, items, additionalProperties, nullable } = schema
  if (typeof $ref === 'string') return plain(objectIn(schemas, $ref.replace(/^.*\//, '')), schemas)
  const inner = (value: unknown): Json => plain(value as Json, schemas)
  const merged = Array.isArray(allOf) ? (Object.assign({}, ...allOf.map(inner)) as Json) : {}
  return {
    ...merged,
    ...Object.fromEntries(shared.filter((key) => key in schema).map((key) => [key, schema[key]])),
    ...(nullable === true && { type: [schema.type ?? merged.type, 'null'] }),
    ...(nullable === true && Array.isArray(schema.enum) && { enum: [...(schema.enum as unknown[]), null] }),
    ...(typeof properties === 'object' && {
      properties: Object.fromEntries(
        Object.entries(properties ?? {}).map(([name, value]) => [name, inner(value)]),
      ),
    }),
    ...(typeof items === 'object' && { items: inner(items) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: inner(additionalProperties) }),
  }
}
