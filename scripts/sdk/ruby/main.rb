# The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
require 'digest'
require 'securerandom'
require 'tempfile'
require 'time'
require 'uri'
require 'taskwright'

def equal(label, got, want)
  abort "failed: #{label}: got #{got.inspect}, want #{want.inspect}" unless got == want
end

def ok(step)
  puts "ok #{step}"
end

# A value of an enumeration that may grow, or the unknown one that a later service sends instead.
def grown(value)
  ENV.fetch('TASKWRIGHT_UNKNOWN_VALUE', value)
end

# An import or export once nothing happens in the background.
def settled
  600.times do
    present = yield
    return present if present.poll_after_seconds.nil?

    sleep 0.05
  end
  abort 'failed: timed out after 30 seconds'
end

# The problem of a call that must fail with a status.
def problem(status)
  yield
  abort "failed: expected a problem with status #{status}"
rescue Taskwright::ApiError => e
  equal('status', e.code, status)
  Taskwright::Problem.build_from_hash(JSON.parse(e.response_body, symbolize_names: true))
end

url = URI(ENV.fetch('TASKWRIGHT_URL'))
username = "ruby-#{SecureRandom.hex(8)}"
email = "#{username}@example.com"
password = SecureRandom.hex(12)
# The client does not send a Time as RFC 3339, so the time is a string.
tomorrow = (Time.now + (24 * 60 * 60)).utc.floor(3).iso8601(3)

# Documentation: begin
config = Taskwright::Configuration.new
config.scheme = url.scheme
config.host = "#{url.host}:#{url.port}"
config.server_index = nil
config.params_encoding = :multi
client = Taskwright::ApiClient.new(config)
auth = Taskwright::AuthApi.new(client)
account = Taskwright::Registration.new(username: username, email: email, password: password)
tokens = auth.register(account)
config.access_token = tokens.access_token
tasks = Taskwright::TasksApi.new(client)
new_task = Taskwright::TaskCreate.new(
  title: 'Write the release notes', priority: Taskwright::TaskPriority::HIGH, due_at: tomorrow
)
task = tasks.create_task(new_task)
# Documentation: end
equal('username', tokens.user.username, username)
ok('register')

equal('title', task.title, 'Write the release notes')
equal('priority', task.priority, Taskwright::TaskPriority::HIGH)
equal('due_at', task.due_at, Time.iso8601(tomorrow))
ok('create')

patched = tasks.update_task(task.id, Taskwright::TaskPatch.new(status: Taskwright::TaskStatus::IN_PROGRESS))
equal('status', patched.status, Taskwright::TaskStatus::IN_PROGRESS)
equal('due_at', patched.due_at, Time.iso8601(tomorrow))
ok('patch')

reminders = Taskwright::RemindersApi.new(client)
hour_before = Taskwright::ReminderCreate.new(relative_to: 'due', offset_minutes: -60)
reminder = reminders.create_reminder(task.id, hour_before)
equal('remind_at', reminder.remind_at, Time.iso8601(tomorrow) - (60 * 60))
equal('reminders', reminders.list_reminders(task_id: [task.id]).items, [reminder])
snoozed = reminders.update_reminder(reminder.id, Taskwright::ReminderPatch.new(snoozed_until: tomorrow))
equal('snoozed', snoozed.remind_at, Time.iso8601(tomorrow))
reminders.delete_reminder(reminder.id)
equal('deleted', reminders.list_reminders(task_id: [task.id]).items, [])
ok('remind')

weekly = Taskwright::RecurrencePatch.new(rule: 'FREQ=WEEKLY')
recurring = tasks.update_task(task.id, Taskwright::TaskPatch.new(recurrence: weekly))
equal('rule', recurring.recurrence.rule, 'FREQ=WEEKLY')
each_one = Taskwright::RecurrencePatch.new(missed: Taskwright::RecurrenceMissed::EACH)
changed = tasks.update_task(task.id, Taskwright::TaskPatch.new(recurrence: each_one))
equal('rule', changed.recurrence.rule, 'FREQ=WEEKLY')
equal('missed', changed.recurrence.missed, Taskwright::RecurrenceMissed::EACH)
single = tasks.update_task(task.id, Taskwright::TaskPatch.new(recurrence: nil))
equal('recurrence', single.recurrence, nil)
ok('recur')

both = { 'customer_id' => '42', 'ticket' => 'A-7' }
noted = tasks.update_task(task.id, Taskwright::TaskPatch.new(metadata: both))
equal('two keys', noted.metadata.transform_keys(&:to_s), both)
merged = tasks.update_task(task.id, Taskwright::TaskPatch.new(metadata: { 'ticket' => nil }))
equal('one key', merged.metadata.transform_keys(&:to_s), { 'customer_id' => '42' })
ok('metadata')

