import { canonicalInstant } from '../../domain/shared/dates.ts'
import { blankProject, blankTask } from '../blank.ts'
import { type Draft, type Drafts, note, rootNotes } from '../drafts.ts'
import { type Fields, fieldsOf } from '../fields.ts'
import { UnreadableFile } from '../import-file.ts'
import { readDocument } from '../json-document.ts'
import { draftsOfList } from '../json-rows.ts'
import type { InterchangeRecord, ReportLine, TagRecord, TaskRecord } from '../records.ts'

/** Reads the JSON of a board of Trello: lists become sections, cards become tasks, and items of checklists become subtasks. */

const source = 'trello'

/** The number of actions, comments among them, that an export has at most. */
const maxActions = 1000

const colors = new Map(
  Object.entries({
    green: '#4bce97',
    yellow: '#f5cd47',
    orange: '#fea362',
    red: '#f87168',
    purple: '#9f8fef',
    blue: '#579dff',
    sky: '#6cc3e0',
    lime: '#94c748',
    pink: '#e774bb',
    black: '#8590a2',
  }),
)

export async function* readTrello(path: string): Drafts {
  const { value, notes } = await readDocument(path)
  yield* notes
  const board = fieldsOf(value)
  const project_id = board?.id('id') ?? null
  if (board === null || project_id === null)
    throw new UnreadableFile('damaged', 'The file is not a board with an id.')
  yield {
    part: null,
    row: null,
    faults: [],
    record: {
      ...blankProject,
      id: project_id,
      name: board.text('name'),
      description: board.text('desc'),
      created_at: createdAt(project_id),
      archived_at: board.flag('closed')
        ? (board.instant('dateClosed') ?? board.instant('dateLastActivity'))
        : null,
      external_source: source,
      external_id: project_id,
    },
  }
  yield* each(board, 'members', (f, id) => ({
    type: 'user',
    id,
    username: f.id('username'),
    display_name: f.text('fullName'),
  }))
  yield* each(board, 'lists', (f, id) => ({ type: 'section', id, project_id, name: f.text('name') }))
  yield* each(board, 'labels', (f, id) => tagOf(f, id, project_id))
  yield* labelsOfCards(board, project_id)
  yield* cards(board, project_id)
  yield* checklists(board, project_id)
  yield* comments(board)
  yield* attachments(board)
  const isArchived = archivedIn(board)
  const closed = board.objects('cards').filter(isArchived).length
  if (closed > 0) yield note('not_supported', `${closed} archived cards become tasks that are done.`, 'cards')
  if (board.list('actions').length >= maxActions)
    yield note(
      'incomplete_source',
      `Trello exports the newest ${maxActions} actions of a board only. Comments that are older are not in the file.`,
      'actions',
    )
  yield* rootNotes(board)
}

const each = (
  board: Fields,
  part: string,
  record: (fields: Fields, id: string) => InterchangeRecord | null,
): Generator<Draft | ReportLine, void> =>
  draftsOfList(
    board.list(part),
    part,
    (f) => f.number('pos') ?? 0,
    (f, id) => [record(f, id)].filter((made) => made !== null),
  )

const tagOf = (f: Fields, id: string, project_id: string): TagRecord => {
  const color = f.text('color')
  return {
    type: 'tag',
    id,
    name: f.text('name') || color || 'label',
    color: colors.get(color.replace(/_(light|dark)$/, '')) ?? null,
    project_id,
  }
}

/** Boards of old exports have no labels, but their cards have. */
function* labelsOfCards(board: Fields, project_id: string): Generator<Draft, void> {
  const known = new Set(board.objects('labels').map((f) => f.id('id')))
  for (const label of board.objects('cards').flatMap((card) => card.objects('labels'))) {
    const id = labelId(label)
    if (known.has(id)) continue
    known.add(id)
    yield { record: tagOf(label, id, project_id), part: 'cards', row: null, faults: [] }
  }
}

const labelId = (label: Fields): string => label.id('id') ?? `${label.text('color')} ${label.text('name')}`

/** Whether a card is archived, or the list that it is in. */
const archivedIn = (board: Fields): ((card: Fields) => boolean) => {
  const lists = new Set(
    board
      .objects('lists')
      .filter((list) => list.flag('closed'))
      .map((list) => list.id('id')),
  )
  return (card) => card.flag('closed') || lists.has(card.id('idList'))
}

/** Ids start with the time of creation, in seconds. */
const createdAt = (id: string): string | null => {
  const seconds = /^[0-9a-f]{24}$/.test(id) ? Number.parseInt(id.slice(0, 8), 16) : 0
  return seconds === 0 ? null : canonicalInstant(new Date(seconds * 1000).toISOString())
}

function* cards(board: Fields, project_id: string): ReturnType<typeof each> {
  const fields = customFieldsOf(board)
  const isArchived = archivedIn(board)
  yield* each(board, 'cards', (f, id) => {
    const isDone = f.flag('dueComplete') || isArchived(f)
    const [assignee = null, ...others] = f.list('idMembers').map(String)
    if (others.length > 0)
      f.fault('idMembers', `has ${others.length + 1}; the first one becomes the assignee`, 'too_many')
    const reminder = f.number('dueReminder')
    return {
      ...blankTask,
      id,
      title: f.text('name'),
      description: [f.text('desc'), linksOf(f)].filter((text) => text !== '').join('\n\n'),
      status: isDone ? 'done' : 'todo',
      start_at: f.instant('start'),
      due_at: f.instant('due'),
      completed_at: isDone
        ? (f.instant('dateCompleted') ?? f.instant('dateClosed') ?? f.instant('dateLastActivity'))
        : null,
      created_at: createdAt(id),
      updated_at: f.instant('dateLastActivity'),
      project_id,
      section_id: f.id('idList'),
      assignee_id: assignee,
      tag_ids: f.has('idLabels') ? f.list('idLabels').map(String) : f.objects('labels').map(labelId),
      reminders:
        reminder === null || reminder < 0
          ? []
          : [{ relative_to: 'due', offset_minutes: reminder === 0 ? 0 : -reminder, time_of_day: null }],
      metadata: metadataOf(f, fields),
      external_source: source,
      external_id: id,
    }
  })
}

