// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
import java.io.File
import java.security.MessageDigest
import java.security.SecureRandom
import java.time.OffsetDateTime
import java.time.ZoneOffset
import java.time.temporal.ChronoUnit
import java.util.HexFormat
import java.util.UUID
import kotlin.system.exitProcess
import taskwright.api.AttachmentsApi
import taskwright.api.AuthApi
import taskwright.api.CommentsApi
import taskwright.api.EventsApi
import taskwright.api.MembersApi
import taskwright.api.NotificationsApi
import taskwright.api.ProjectsApi
import taskwright.api.RelationsApi
import taskwright.api.TagsApi
import taskwright.api.TaskTagsApi
import taskwright.api.TasksApi
import taskwright.api.WebhooksApi
import taskwright.infrastructure.ApiClient
import taskwright.infrastructure.ApiResponse
import taskwright.infrastructure.ClientError
import taskwright.infrastructure.ClientException
import taskwright.infrastructure.Serializer
import taskwright.model.CommentCreate
import taskwright.model.CommentPatch
import taskwright.model.Notification
import taskwright.model.NotificationPatch
import taskwright.model.Problem
import taskwright.model.ProjectCreate
import taskwright.model.ProjectMemberSet
import taskwright.model.ProjectRole
import taskwright.model.RefreshRequest
import taskwright.model.Registration
import taskwright.model.RelationKind
import taskwright.model.TagCreate
import taskwright.model.TaskCreate
import taskwright.model.TaskPatch
import taskwright.model.TaskPriority
import taskwright.model.TaskReplace
import taskwright.model.TaskStatus
import taskwright.model.WebhookCreate

