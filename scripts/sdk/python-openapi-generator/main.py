"""The SDK scenario: every step goes through the generated client, and the first difference ends the program."""

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from taskwright import (
    ApiClient,
    ApiException,
    AttachmentsApi,
    AuthApi,
    Configuration,
    MembersApi,
    Problem,
    ProjectCreate,
    ProjectMemberSet,
    ProjectRole,
    ProjectsApi,
    RefreshRequest,
    Registration,
    TagCreate,
    TagsApi,
    TaskCreate,
    TaskPatch,
    TaskPriority,
    TasksApi,
    TaskState,
    TaskTagsApi,
)


def main() -> None:
    url = os.environ["TASKWRIGHT_URL"]
    username = f"python-{secrets.token_hex(8)}"
    email = f"{username}@example.com"
    password = secrets.token_hex(12)
    now = datetime.now(UTC)
    tomorrow = now.replace(microsecond=now.microsecond // 1000 * 1000) + timedelta(days=1)

    # Documentation: begin
    config = Configuration(host=url)
    with ApiClient(config) as client:
        auth, tasks = AuthApi(client), TasksApi(client)
        tokens = auth.register(Registration(username=username, email=email, password=password))
        config.access_token = tokens.access_token
        body = TaskCreate(title="Write the release notes", priority=TaskPriority.HIGH, due_at=tomorrow)
        task = tasks.create_task(body)
        # Documentation: end
        equal("username", tokens.user.username, username)
        ok("register")

        equal("title", task.title, "Write the release notes")
        equal("priority", task.priority, TaskPriority.HIGH)
        equal("due_at", task.due_at, tomorrow)
        ok("create")

        patched = tasks.update_task(task.id, TaskPatch(status=TaskState.IN_PROGRESS))
        equal("status", patched.status, TaskState.IN_PROGRESS)
        equal("due_at", patched.due_at, tomorrow)
        ok("patch")

        cleared = tasks.update_task(task.id, TaskPatch(due_at=None))
        equal("due_at", cleared.due_at, None)
        equal("title", cleared.title, task.title)
        ok("clear")

        tag = TagsApi(client).create_tag(TagCreate(name="release", color="#d92d20"))
        TaskTagsApi(client).add_task_tag(task.id, tag.id)
        tagged = tasks.get_task(task.id)
        equal("tags", tagged.tags, [tag])
        equal("color", tagged.tags[0].color, "#d92d20")
        ok("tag")

        attachments = AttachmentsApi(client)
        sent = secrets.token_bytes(1000)
        sha256 = hashlib.sha256(sent).hexdigest()
        attachment = attachments.add_task_attachment(task.id, ("random.bin", sent), sha256=sha256)
        received = attachments.download_attachment(attachment.id)
        equal("file name", attachment.file_name, "random.bin")
        equal("same bytes", received == sent, True)
        equal("sha256", attachment.sha256, sha256)
        ok("file")

        created = Counter([task.id])
        for number in range(1, 6):
            created[tasks.create_task(TaskCreate(title=f"Task {number}")).id] += 1
        listed: Counter[UUID] = Counter()
        page = tasks.list_tasks(limit=2)
        while True:
            equal("at most two", len(page.items) <= 2, True)
            listed.update(item.id for item in page.items)
            if page.next_cursor is None:
                break
            page = tasks.list_tasks(limit=2, cursor=page.next_cursor)
        equal("every task once", listed, created)
        ok("page")

        projects = ProjectsApi(client)
        project = projects.create_project(ProjectCreate(name="Launch"))
        plan = tasks.create_task(TaskCreate(title="Plan the launch", project_id=project.id))
        another = Registration(username=f"{username}2", email=f"2{email}", password=password)
        colleague = auth.register(another)
        editor = ProjectMemberSet(role=ProjectRole.EDITOR)
        member = MembersApi(client).set_project_member(project.id, str(colleague.user.id), editor)
        equal("role", member.role, ProjectRole.EDITOR)
        config.access_token = colleague.access_token
        shared = tasks.get_task(plan.id)
        equal("project", shared.project_id, project.id)
        equal("tasks of the project", projects.list_project_tasks(project.id).items, [shared])
        config.access_token = tokens.access_token
        projects.delete_project(project.id)
        problem(404, lambda: tasks.get_task(plan.id))
        ok("project")

        headers = tasks.get_task_with_http_info(task.id).headers or {}
        etag = {name.lower(): value for name, value in headers.items()}["etag"]
        rename = TaskPatch(title="Publish the release notes")
        tasks.update_task(task.id, rename, if_match=etag)
        conflict = problem(412, lambda: tasks.update_task(task.id, rename, if_match=etag))
        equal("code", conflict.code, "precondition_failed")
        ok("conflict")

        # The client itself refuses a title that is too long, but does not count combining marks.
        unreadable = TaskCreate(title="x" + "\u0301" * 31)
        invalid = problem(400, lambda: tasks.create_task(unreadable))
        equal("pointer", [error.pointer for error in invalid.errors or ()], ["/title"])
        ok("validation")

        before = tokens.access_token
        tokens = auth.refresh_token(RefreshRequest(refresh_token=tokens.refresh_token))
        config.access_token = tokens.access_token
        equal("a new token", tokens.access_token != before, True)
        equal("me", auth.get_current_user().username, username)
        ok("refresh")

        auth.logout()
        refused = problem(401, auth.get_current_user)
        equal("code", refused.code, "unauthorized")
        ok("logout")


def problem(status: int, call: Callable[[], object]) -> Problem:
    """The problem that a call is refused with."""
    try:
        call()
    except ApiException as refusal:
        equal("status", refusal.status, status)
        if isinstance(refusal.data, Problem):
            return refusal.data
        raise
    raise SystemExit(f"failed: not refused with {status}")


def equal(what: str, got: object, want: object) -> None:
    if got != want:
        raise SystemExit(f"failed: {what}: got {got!r}, want {want!r}")


def ok(step: str) -> None:
    print("ok", step)


main()