const isLink = (attachment: Fields): boolean => attachment.has('isUpload') && !attachment.flag('isUpload')

/** The attachments of a card that are links, which its description keeps. */
const linksOf = (card: Fields): string =>
  card
    .objects('attachments')
    .filter((attachment) => isLink(attachment) && attachment.text('url') !== '')
    .map((link) => {
      const [name, url] = [link.text('name'), link.text('url')]
      return name === '' || url.startsWith(name) ? `- ${url}` : `- [${name}](${url})`
    })
    .join('\n')

/** A field that a board has for its cards. */
interface CustomField {
  /** Empty if it has none. */
  readonly key: string
  readonly options: ReadonlyMap<string | null, Fields>
}

/** By their ids. */
type CustomFields = ReadonlyMap<string | null, CustomField>

const customFieldsOf = (board: Fields): CustomFields =>
  new Map(
    board.objects('customFields').map((field) => {
      const name = field
        .text('name')
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, '_')
      const key = (/[a-z].*/.exec(name)?.[0] ?? '').slice(0, 40).replace(/_$/, '')
      const options = new Map(field.objects('options').map((option) => [option.id('id'), option]))
      return [field.id('id'), { key, options }]
    }),
  )

const metadataOf = (card: Fields, fields: CustomFields): Record<string, string> =>
  Object.fromEntries(
    card.objects('customFieldItems').flatMap((item): [string, string][] => {
      const { key, options } = fields.get(item.id('idCustomField')) ?? noField
      const option = options.get(item.id('idValue'))
      const texts = Object.values((option ?? item).object('value')?.texts() ?? {})
      return key === '' || texts[0] === undefined ? [] : [[key, texts[0]]]
    }),
  )

const noField: CustomField = { key: '', options: new Map() }

/** The items of a card's only checklist are its subtasks; several checklists are subtasks with subtasks. */
function* checklists(board: Fields, project_id: string): ReturnType<typeof each> {
  const checklistsByCard = Map.groupBy(board.objects('checklists'), (f) => f.id('idCard'))
  const sectionOf = new Map(board.objects('cards').map((f) => [f.id('id'), f.id('idList')]))
  const subtask = (id: string, f: Fields, parent_id: string, card: string | null): TaskRecord => ({
    ...blankTask,
    id,
    title: f.text('name'),
    parent_id,
    project_id,
    section_id: sectionOf.get(card) ?? null,
    created_at: createdAt(id),
    external_source: source,
    external_id: id,
  })
  const parents = new Map<string, Fields>()
  yield* each(board, 'checklists', (f, id) => {
    parents.set(id, f)
    const card = f.id('idCard')
    if (card === null || (checklistsByCard.get(card)?.length ?? 0) < 2) return null
    const items = f.objects('checkItems')
    const isDone = items.length > 0 && items.every(isComplete)
    return { ...subtask(id, f, card, card), status: isDone ? 'done' : 'todo' }
  })
  for (const [id, checklist] of parents) {
    const card = checklist.id('idCard')
    const parent = (checklistsByCard.get(card)?.length ?? 0) < 2 ? card : id
    if (parent === null) continue
    yield* each(checklist, 'checkItems', (f, itemId) => ({
      ...subtask(itemId, f, parent, card),
      status: isComplete(f) ? 'done' : 'todo',
      due_at: f.instant('due'),
      assignee_id: f.id('idMember'),
    }))
  }
}

const isComplete = (item: Fields): boolean => item.text('state') === 'complete'

function* comments(board: Fields): ReturnType<typeof each> {
  const people = new Map(board.objects('members').map((f) => [f.id('id'), f.text('fullName')]))
  yield* each(board, 'actions', (f, id) => {
    const type = f.text('type')
    if (type !== 'commentCard' && type !== 'copyCommentCard') return null
    const data = f.object('data')
    const author = f.id('idMemberCreator')
    return {
      type: 'comment',
      id,
      task_id: data?.object('card')?.id('id') ?? '',
      author_id: author,
      author_name: people.get(author) || f.object('memberCreator')?.text('fullName') || null,
      body: data?.text('text') ?? '',
      created_at: f.instant('date'),
      edited_at: data?.instant('dateLastEdited') ?? null,
    }
  })
}

/** Files are on Trello's servers. */
function* attachments(board: Fields): ReturnType<typeof each> {
  for (const card of board.objects('cards')) {
    yield* each(card, 'attachments', (f, id) =>
      isLink(f)
        ? null
        : {
            type: 'attachment',
            id,
            task_id: card.id('id') ?? '',
            file_name: f.text('fileName') || f.text('name') || 'file',
            content_type: f.id('mimeType'),
            size: f.number('bytes'),
            sha256: null,
            uploaded_by: f.id('idMember'),
            created_at: f.instant('date'),
            entry: null,
            url: f.id('url'),
          },
    )
  }
}
