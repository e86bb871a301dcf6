import type { components } from '../../generated/openapi.ts'
import type { TaskDates } from '../domain/shared/dates.ts'
import type { StoredRelation } from '../domain/tasks/relations.ts'
import type { TaskSeries, WantedRecurrence } from '../domain/tasks/series.ts'

/**
 * What is exchanged with other products, in one form for all of them: readers make records of a file, and writers make a file of
 * records. Fields are named as in the contract. The order of records of a type is their manual order.
 */

/** The id of a record in the file that it comes from: unique among records of its type. Not an id of this service in general. */
export type SourceId = string

/** Somebody whom other records name. */
export interface UserRecord {
  readonly type: 'user'
  readonly id: SourceId
  readonly username: string | null
  readonly display_name: string
}

/** What a resource remembers of another system. */
interface External {
  readonly metadata: Readonly<Record<string, string>>
  readonly external_source: string | null
  readonly external_id: string | null
}

export interface ProjectRecord extends External {
  readonly type: 'project'
  readonly id: SourceId
  readonly name: string
  readonly description: string
  readonly color: string | null
  readonly archived_at: string | null
  readonly created_at: string | null
}

export interface SectionRecord {
  readonly type: 'section'
  readonly id: SourceId
  readonly project_id: SourceId
  readonly name: string
}

export interface TagRecord {
  readonly type: 'tag'
  readonly id: SourceId
  readonly name: string
  readonly color: string | null
  /** Null for a tag of no project: of its owner, or of whatever project the tasks with it are in. */
  readonly project_id: SourceId | null
}

export type Reminder = (
  | { readonly at: string }
  | {
      readonly relative_to: 'due' | 'start'
      /** Before the date if negative. Multiples of 1,440 are calendar days. */
      readonly offset_minutes: number
      /** `HH:MM` on that day, for all-day dates. */
      readonly time_of_day: string | null
    }
) & {
  /** The time to which it was postponed, if it was. */
  readonly snoozed_until?: string
}

/**
 * A task. `recurrence` without the other fields of the series means that a series starts with this task. Times are instants in UTC with
 * milliseconds, as in responses.
 */
export interface TaskRecord extends External, Required<TaskDates>, Omit<TaskSeries, 'recurrence'> {
  readonly type: 'task'
  readonly id: SourceId
  readonly title: string
  readonly description: string
  readonly status: components['schemas']['TaskStatus']
  readonly priority: components['schemas']['TaskPriority']
  readonly completed_at: string | null
  readonly owner_id: SourceId | null
  readonly assignee_id: SourceId | null
  readonly project_id: SourceId | null
  readonly section_id: SourceId | null
  readonly parent_id: SourceId | null
  readonly tag_ids: readonly SourceId[]
  readonly reminders: readonly Reminder[]
  readonly recurrence: WantedRecurrence | null
  readonly version: number
  readonly created_at: string | null
  readonly updated_at: string | null
}

export interface CommentRecord {
  readonly type: 'comment'
  readonly id: SourceId
  readonly task_id: SourceId
  readonly author_id: SourceId | null
  readonly author_name: string | null
  readonly body: string
  readonly created_at: string | null
  readonly edited_at: string | null
}

export interface RelationRecord {
  readonly type: 'relation'
  readonly task_id: SourceId
  readonly kind: StoredRelation['kind']
  readonly other_task_id: SourceId
  readonly created_at: string | null
}

export interface AttachmentRecord {
  readonly type: 'attachment'
  readonly id: SourceId
  readonly task_id: SourceId
  readonly file_name: string
  readonly content_type: string | null
  readonly size: number | null
  /** Null if the file does not say: the content is in the archive all the same. */
  readonly sha256: string | null
  readonly uploaded_by: SourceId | null
  readonly created_at: string | null
  /** The name of the entry in the archive with the content; null if the content is elsewhere. */
  readonly entry: string | null
  /** Where the content is, if it is not in the archive. */
  readonly url: string | null
}

/** In the order of their types: records only name others that come before them, apart from `next_task_id`. */
export interface RecordTypes {
  readonly user: UserRecord
  readonly project: ProjectRecord
  readonly section: SectionRecord
  readonly tag: TagRecord
  readonly task: TaskRecord
  readonly comment: CommentRecord
  readonly relation: RelationRecord
  readonly attachment: AttachmentRecord
}

export type RecordType = keyof RecordTypes

export type InterchangeRecord = RecordTypes[RecordType]

/** A line of the report of an import. */
export interface ReportLine {
  /**
   * `refused`: there is no record of this row. `altered`: there is one, which lacks something or has another value. `note`: about the
   * file as a whole.
   */
  readonly severity: 'refused' | 'altered' | 'note'
  /** The part of the file, such as `tasks.jsonl` or `items`; null if the file has no parts. */
  readonly part: string | null
  /** The number of the row in its part, from 1: of a CSV file with a header, as a spreadsheet counts. Null for a note. */
  readonly row: number | null
  readonly id: SourceId | null
  /** The field as the file calls it. */
  readonly field: string | null
  readonly code: ReportCode
  /** Continues the name of the field, if there is one, as in `is empty`. Otherwise a sentence. */
  readonly message: string
}

/** Clients must expect more. */
export type ReportCode =
  /** The row cannot be read, or lacks what is required. */
  | 'invalid'
  /** A value cannot be read. */
  | 'invalid_value'
  /** A value is longer than the limit. */
  | 'too_long'
  /** More of something than a task can have. */
  | 'too_many'
  /** Another row has the same id. */
  | 'duplicate'
  /** What a row names is not in the file. */
  | 'unknown_reference'
  /** The parents of a task lead back to it. */
  | 'cycle'
  /** Subtasks in more levels than a tree can have. */
  | 'too_deep'
  /** Bytes that are not text in the encoding of the file. */
  | 'encoding'
  /** Something that tasks do not have here. */
  | 'not_supported'
  /** A file that is elsewhere, which is not fetched. */
  | 'remote_file'
  /** What the product leaves out of its exports. */
  | 'incomplete_source'
  /** There is no task in the file that can be imported. */
  | 'no_tasks'
