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

# Polls until there is a result, because the service works in the background.
def eventually(label)
  600.times do
    found = yield
    return found if found

    sleep 0.05
  end
  abort "failed: #{label}: timed out after 30 seconds"
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

projects = Taskwright::ProjectsApi.new(client)
project = projects.create_project(Taskwright::ProjectCreate.new(name: 'Launch'))
plan = tasks.create_task(Taskwright::TaskCreate.new(title: 'Plan the launch', project_id: project.id))
another = Taskwright::Registration.new(username: "#{username}2", email: "2#{email}", password: password)
colleague = auth.register(another)
editor = Taskwright::ProjectMemberSet.new(role: Taskwright::ProjectRole::EDITOR)
member = Taskwright::MembersApi.new(client).set_project_member(project.id, colleague.user.id, editor)
equal('role', member.role, Taskwright::ProjectRole::EDITOR)
config.access_token = colleague.access_token
shared = tasks.get_task(plan.id)
equal('project', shared.project_id, project.id)
equal('tasks of the project', projects.list_project_tasks(project.id).items, [shared])
config.access_token = tokens.access_token
ok('project')

comments = Taskwright::CommentsApi.new(client)
question = Taskwright::CommentCreate.new(body: "Is the date right, @#{colleague.user.username}?")
comment = comments.create_comment(plan.id, question)
equal('mentions', comment.mentions, [colleague.user.id])
read, _, headers = comments.get_comment_with_http_info(comment.id)
equal('the same comment', read, comment)
edit = Taskwright::CommentPatch.new(body: "Is the time right, @#{colleague.user.username}?")
edited = comments.update_comment(comment.id, edit, if_match: headers['ETag'])
equal('version', edited.version, 2)
problem(412) { comments.update_comment(comment.id, edit, if_match: headers['ETag']) }
config.access_token = colleague.access_token
answer = comments.create_comment(plan.id, Taskwright::CommentCreate.new(body: 'It is.'))
config.access_token = tokens.access_token
first = comments.list_task_comments(plan.id, limit: 1)
last = comments.list_task_comments(plan.id, limit: 1, cursor: first.next_cursor)
equal('comments', first.items + last.items, [edited, answer])
equal('no more', last.next_cursor, nil)
ok('comment')

subtask = tasks.create_task(Taskwright::TaskCreate.new(title: 'Choose the date', parent_id: plan.id))
equal('parent', subtask.parent_id, plan.id)
equal('project', subtask.project_id, project.id)
equal('subtasks', tasks.get_task(plan.id).subtask_count, 1)
ok('subtask')

relations = Taskwright::RelationsApi.new(client)
relations.add_task_relation(plan.id, Taskwright::RelationKind::BLOCKED_BY, subtask.id)
related = relations.list_task_relations(plan.id).items.map { |relation| [relation.kind, relation.other_task_id] }
equal('relations', related, [[Taskwright::RelationKind::BLOCKED_BY, subtask.id]])
equal('is blocked', tasks.get_task(plan.id).is_blocked, true)
ok('relation')

notifications = Taskwright::NotificationsApi.new(client)
config.access_token = colleague.access_token
notifications.follow_task(subtask.id)
followers = notifications.list_task_followers(subtask.id).items.map(&:user_id)
equal('followers', followers.sort, [tokens.user.id, colleague.user.id].sort)
unread = -> { notifications.list_notifications(unread: true).items }
notification = eventually('notification') { unread.call.first }
equal('reason', notification.reason, grown('mention'))
equal('comment', notification.comment_id, comment.id)
seen = notifications.update_notification(notification.id, Taskwright::NotificationPatch.new(is_read: true))
equal('is read', seen.read_at.nil?, false)
equal('unread', unread.call, [])
config.access_token = tokens.access_token
ok('inbox')

webhooks = Taskwright::WebhooksApi.new(client)
new_webhook = Taskwright::WebhookCreate.new(
  url: ENV.fetch('TASKWRIGHT_RECEIVER'), event_types: ['project.*'], project_id: project.id
)
webhook = webhooks.create_webhook(new_webhook)
equal('secret', webhook.secret.start_with?('whsec_'), true)
testing = webhooks.test_webhook(webhook.id)
delivery = eventually('delivery') do
  sending = webhooks.get_webhook_delivery(webhook.id, testing.id)
  sending if sending.ended_at
end
equal('delivery', [delivery.status, delivery.response_status], [grown('delivered'), 204])
equal('deliveries', webhooks.list_webhook_deliveries(webhook.id).items, [delivery])
ok('webhook')

events = Taskwright::EventsApi.new(client)
equal('history', events.list_task_events(plan.id).items.last.type, grown('task.created'))
found = events.list_events(project_id: [project.id], type: ['comment.*']).items
equal(
  'events',
  found.map { |event| [event.type, event.resource_id] },
  [
    [grown('comment.created'), answer.id],
    [grown('comment.updated'), comment.id],
    [grown('comment.created'), comment.id]
  ]
)
ok('events')

projects.delete_project(project.id)
problem(404) { tasks.get_task(plan.id) }
ok('delete')

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
