// The SDK scenario: every step goes through the generated client, and the first difference ends the program.
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
import taskwright.api.MembersApi
import taskwright.api.ProjectsApi
import taskwright.api.TagsApi
import taskwright.api.TaskTagsApi
import taskwright.api.TasksApi
import taskwright.infrastructure.ApiClient
import taskwright.infrastructure.ClientError
import taskwright.infrastructure.ClientException
import taskwright.infrastructure.Serializer
import taskwright.model.Problem
import taskwright.model.ProjectCreate
import taskwright.model.ProjectMemberSet
import taskwright.model.ProjectRole
import taskwright.model.RefreshRequest
import taskwright.model.Registration
import taskwright.model.TagCreate
import taskwright.model.TaskCreate
import taskwright.model.TaskPatch
import taskwright.model.TaskPriority
import taskwright.model.TaskReplace
import taskwright.model.TaskState

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

    val patched = tasks.updateTask(task.id, TaskPatch(status = TaskState.IN_PROGRESS))
    equal("status", patched.status, TaskState.IN_PROGRESS)
    equal("due_at", patched.dueAt, tomorrow)
    ok("patch")

    // The client never sends null, so a patch cannot clear a field; a replacement clears what it leaves out.
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
    projects.deleteProject(project.id)
    problem(404) { tasks.getTask(plan.id) }
    ok("project")

    val headers = tasks.getTaskWithHttpInfo(task.id, null, null, null).headers
    val etag = headers.entries.first { it.key.equals("ETag", ignoreCase = true) }.value.first()
    val rename = TaskPatch(title = "Publish the release notes")
    tasks.updateTask(task.id, rename, etag)
    val conflict = problem(412) { tasks.updateTask(task.id, rename, etag) }
    equal("code", conflict.code.value, "precondition_failed")
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
    val refused = problem(401) { auth.getCurrentUser() }
    equal("code", refused.code.value, "unauthorized")
    ok("logout")
    // Idle connections would keep the process for a minute.
    exitProcess(0)
}

/** The problem that a call is refused with. */
private fun problem(status: Int, call: () -> Unit): Problem {
    try {
        call()
    } catch (refusal: ClientException) {
        equal("status", refusal.statusCode, status)
        val body = (refusal.response as ClientError<*>).body as String
        return checkNotNull(Serializer.moshi.adapter(Problem::class.java).fromJson(body))
    }
    throw AssertionError("not refused with $status")
}

private fun randomBytes(count: Int): ByteArray = ByteArray(count).also(SecureRandom()::nextBytes)

private fun hex(bytes: ByteArray): String = HexFormat.of().formatHex(bytes)

private fun equal(what: String, got: Any?, want: Any?) {
    if (got != want) throw AssertionError("$what: got $got, want $want")
}

private fun ok(step: String) = println("ok $step")