fun main() {
    val url = System.getenv("TASKWRIGHT_URL")
    val username = "kotlin-${hex(randomBytes(8))}"
    val email = "$username@example.com"
    val password = hex(randomBytes(12))
    val tomorrow = OffsetDateTime.now(ZoneOffset.UTC).plusDays(1).truncatedTo(ChronoUnit.MILLIS)

    // Documentation: begin
    val auth = AuthApi(url)
    var tokens = auth.register(Registration(username = username, email = email, password = password))
    ApiClient.accessToken = tokens.accessToken
    val tasks = TasksApi(url)
    val newTask = TaskCreate(title = "Write the release notes", priority = TaskPriority.HIGH, dueAt = tomorrow)
    val task = tasks.createTask(newTask)
    // Documentation: end
    equal("username", tokens.user.username, username)
    ok("register")

    equal("title", task.title, "Write the release notes")
    equal("priority", task.priority, TaskPriority.HIGH)
    equal("due_at", task.dueAt, tomorrow)
    ok("create")

    val patched = tasks.updateTask(task.id, TaskPatch(status = TaskStatus.IN_PROGRESS))
    equal("status", patched.status, TaskStatus.IN_PROGRESS)
    equal("due_at", patched.dueAt, tomorrow)
    ok("patch")

    // The client never sends null, so a patch cannot clear a field. A replacement clears omitted fields.
    val withoutDate = TaskReplace(title = patched.title, status = patched.status, priority = patched.priority)
    val cleared = tasks.replaceTask(task.id, withoutDate)
    equal("due_at", cleared.dueAt, null)
    equal("title", cleared.title, task.title)
    ok("clear")

    val tag = TagsApi(url).createTag(TagCreate(name = "release", color = "#d92d20"))
    TaskTagsApi(url).addTaskTag(task.id, tag.id)
    val tagged = tasks.getTask(task.id)
    equal("tags", tagged.tags, listOf(tag))
    equal("color", tagged.tags[0].color, "#d92d20")
    ok("tag")

    val attachments = AttachmentsApi(url)
    val sent = randomBytes(1000)
    val sha256 = hex(MessageDigest.getInstance("SHA-256").digest(sent))
    val file = File.createTempFile("random-", ".bin")
    file.deleteOnExit()
    file.writeBytes(sent)
    val attachment = attachments.addTaskAttachment(task.id, file, sha256 = sha256)
    val received = attachments.downloadAttachment(attachment.id)
    received.deleteOnExit()
    equal("file name", attachment.fileName, file.name)
    equal("same bytes", received.readBytes().contentEquals(sent), true)
    equal("sha256", attachment.sha256, sha256)
    ok("file")

    val created = mutableListOf(task.id)
    for (number in 1..5) created += tasks.createTask(TaskCreate(title = "Task $number")).id
    val listed = mutableListOf<UUID>()
    var cursor: String? = null
    do {
        val page = tasks.listTasks(limit = 2, cursor = cursor)
        equal("at most two", page.items.size <= 2, true)
        listed += page.items.map { it.id }
        cursor = page.nextCursor
    } while (cursor != null)
    equal("every task once", listed.sorted(), created.sorted())
    ok("page")

    val projects = ProjectsApi(url)
    val project = projects.createProject(ProjectCreate(name = "Launch"))
    val plan = tasks.createTask(TaskCreate(title = "Plan the launch", projectId = project.id))
    val colleague = auth.register(Registration(username = "${username}2", email = "2$email", password = password))
    val editor = ProjectMemberSet(ProjectRole.EDITOR)
    val member = MembersApi(url).setProjectMember(project.id, colleague.user.id.toString(), editor)
    equal("role", member.role, ProjectRole.EDITOR)
    ApiClient.accessToken = colleague.accessToken
    val shared = tasks.getTask(plan.id)
    equal("project", shared.projectId, project.id)
    equal("tasks of the project", projects.listProjectTasks(project.id).items, listOf(shared))
    ApiClient.accessToken = tokens.accessToken
    ok("project")

    val comments = CommentsApi(url)
    val question = CommentCreate("Is the date right, @${colleague.user.username}?")
    val comment = comments.createComment(plan.id, question)
    equal("mentions", comment.mentions, listOf(colleague.user.id))
    equal("the same comment", comments.getComment(comment.id), comment)
    val commentTag = etagOf(comments.getCommentWithHttpInfo(comment.id, null, null))
    val edit = CommentPatch("Is the time right, @${colleague.user.username}?")
    val edited = comments.updateComment(comment.id, edit, commentTag)
    equal("version", edited.version, 2)
    problem(412) { comments.updateComment(comment.id, edit, commentTag) }
    ApiClient.accessToken = colleague.accessToken
    val answer = comments.createComment(plan.id, CommentCreate("It is."))
    ApiClient.accessToken = tokens.accessToken
    val first = comments.listTaskComments(plan.id, limit = 1)
    val last = comments.listTaskComments(plan.id, limit = 1, cursor = first.nextCursor)
    equal("comments", first.items + last.items, listOf(edited, answer))
    equal("no more", last.nextCursor, null)
    ok("comment")

    val subtask = tasks.createTask(TaskCreate(title = "Choose the date", parentId = plan.id))
    equal("parent", subtask.parentId, plan.id)
    equal("project", subtask.projectId, project.id)
    equal("subtasks", tasks.getTask(plan.id).subtaskCount, 1)
    ok("subtask")

    val relations = RelationsApi(url)
    relations.addTaskRelation(plan.id, RelationKind.BLOCKED_BY, subtask.id)
    val related = relations.listTaskRelations(plan.id).items.map { it.kind to it.otherTaskId }
    equal("relations", related, listOf(RelationKind.BLOCKED_BY to subtask.id))
    equal("is blocked", tasks.getTask(plan.id).isBlocked, true)
    ok("relation")

    val notifications = NotificationsApi(url)
    ApiClient.accessToken = colleague.accessToken
    notifications.followTask(subtask.id)
    val followers = notifications.listTaskFollowers(subtask.id).items.map { it.userId }
    equal("followers", followers.toSet(), setOf(tokens.user.id, colleague.user.id))
    val unread = { notifications.listNotifications(unread = true).items }
    val notification = eventually("notification") { unread().firstOrNull() }
    equal("reason", notification.reason, grown("mention"))
    equal("comment", notification.commentId, comment.id)
    val seen = notifications.updateNotification(notification.id, NotificationPatch(isRead = true))
    equal("is read", seen.readAt != null, true)
    equal("unread", unread(), emptyList<Notification>())
    ApiClient.accessToken = tokens.accessToken
    ok("inbox")

    val webhooks = WebhooksApi(url)
    val receiver = System.getenv("TASKWRIGHT_RECEIVER")
    val webhook = webhooks.createWebhook(WebhookCreate(receiver, setOf("project.*"), projectId = project.id))
    equal("secret", webhook.secret.startsWith("whsec_"), true)
    val testing = webhooks.testWebhook(webhook.id)
    val delivery =
        eventually("delivery") {
            webhooks.getWebhookDelivery(webhook.id, testing.id).takeIf { it.endedAt != null }
        }
    equal("delivery", delivery.status, grown("delivered"))
    equal("response status", delivery.responseStatus, 204)
    equal("deliveries", webhooks.listWebhookDeliveries(webhook.id).items, listOf(delivery))
    ok("webhook")

    val events = EventsApi(url)
    equal("history", events.listTaskEvents(plan.id).items.last().type, grown("task.created"))
    val found = events.listEvents(projectId = listOf(project.id.toString()), type = listOf("comment.*")).items
    val expected =
        listOf(
            grown("comment.created") to answer.id,
            grown("comment.updated") to comment.id,
            grown("comment.created") to comment.id,
        )
    equal("events", found.map { it.type to it.resourceId }, expected)
    ok("events")

    projects.deleteProject(project.id)
    problem(404) { tasks.getTask(plan.id) }
    ok("delete")

    val etag = etagOf(tasks.getTaskWithHttpInfo(task.id, null, null, null))
    val rename = TaskPatch(title = "Publish the release notes")
    tasks.updateTask(task.id, rename, etag)
    val conflict = problem(412) { tasks.updateTask(task.id, rename, etag) }
    equal("code", conflict.code, grown("precondition_failed"))
    ok("conflict")

    val invalid = problem(400) { tasks.createTask(TaskCreate(title = "x".repeat(501))) }
    equal("pointer", invalid.errors?.first()?.pointer, "/title")
    ok("validation")

    val before = tokens.accessToken
    tokens = auth.refreshToken(RefreshRequest(tokens.refreshToken))
    ApiClient.accessToken = tokens.accessToken
    equal("a new token", tokens.accessToken != before, true)
    equal("me", auth.getCurrentUser().username, username)
    ok("refresh")

    auth.logout()
    val rejected = problem(401) { auth.getCurrentUser() }
    equal("code", rejected.code, grown("unauthorized"))
    ok("logout")
    // Idle connections would keep the process running for a minute.
    exitProcess(0)
}

