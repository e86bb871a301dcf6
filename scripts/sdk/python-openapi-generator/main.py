"""The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program."""

import hashlib
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from taskwright import (
    ApiClient,
    ApiException,
    ApiResponse,
    AttachmentsApi,
    AuthApi,
    CommentCreate,
    CommentPatch,
    CommentsApi,
    Configuration,
    Event,
    EventsApi,
    EventType,
    MembersApi,
    NotificationPatch,
    NotificationReason,
    NotificationsApi,
    Problem,
    ProjectCreate,
    ProjectMemberSet,
    ProjectRole,
    ProjectsApi,
    RefreshRequest,
    Registration,
    RelationKind,
    RelationsApi,
    TagCreate,
    TagsApi,
    TaskCreate,
    TaskPatch,
    TaskPriority,
    TasksApi,
    TaskStatus,
    TaskTagsApi,
    WebhookCreate,
    WebhookDelivery,
    WebhookDeliveryStatus,
    WebhooksApi,
)

T = TypeVar("T")


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

        patched = tasks.update_task(task.id, TaskPatch(status=TaskStatus.IN_PROGRESS))
        equal("status", patched.status, TaskStatus.IN_PROGRESS)
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
        ok("project")

        comments = CommentsApi(client)
        question = CommentCreate(body=f"Is the date right, @{colleague.user.username}?")
        comment = comments.create_comment(plan.id, question)
        equal("mentions", comment.mentions, [colleague.user.id])
        read = comments.get_comment_with_http_info(comment.id)
        equal("the same comment", read.data, comment)
        etag = etag_of(read)
        edit = CommentPatch(body=f"Is the time right, @{colleague.user.username}?")
        edited = comments.update_comment(comment.id, edit, if_match=etag)
        equal("version", edited.version, 2)
        problem(412, lambda: comments.update_comment(comment.id, edit, if_match=etag))
        config.access_token = colleague.access_token
        answer = comments.create_comment(plan.id, CommentCreate(body="It is."))
        config.access_token = tokens.access_token
        first = comments.list_task_comments(plan.id, limit=1)
        last = comments.list_task_comments(plan.id, limit=1, cursor=first.next_cursor)
        equal("comments", first.items + last.items, [edited, answer])
        equal("no more", last.next_cursor, None)
        ok("comment")

        subtask = tasks.create_task(TaskCreate(title="Choose the date", parent_id=plan.id))
        equal("parent", subtask.parent_id, plan.id)
        equal("project", subtask.project_id, project.id)
        equal("subtasks", tasks.get_task(plan.id).subtask_count, 1)
        ok("subtask")

        relations = RelationsApi(client)
        relations.add_task_relation(plan.id, RelationKind.BLOCKED_BY, subtask.id)
        related = relations.list_task_relations(plan.id).items
        kinds = [(relation.kind, relation.other_task_id) for relation in related]
        equal("relations", kinds, [(RelationKind.BLOCKED_BY, subtask.id)])
        equal("is blocked", tasks.get_task(plan.id).is_blocked, True)
        ok("relation")

        notifications = NotificationsApi(client)
        config.access_token = colleague.access_token
        notifications.follow_task(subtask.id)
        followers = notifications.list_task_followers(subtask.id).items
        equal("followers", {one.user_id for one in followers}, {tokens.user.id, colleague.user.id})
        [notification] = eventually("notification", lambda: notifications.list_notifications(unread=True).items)
        equal("reason", notification.reason, NotificationReason.MENTION)
        equal("comment", notification.comment_id, comment.id)
        seen = notifications.update_notification(notification.id, NotificationPatch(is_read=True))
        equal("is read", seen.read_at is not None, True)
        equal("unread", notifications.list_notifications(unread=True).items, [])
        config.access_token = tokens.access_token
        ok("inbox")

        webhooks = WebhooksApi(client)
        receiver = os.environ["TASKWRIGHT_RECEIVER"]
        new_webhook = WebhookCreate(url=receiver, event_types=["project.*"], project_id=project.id)
        webhook = webhooks.create_webhook(new_webhook)
        equal("secret", webhook.secret.startswith("whsec_"), True)
        testing = webhooks.test_webhook(webhook.id)

        def ended() -> WebhookDelivery | None:
            current = webhooks.get_webhook_delivery(webhook.id, testing.id)
            return None if current.status == WebhookDeliveryStatus.PENDING else current

        delivery = eventually("delivery", ended)
        equal("delivery", (delivery.status, delivery.response_status), (WebhookDeliveryStatus.DELIVERED, 204))
        equal("deliveries", webhooks.list_webhook_deliveries(webhook.id).items, [delivery])
        ok("webhook")

        history = EventsApi(client)
        equal("history", history.list_task_events(plan.id).items[-1].type, EventType.TASK_DOT_CREATED)
        found = history.list_events(project_id=[str(project.id)], type=["comment.*"]).items
        expected = [
            (EventType.COMMENT_DOT_CREATED, answer.id),
            (EventType.COMMENT_DOT_UPDATED, comment.id),
            (EventType.COMMENT_DOT_CREATED, comment.id),
        ]
        equal("events", [(event.type, event.resource_id) for event in found], expected)
        ok("events")

        position, _ = next_event(history, "ready")
        missed = comments.create_comment(plan.id, CommentCreate(body="Nobody is listening."))
        _, data = next_event(history, "comment.created", position)
        equal("resumed", Event.model_validate_json(data).resource_id, missed.id)
        ok("stream")

        projects.delete_project(project.id)
        problem(404, lambda: tasks.get_task(plan.id))
        ok("delete")

        etag = etag_of(tasks.get_task_with_http_info(task.id))
        rename = TaskPatch(title="Publish the release notes")
        tasks.update_task(task.id, rename, if_match=etag)
        conflict = problem(412, lambda: tasks.update_task(task.id, rename, if_match=etag))
        equal("code", conflict.code, "precondition_failed")
        ok("conflict")

        # The client rejects titles that are too long itself, but does not limit combining marks.
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
        rejected = problem(401, auth.get_current_user)
        equal("code", rejected.code, "unauthorized")
        ok("logout")


def problem(status: int, call: Callable[[], object]) -> Problem:
    """The problem of a call that must fail with a status."""
    try:
        call()
    except ApiException as exception:
        equal("status", exception.status, status)
        if isinstance(exception.data, Problem):
            return exception.data
        raise
    raise SystemExit(f"failed: expected a problem with status {status}")


def etag_of(response: ApiResponse[Any]) -> str:
    return {name.lower(): value for name, value in (response.headers or {}).items()}["etag"]


def next_event(events: EventsApi, wanted: str, after: str | None = None) -> tuple[str, str]:
    """The id and the data of the next event of a type. The plain function waits for the end of the stream."""
    with events.stream_events_without_preload_content(last_event_id=after) as stream:
        fields: dict[str, str] = {}
        for line in stream:
            name, _, value = line.decode().rstrip().partition(": ")
            fields[name] = value
            if name == "" and fields.get("event") == wanted:
                return fields["id"], fields["data"]
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
