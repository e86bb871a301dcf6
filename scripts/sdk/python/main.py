"""The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from io import BytesIO
from typing import Any, TypeVar
from uuid import UUID

from attrs import evolve
from taskwright import AuthenticatedClient, Client
from taskwright.api.attachments import add_task_attachment, download_attachment
from taskwright.api.auth import get_current_user, logout, refresh_token, register
from taskwright.api.comments import create_comment, get_comment, list_task_comments, update_comment
from taskwright.api.events import list_events, list_task_events
from taskwright.api.members import set_project_member
from taskwright.api.notifications import follow_task, list_notifications, list_task_followers, update_notification
from taskwright.api.projects import create_project, delete_project, list_project_tasks
from taskwright.api.relations import add_task_relation, list_task_relations
from taskwright.api.tags import create_tag
from taskwright.api.task_tags import add_task_tag
from taskwright.api.tasks import create_task, get_task, list_tasks, update_task
from taskwright.api.webhooks import (
    create_webhook,
    get_webhook_delivery,
    list_webhook_deliveries,
    test_webhook,
    update_webhook,
)
from taskwright.models import (
    Attachment,
    AttachmentUpload,
    AuthTokens,
    Comment,
    CommentCreate,
    CommentList,
    CommentPatch,
    WebhookWithSecret,
    Event,
    EventList,
    Notification,
    NotificationList,
    NotificationPatch,
    Problem,
    Project,
    ProjectCreate,
    ProjectMember,
    ProjectMemberSet,
    ProjectRole,
    RefreshRequest,
    Registration,
    RelationKind,
    Tag,
    TagCreate,
    Task,
    TaskCreate,
    TaskFollowerList,
    TaskList,
    TaskPatch,
    TaskPriority,
    TaskRelationList,
    TaskStatus,
    User,
    Webhook,
    WebhookCreate,
    WebhookDelivery,
    WebhookDeliveryList,
    WebhookPatch,
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

        to_progress = TaskPatch(status=TaskStatus.IN_PROGRESS)
        patched = success(Task, update_task.sync_detailed(task.id, client=client, body=to_progress))
        equal("status", patched.status, TaskStatus.IN_PROGRESS)
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
        with AuthenticatedClient(base_url=url, token=colleague.access_token) as colleague_client:
            shared = success(Task, get_task.sync_detailed(plan.id, client=colleague_client))
            equal("project", shared.project_id, project.id)
            planned = success(TaskList, list_project_tasks.sync_detailed(project.id, client=colleague_client))
            equal("tasks of the project", planned.items, [shared])
            ok("project")

            question = CommentCreate(body=f"Is the date right, @{colleague.user.username}?")
            comment = success(Comment, create_comment.sync_detailed(plan.id, client=client, body=question))
            equal("mentions", comment.mentions, [colleague.user.id])
            read = get_comment.sync_detailed(comment.id, client=client)
            equal("the same comment", success(Comment, read), comment)
            etag = read.headers["ETag"]
            edit = CommentPatch(body=f"Is the time right, @{colleague.user.username}?")
            edited = success(Comment, update_comment.sync_detailed(comment.id, client=client, body=edit, if_match=etag))
            equal("version", edited.version, 2)
            problem(412, update_comment.sync_detailed(comment.id, client=client, body=edit, if_match=etag))
            reply = CommentCreate(body="It is.")
            answer = success(Comment, create_comment.sync_detailed(plan.id, client=colleague_client, body=reply))
            first = success(CommentList, list_task_comments.sync_detailed(plan.id, client=client, limit=1))
            following = first.next_cursor or ""
            last = success(
                CommentList, list_task_comments.sync_detailed(plan.id, client=client, limit=1, cursor=following)
            )
            equal("comments", first.items + last.items, [edited, answer])
            equal("no more", last.next_cursor, None)
            ok("comment")

            body = TaskCreate(title="Choose the date", parent_id=plan.id)
            subtask = success(Task, create_task.sync_detailed(client=client, body=body))
            equal("parent", subtask.parent_id, plan.id)
            equal("project", subtask.project_id, project.id)
            equal("subtasks", success(Task, get_task.sync_detailed(plan.id, client=client)).subtask_count, 1)
            ok("subtask")

            relating = add_task_relation.sync_detailed(plan.id, RelationKind.BLOCKED_BY, subtask.id, client=client)
            equal("status", relating.status_code, HTTPStatus.NO_CONTENT)
            related = success(TaskRelationList, list_task_relations.sync_detailed(plan.id, client=client)).items
            kinds = [(relation.kind, relation.other_task_id) for relation in related]
            equal("relations", kinds, [(RelationKind.BLOCKED_BY, subtask.id)])
            equal("is blocked", success(Task, get_task.sync_detailed(plan.id, client=client)).is_blocked, True)
            ok("relation")

            joined = follow_task.sync_detailed(subtask.id, client=colleague_client)
            equal("status", joined.status_code, HTTPStatus.NO_CONTENT)
            followers = success(TaskFollowerList, list_task_followers.sync_detailed(subtask.id, client=client)).items
            equal("followers", {one.user_id for one in followers}, {tokens.user.id, colleague.user.id})

            def unread() -> list[Notification]:
                response = list_notifications.sync_detailed(client=colleague_client, unread=True)
                return success(NotificationList, response).items

            [notification] = eventually("notification", unread)
            equal("reason", notification.reason, grown("mention"))
            equal("comment", notification.comment_id, comment.id)
            mark = NotificationPatch(is_read=True)
            marked = update_notification.sync_detailed(notification.id, client=colleague_client, body=mark)
            seen = success(Notification, marked)
            equal("is read", seen.read_at is not None, True)
            equal("unread", unread(), [])
            ok("inbox")

            receiver_url = os.environ["TASKWRIGHT_RECEIVER"]
            new_webhook = WebhookCreate(url=receiver_url, event_types=["project.*"], project_id=project.id)
            webhook = success(WebhookWithSecret, create_webhook.sync_detailed(client=client, body=new_webhook))
            # The receiver in the guide rejects messages that are not signed with the secret.
            with subprocess.Popen(
                [sys.executable, f"{os.environ['TASKWRIGHT_RECEIVERS']}/python/main.py"],
                env={**os.environ, "WEBHOOK_SECRET": webhook.secret, "PORT": "0"},
                stdout=subprocess.PIPE,
                text=True,
            ) as receiver:
                try:
                    assert receiver.stdout is not None
                    address = WebhookPatch(url=receiver.stdout.readline().split()[-1])
                    success(Webhook, update_webhook.sync_detailed(webhook.id, client=client, body=address))
                    testing = success(WebhookDelivery, test_webhook.sync_detailed(webhook.id, client=client))

                    def ended() -> WebhookDelivery | None:
                        sending = get_webhook_delivery.sync_detailed(webhook.id, testing.id, client=client)
                        current = success(WebhookDelivery, sending)
                        return None if current.ended_at is None else current

                    delivery = eventually("delivery", ended)
                finally:
                    receiver.kill()
            equal("delivery", (delivery.status, delivery.response_status), (grown("delivered"), 204))
            deliveries = success(WebhookDeliveryList, list_webhook_deliveries.sync_detailed(webhook.id, client=client))
            equal("deliveries", deliveries.items, [delivery])
            ok("webhook")

            history = success(EventList, list_task_events.sync_detailed(plan.id, client=client)).items
            equal("history", history[-1].type_, grown("task.created"))
            search = list_events.sync_detailed(client=client, project_id=[str(project.id)], type_=["comment.*"])
            events = [(event.type_, event.resource_id) for event in success(EventList, search).items]
            expected = [
                (grown("comment.created"), answer.id),
                (grown("comment.updated"), comment.id),
                (grown("comment.created"), comment.id),
            ]
            equal("events", events, expected)
            ok("events")

            position, _ = next_event(client, "ready")
            unheard = CommentCreate(body="Nobody is listening.")
            missed = success(Comment, create_comment.sync_detailed(plan.id, client=client, body=unheard))
            _, data = next_event(client, "comment.created", position)
            equal("resumed", Event.from_dict(data).resource_id, missed.id)
            ok("stream")

            removed = delete_project.sync_detailed(project.id, client=client)
            equal("status", removed.status_code, HTTPStatus.NO_CONTENT)
            problem(404, get_task.sync_detailed(plan.id, client=colleague_client))
            ok("delete")

        etag = get_task.sync_detailed(task.id, client=client).headers["ETag"]
        rename = TaskPatch(title="Publish the release notes")
        success(Task, update_task.sync_detailed(task.id, client=client, body=rename, if_match=etag))
        conflict = problem(412, update_task.sync_detailed(task.id, client=client, body=rename, if_match=etag))
        equal("code", conflict.code, grown("precondition_failed"))
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
        rejected = problem(401, get_current_user.sync_detailed(client=client))
        equal("code", rejected.code, grown("unauthorized"))
        ok("logout")


def grown(value: str) -> str:
    """A value of an enumeration that may grow, or the unknown one that a later service sends instead."""
    return os.environ.get("TASKWRIGHT_UNKNOWN_VALUE", value)


def success(kind: type[T], response: Response[T | Problem]) -> T:
    """The typed body of a response. Fails if the response is a problem."""
    if not isinstance(response.parsed, kind):
        raise SystemExit(f"failed: {response.status_code} {response.content!r}")
    return response.parsed


def problem(status: int, response: Response[T | Problem]) -> Problem:
    """The problem of a call that must fail with a status."""
    equal("status", response.status_code, status)
    if not isinstance(response.parsed, Problem):
        raise SystemExit(f"failed: {response.content!r} is not a problem")
    return response.parsed


def next_event(client: AuthenticatedClient, wanted: str, after: str | None = None) -> tuple[str, dict[str, Any]]:
    """The id and the data of the next event of a type. The generated function waits for the end of the stream."""
    headers = {} if after is None else {"Last-Event-ID": after}
    with client.get_httpx_client().stream("GET", "/events/stream", headers=headers) as response:
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            fields[name] = value
            if line == "" and fields.get("event") == wanted:
                return fields["id"], json.loads(fields["data"])
    raise SystemExit(f"failed: the stream ended before {wanted}")


def eventually(label: str, find: Callable[[], T | None]) -> T:
    """Polls until there is a result, because the service works in the background."""
    for _ in range(600):
        found = find()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"failed: {label}: timed out after 30 seconds")


def equal(label: str, got: object, want: object) -> None:
    if got != want:
        raise SystemExit(f"failed: {label}: got {got!r}, want {want!r}")


def ok(step: str) -> None:
    print("ok", step)


main()
