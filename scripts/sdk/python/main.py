"""The SDK scenario: every step goes through the generated client, and the first difference ends the program."""

import hashlib
import os
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import BytesIO
from typing import TypeVar
from uuid import UUID

from attrs import evolve
from taskwright import AuthenticatedClient, Client
from taskwright.api.attachments import add_task_attachment, download_attachment
from taskwright.api.auth import get_current_user, logout, refresh_token, register
from taskwright.api.members import set_project_member
from taskwright.api.projects import create_project, delete_project, list_project_tasks
from taskwright.api.tags import create_tag
from taskwright.api.task_tags import add_task_tag
from taskwright.api.tasks import create_task, get_task, list_tasks, update_task
from taskwright.models import (
    Attachment,
    AttachmentUpload,
    AuthTokens,
    Problem,
    Project,
    ProjectCreate,
    ProjectMember,
    ProjectMemberSet,
    ProjectRole,
    RefreshRequest,
    Registration,
    Tag,
    TagCreate,
    Task,
    TaskCreate,
    TaskList,
    TaskPatch,
    TaskPriority,
    TaskState,
    User,
)
from taskwright.types import UNSET, File, Response, Unset

T = TypeVar("T")


def main() -> None:
    url = os.environ["TASKWRIGHT_URL"]
    username = f"python-{secrets.token_hex(8)}"
    account = Registration(
        username=username,
        email=f"{username}@example.com",
        password=secrets.token_hex(12),
    )
    now = datetime.now(UTC)
    tomorrow = now.replace(microsecond=now.microsecond // 1000 * 1000) + timedelta(days=1)

    # Documentation: begin
    with Client(base_url=url) as anyone:
        tokens = register.sync(client=anyone, body=account)
    assert isinstance(tokens, AuthTokens)
    with AuthenticatedClient(base_url=url, token=tokens.access_token) as client:
        body = TaskCreate(title="Write the release notes", priority=TaskPriority.HIGH, due_at=tomorrow)
        task = create_task.sync(client=client, body=body)
        assert isinstance(task, Task)
        # Documentation: end
        equal("username", tokens.user.username, username)
        ok("register")

        equal("title", task.title, "Write the release notes")
        equal("priority", task.priority, TaskPriority.HIGH)
        equal("due_at", task.due_at, tomorrow)
        ok("create")

        to_progress = TaskPatch(status=TaskState.IN_PROGRESS)
        patched = success(Task, update_task.sync_detailed(task.id, client=client, body=to_progress))
        equal("status", patched.status, TaskState.IN_PROGRESS)
        equal("due_at", patched.due_at, tomorrow)
        ok("patch")

        no_date = TaskPatch(due_at=None)
        cleared = success(Task, update_task.sync_detailed(task.id, client=client, body=no_date))
        equal("due_at", cleared.due_at, None)
        equal("title", cleared.title, task.title)
        ok("clear")

        new_tag = TagCreate(name="release", color="#d92d20")
        tag = success(Tag, create_tag.sync_detailed(client=client, body=new_tag))
        added = add_task_tag.sync_detailed(task.id, tag.id, client=client)
        equal("status", added.status_code, HTTPStatus.NO_CONTENT)
        tagged = success(Task, get_task.sync_detailed(task.id, client=client))
        equal("tags", tagged.tags, [tag])
        equal("color", tagged.tags[0].color, "#d92d20")
        ok("tag")

        sent = secrets.token_bytes(1000)
        sha256 = hashlib.sha256(sent).hexdigest()
        form = AttachmentUpload(file=File(payload=BytesIO(sent), file_name="random.bin"), sha256=sha256)
        attachment = success(Attachment, add_task_attachment.sync_detailed(task.id, client=client, body=form))
        file = success(File, download_attachment.sync_detailed(attachment.id, client=client))
        received = file.payload.read()
        equal("file name", attachment.file_name, "random.bin")
        equal("same bytes", received == sent, True)
        equal("sha256", attachment.sha256, sha256)
        ok("file")

        created = Counter([task.id])
        for number in range(1, 6):
            body = TaskCreate(title=f"Task {number}")
            created[success(Task, create_task.sync_detailed(client=client, body=body)).id] += 1
        listed: Counter[UUID] = Counter()
        cursor: str | Unset | None = UNSET
        while cursor is not None:
            page = success(TaskList, list_tasks.sync_detailed(client=client, limit=2, cursor=cursor))
            equal("at most two", len(page.items) <= 2, True)
            listed.update(item.id for item in page.items)
            cursor = page.next_cursor
        equal("every task once", listed, created)
        ok("page")

        project = success(Project, create_project.sync_detailed(client=client, body=ProjectCreate(name="Launch")))
        body = TaskCreate(title="Plan the launch", project_id=project.id)
        plan = success(Task, create_task.sync_detailed(client=client, body=body))
        another = evolve(account, username=f"{username}2", email=f"2{account.email}")
        colleague = success(AuthTokens, register.sync_detailed(client=client, body=another))
        editor = ProjectMemberSet(role=ProjectRole.EDITOR)
        added = set_project_member.sync_detailed(project.id, str(colleague.user.id), client=client, body=editor)
        equal("role", success(ProjectMember, added).role, ProjectRole.EDITOR)
        with AuthenticatedClient(base_url=url, token=colleague.access_token) as theirs:
            shared = success(Task, get_task.sync_detailed(plan.id, client=theirs))
            equal("project", shared.project_id, project.id)
            planned = success(TaskList, list_project_tasks.sync_detailed(project.id, client=theirs))
            equal("tasks of the project", planned.items, [shared])
        removed = delete_project.sync_detailed(project.id, client=client)
        equal("status", removed.status_code, HTTPStatus.NO_CONTENT)
        problem(404, get_task.sync_detailed(plan.id, client=client))
        ok("project")

        etag = get_task.sync_detailed(task.id, client=client).headers["ETag"]
        rename = TaskPatch(title="Publish the release notes")
        success(Task, update_task.sync_detailed(task.id, client=client, body=rename, if_match=etag))
        conflict = problem(412, update_task.sync_detailed(task.id, client=client, body=rename, if_match=etag))
        equal("code", conflict.code, "precondition_failed")
        ok("conflict")

        invalid = problem(400, create_task.sync_detailed(client=client, body=TaskCreate(title="x" * 501)))
        equal("pointer", [error.pointer for error in invalid.errors or ()], ["/title"])
        ok("validation")

    before = tokens.access_token
    refresh = RefreshRequest(refresh_token=tokens.refresh_token)
    with Client(base_url=url) as anyone:
        tokens = success(AuthTokens, refresh_token.sync_detailed(client=anyone, body=refresh))
    with AuthenticatedClient(base_url=url, token=tokens.access_token) as client:
        equal("a new token", tokens.access_token != before, True)
        equal("me", success(User, get_current_user.sync_detailed(client=client)).username, username)
        ok("refresh")

        equal("status", logout.sync_detailed(client=client).status_code, HTTPStatus.NO_CONTENT)
        refused = problem(401, get_current_user.sync_detailed(client=client))
        equal("code", refused.code, "unauthorized")
        ok("logout")


def success(kind: type[T], response: Response[T | Problem]) -> T:
    """The typed body of an answer, unless it is a problem."""
    if not isinstance(response.parsed, kind):
        raise SystemExit(f"failed: {response.status_code} {response.content!r}")
    return response.parsed


def problem(status: int, response: Response[T | Problem]) -> Problem:
    """The problem that a call is refused with."""
    equal("status", response.status_code, status)
    if not isinstance(response.parsed, Problem):
        raise SystemExit(f"failed: {response.content!r} is not a problem")
    return response.parsed


def equal(what: str, got: object, want: object) -> None:
    if got != want:
        raise SystemExit(f"failed: {what}: got {got!r}, want {want!r}")


def ok(step: str) -> None:
    print("ok", step)


main()