/** A value of an enumeration that may grow, or the unknown one that a later service sends instead. */
private fun grown(value: String): String = System.getenv("TASKWRIGHT_UNKNOWN_VALUE") ?: value

/** Polls until there is a result, because the service works in the background. */
private fun <Found : Any> eventually(label: String, find: () -> Found?): Found {
    repeat(600) {
        find()?.let { return it }
        Thread.sleep(50)
    }
    throw AssertionError("$label: timed out after 30 seconds")
}

private fun etagOf(response: ApiResponse<*>): String =
    response.headers.entries.first { it.key.equals("ETag", ignoreCase = true) }.value.first()

/** The problem of a call that must fail with a status. */
private fun problem(status: Int, call: () -> Unit): Problem {
    try {
        call()
    } catch (exception: ClientException) {
        equal("status", exception.statusCode, status)
        val body = (exception.response as ClientError<*>).body as String
        return checkNotNull(Serializer.moshi.adapter(Problem::class.java).fromJson(body))
    }
    throw AssertionError("expected a problem with status $status")
}

private fun randomBytes(count: Int): ByteArray = ByteArray(count).also(SecureRandom()::nextBytes)

private fun hex(bytes: ByteArray): String = HexFormat.of().formatHex(bytes)

private fun equal(label: String, got: Any?, want: Any?) {
    if (got != want) throw AssertionError("$label: got $got, want $want")
}

private fun ok(step: String) = println("ok $step")