cleared = tasks.update_task(task.id, Taskwright::TaskPatch.new(due_at: nil))
equal('due_at', cleared.due_at, nil)
equal('title', cleared.title, task.title)
ok('clear')

tag = Taskwright::TagsApi.new(client).create_tag(Taskwright::TagCreate.new(name: 'release', color: '#d92d20'))
Taskwright::TaskTagsApi.new(client).add_task_tag(task.id, tag.id)
tagged = tasks.get_task(task.id)
equal('tags', tagged.tags, [tag])
equal('color', tagged.tags[0].color, '#d92d20')
ok('tag')

attachments = Taskwright::AttachmentsApi.new(client)
sent = SecureRandom.bytes(1000)
sha256 = Digest::SHA256.hexdigest(sent)
file = Tempfile.new(['random-', '.bin'], binmode: true)
file.write(sent)
file.close
attachment = File.open(file.path, 'rb') { |content| attachments.add_task_attachment(task.id, content, sha256: sha256) }
config.logger.level = Logger::WARN
received = File.binread(attachments.download_attachment(attachment.id).path)
equal('file name', attachment.file_name, File.basename(file.path))
equal('same bytes', received == sent, true)
equal('sha256', attachment.sha256, sha256)
ok('file')

created = [task.id] + (1..5).map { |number| tasks.create_task(Taskwright::TaskCreate.new(title: "Task #{number}")).id }
listed = []
cursor = nil
loop do
  page = tasks.list_tasks(limit: 2, cursor: cursor)
  equal('at most two', page.items.length <= 2, true)
  listed.concat(page.items.map(&:id))
  cursor = page.next_cursor
  break if cursor.nil?
end
equal('every task once', listed.sort, created.sort)
ok('page')

other = tasks.create_task(Taskwright::TaskCreate.new(title: 'Choose the date'))
relations = Taskwright::RelationsApi.new(client)
relations.add_task_relation(task.id, Taskwright::RelationKindChoice::BLOCKED_BY, other.id)
related = relations.list_task_relations(task.id).items.map { |relation| [relation.kind, relation.other_task_id] }
equal('relations', related, [[grown('blocked_by'), other.id]])
equal('is blocked', tasks.get_task(task.id).is_blocked, true)
ok('relation')

events = Taskwright::EventsApi.new(client)
equal('history', events.list_task_events(other.id).items.last.type, grown('task.created'))
found = events.list_events(type: ['task.tagged', 'attachment.*']).items
equal('events', found.map(&:type), [grown('attachment.created'), grown('task.tagged')])
ok('events')

_, _, headers = tasks.get_task_with_http_info(task.id)
rename = Taskwright::TaskPatch.new(title: 'Publish the release notes')
tasks.update_task(task.id, rename, if_match: headers['ETag'])
conflict = problem(412) { tasks.update_task(task.id, rename, if_match: headers['ETag']) }
equal('code', conflict.code, grown('precondition_failed'))
ok('conflict')

# The client rejects titles that are too long itself, but does not limit combining marks.
invalid = problem(400) { tasks.create_task(Taskwright::TaskCreate.new(title: "x#{"\u0301" * 31}")) }
equal('pointer', invalid.errors[0].pointer, '/title')
ok('validation')

imports = Taskwright::ImportsApi.new(client)
table = Tempfile.new(['tasks-', '.csv'])
table.write("title\nOrder the cake\n")
table.close
upload = File.open(table.path, 'rb') { |content| imports.create_import(content) }
previewed = settled { imports.get_import(upload.id) }
equal('previewed tasks', previewed.preview.tasks, 1)
imports.run_import(upload.id, Taskwright::ImportRun.new(version: previewed.version))
equal('created', settled { imports.get_import(upload.id) }.result.created, 1)
equal('imported', tasks.list_tasks(q: '"Order the cake"').items.map(&:title), ['Order the cake'])
ok('import')

exports = Taskwright::ExportsApi.new(client)
export = exports.create_export(Taskwright::ExportCreate.new)
finished = settled { exports.get_export(export.id) }
equal('status', finished.status, grown('finished'))
archive = File.binread(exports.download_export(export.id).path)
equal('size', archive.bytesize, finished.size)
equal('signature', archive[0, 2], 'PK')
ok('export')

before = tokens.access_token
tokens = auth.refresh_token(Taskwright::RefreshRequest.new(refresh_token: tokens.refresh_token))
config.access_token = tokens.access_token
equal('a new token', tokens.access_token != before, true)
equal('me', auth.get_current_user.username, username)
ok('refresh')

auth.logout
rejected = problem(401) { auth.get_current_user }
equal('code', rejected.code, grown('unauthorized'))
ok('logout')
