import { timeLimits } from '../domain/shared/dates.ts'

/** What the rules of the contract's schemas say in words, for the messages of problems. No message shows a regular expression. */

type Words = Readonly<Record<string, string>>

export const typeWords: Words = {
  string: 'a string',
  integer: 'an integer',
  boolean: 'true or false',
  array: 'an array',
  object: 'a JSON object',
}

/** What the rules count, by the end of their keywords. */
export const countedWords: Words = {
  Length: 'character',
  Items: 'item',
  Properties: 'field',
}

/** After "must be", by format. */
export const formatWords: Words = {
  uuid: 'a UUID',
  'date-time': `an RFC 3339 date and time, such as 2026-11-02T09:00:00Z, ${timeLimits}`,
  date: 'a date of the years 0001 to 9999, such as 2026-11-02',
  'time-or-date': `an RFC 3339 date and time, such as 2026-11-02T09:00:00Z, or a date, such as 2026-11-02, ${timeLimits}`,
  'time-zone': 'the name of an IANA time zone, such as Europe/Berlin',
  email:
    'an email address such as ada@example.com, with only ASCII characters before the @, and without a name, comments, quotes or a route',
}

/** After "must", by pattern. */
export const patternWords: Words = {
  '^[^\\x00]*$': 'not contain U+0000',
  '^\\s*[^\\s\\x00][^\\x00]*$': 'have at least one visible character, and not contain U+0000',
  '^(me|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$': 'be a UUID or me',
  '^(none|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$': 'be a UUID or none',
  '^[a-z0-9][a-z0-9._-]*[a-z0-9]$':
    'have only lower-case letters, digits, dots, underscores and hyphens, with a letter or digit at both ends',
  '^([01][0-9]|2[0-3]):[0-5][0-9]$': 'be a time of day such as 09:00',
  '^(due|start)$': 'be due or start',
  '^(taskwright|todoist|todoist_csv|vikunja|trello|icalendar|csv)$':
    'be taskwright, todoist, todoist_csv, vikunja, trello, icalendar or csv',
  '^[,;\\t|]$': 'be a comma, a semicolon, a tab or a vertical bar',
  '^#[0-9A-Fa-f]{6}$': 'be a color such as #d92d20',
  '^[0-9A-Za-z -]+$': 'have only letters, digits, spaces and hyphens',
  '^[0-9]{6}$': 'be six digits',
  '^[Hh][Tt][Tt][Pp][Ss]?://[^\\x00-\\x20\\x7f]+$':
    'begin with http:// or https://, and not contain spaces or control characters',
  '^([*]|task\\.([*]|created|updated|deleted|restored|recurred|imported|reminder|reminder_limit|tagged|untagged|related|unrelated)|comment\\.([*]|created|updated|deleted)|attachment\\.([*]|created|deleted)|project\\.([*]|created|updated|archived|unarchived|deleted|restored)|member\\.([*]|added|changed|removed)|export\\.([*]|finished)|import\\.([*]|finished))$':
    'be *, a kind of event such as task.created, or all kinds of a resource such as task.*',
  '^-?(created_at|updated_at|due|due_at|start|start_at|completed_at|priority|status|title|position)(,-?(created_at|updated_at|due|due_at|start|start_at|completed_at|priority|status|title|position)){0,2}$':
    'be up to three of created_at, updated_at, due, due_at, start, start_at, completed_at, priority, status, title and position, comma-separated; prefix with - for descending',
  '^-?(created_at|updated_at|name)$': 'be created_at, updated_at or name; prefix with - for descending',
  '^-?created_at$': 'be created_at; prefix with - for descending',
  '^("[!#-~]*"|[0-9]+)$': 'be a version, with or without double quotes, or an ETag in double quotes',
  '^([*]|[ \\t,]*((W/)?"[!#-~]*"[ \\t]*(,[ \\t,]*|$))*)$': 'be * or a list of entity tags in double quotes',
  '^[A-Za-z0-9_-]{43}$': 'be a SHA-256 in base64url: 43 letters, digits, hyphens and underscores',
  '^[!-~]+$': 'have only visible ASCII characters, without spaces',
  '^([0-9a-fA-F]{64})?$': 'be empty, or 64 hexadecimal digits',
  '^[0-9]{1,15}$': 'be a number of bytes',
  '^[a-z0-9-]+ [A-Za-z0-9+/]+=*$': 'be an algorithm, a space and a checksum in Base64',
  '^[!-+\\--~]+( +[A-Za-z0-9+/]+=*)?( *, *[!-+\\--~]+( +[A-Za-z0-9+/]+=*)?)*$':
    'be comma-separated pairs of a key, a space and a value in Base64',
}

/** Appended to a message, by keyword and location. */
export const hints: Words = { 'maximum /offset': '; use cursor instead' }
