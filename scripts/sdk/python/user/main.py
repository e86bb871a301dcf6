"""The scenario for generated clients. Each step uses the package; the first mismatch ends the program."""

import asyncio
import hashlib
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, TypeVar

from attrs import evolve
from taskwright import AuthenticatedClient, TaskwrightError, connect, each
from taskwright.api.attachments import add_task_attachment, download_attachment
from taskwright.api.auth import get_current_user, logout, refresh_token, register
from taskwright.api.comments import create_comment, get_comment, list_task_comments, update_comment
from taskwright.api.events import list_events, list_task_events
from taskwright.api.exports import create_export, download_export, get_export
from taskwright.api.imports import create_import, get_import, run_import
from taskwright.api.members import set_project_member
from taskwright.api.notifications import follow_task, list_notifications, list_task_followers, update_notification
from taskwright.api.projects import create_project, delete_project, list_project_tasks
from taskwright.api.relations import add_task_relation, list_task_relations
from taskwright.api.reminders import create_reminder, delete_reminder, list_reminders, update_reminder
from taskwright.api.tags import create_tag
from taskwright.api.task_tags import add_task_tag
from taskwright.api.tasks import create_task, get_task, list_tasks, update_task
from taskwright.api.webhooks import create_webhook, get_webhook_delivery, list_webhook_deliveries, test_webhook
from taskwright.models import (
    AttachmentUpload,
    CommentCreate,
    CommentPatch,
    Event,
    Export,
    ExportCreate,
    Import,
    ImportRun,
    ImportUpload,
    Notification,
    NotificationPatch,
    Problem,
    MetadataPatch,
    ProjectCreate,
    ProjectMemberSet,
    ProjectRoleChoice,
    RecurrenceMissed,
    RecurrencePatch,
    RefreshRequest,
    Registration,
    RelationKindChoice,
    ReminderCreate,
    ReminderPatch,
    TagCreate,
    Task,
    TaskCreate,
    TaskPatch,
    TaskPriority,
    TaskStatus,
    WebhookCreate,
    WebhookDelivery,
)
from taskwright.types import File

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
    with connect(url) as anyone:
        tokens = register.sync(client=anyone, body=account)
    with connect(url, tokens.access_token) as client:
        body = TaskCreate(title="Write the release notes", priority=TaskPriority.HIGH, due_at=tomorrow)
        task = create_task.sync(client=client, body=body)
        # Documentation: end
        equal("username", tokens.user.username, username)
        ok("register")

        equal("title", task.title, "Write the release notes")
        equal("priority", task.priority, TaskPriority.HIGH)
        equal("due_at", task.due_at, tomorrow)
        ok("create")

        def change(patch: TaskPatch) -> Task:
            return update_task.sync(task.id, client=client, body=patch)

        patched = change(TaskPatch(status=TaskStatus.IN_PROGRESS))
        equal("status", patched.status, TaskStatus.IN_PROGRESS)
        equal("due_at", patched.due_at, tomorrow)
        ok("patch")

        hour_before = ReminderCreate(relative_to="due", offset_minutes=-60)
        reminder = create_reminder.sync(task.id, client=client, body=hour_before)
        equal("remind_at", reminder.remind_at, tomorrow - timedelta(hours=1))
        equal("reminders", list_reminders.sync(client=client, task_id=[task.id]).items, [reminder])
        snooze = ReminderPatch(snoozed_until=tomorrow)
        snoozed = update_reminder.sync(reminder.id, client=client, body=snooze)
        equal("snoozed", snoozed.remind_at, tomorrow)
        delete_reminder.sync(reminder.id, client=client)
        equal("deleted", list_reminders.sync(client=client, task_id=[task.id]).items, [])
        ok("remind")

        recurring = change(TaskPatch(recurrence=RecurrencePatch(rule="FREQ=WEEKLY")))
        equal("rule", recurring.recurrence and recurring.recurrence.rule, "FREQ=WEEKLY")
        assert recurring.occurrence is not None
        equal("occurrence", (recurring.occurrence.number, recurring.occurrence.at), (1, tomorrow))
        changed = change(TaskPatch(recurrence=RecurrencePatch(missed=RecurrenceMissed.EACH)))
        equal("rule", changed.recurrence and changed.recurrence.rule, "FREQ=WEEKLY")
        equal("missed", changed.recurrence and changed.recurrence.missed, RecurrenceMissed.EACH)
        single = change(TaskPatch(recurrence=None))
        equal("recurrence", (single.recurrence, single.occurrence), (None, None))
        ok("recur")

        noted = change(TaskPatch(metadata=MetadataPatch.from_dict({"customer_id": "42", "ticket": "A-7"})))
        equal("two keys", noted.metadata.to_dict(), {"customer_id": "42", "ticket": "A-7"})
        merged = change(TaskPatch(metadata=MetadataPatch.from_dict({"ticket": None})))
        equal("one key", merged.metadata.to_dict(), {"customer_id": "42"})
        ok("metadata")

        cleared = change(TaskPatch(due_at=None))
        equal("due_at", cleared.due_at, None)
        equal("title", cleared.title, task.title)
        ok("clear")

        new_tag = TagCreate(name="release", color="#d92d20")
        tag = create_tag.sync(client=client, body=new_tag)
        add_task_tag.sync(task.id, tag.id, client=client)
        tagged = get_task.sync(task.id, client=client)
        equal("tags", tagged.tags, [tag])
        equal("color", tagged.tags[0].color, "#d92d20")
        ok("tag")

        sent = secrets.token_bytes(1000)
        sha256 = hashlib.sha256(sent).hexdigest()
        form = AttachmentUpload(file=File(payload=BytesIO(sent), file_name="random.bin"), sha256=sha256)
        attachment = add_task_attachment.sync(task.id, client=client, body=form)
        file = download_attachment.sync(attachment.id, client=client)
        received = file.payload.read()
        equal("file name", attachment.file_name, "random.bin")
        equal("same bytes", received == sent, True)
        equal("sha256", attachment.sha256, sha256)
        ok("file")

        created = Counter([task.id])
        for number in range(1, 6):
            body = TaskCreate(title=f"Task {number}")
            created[create_task.sync(client=client, body=body).id] += 1
        tasks = each(lambda cursor: list_tasks.sync(client=client, limit=2, cursor=cursor))
        listed = Counter(item.id for item in tasks)
        equal("every task once", listed, created)
        ok("page")

        # The service behind this proxy fails twice, and works at last.
        async def create_two() -> tuple[Task, Task]:
            with connect(os.environ["TASKWRIGHT_UNRELIABLE"], tokens.access_token) as patient:
                async with patient:
                    return await asyncio.gather(
                        asyncio.to_thread(create_task.sync, client=patient, body=TaskCreate(title="Only once")),
                        create_task.asyncio(client=patient, body=TaskCreate(title="Only later")),
                    )

        once, later = asyncio.run(create_two())
        found = each(lambda cursor: list_tasks.sync(client=client, q="only", cursor=cursor))
        equal("two tasks", {item.id: item.title for item in found}, {once.id: "Only once", later.id: "Only later"})
        ok("retry")

        project = create_project.sync(client=client, body=ProjectCreate(name="Launch"))
        body = TaskCreate(title="Plan the launch", project_id=project.id, assignee_id=tokens.user.id)
        plan = create_task.sync(client=client, body=body)
        equal("assignee", plan.assignee_id, tokens.user.id)
        another = evolve(account, username=f"{username}2", email=f"2{account.email}")
        colleague = register.sync(client=client, body=another)
        editor = ProjectMemberSet(role=ProjectRoleChoice.EDITOR)
        added = set_project_member.sync(project.id, colleague.user.id, client=client, body=editor)
        equal("role", added.role, grown("editor"))
        with connect(url, colleague.access_token) as colleague_client:
            shared = get_task.sync(plan.id, client=colleague_client)
            equal("project", shared.project_id, project.id)
            planned = list_project_tasks.sync(project.id, client=colleague_client)
            equal("tasks of the project", planned.items, [shared])
            ok("project")

            question = CommentCreate(body=f"Is the date right, @{colleague.user.username}?")
            comment = create_comment.sync(plan.id, client=client, body=question)
            equal("mentions", comment.mentions, [colleague.user.id])
            read = get_comment.sync(comment.id, client=client)
            equal("the same comment", read, comment)
            etag = f'"{read.version}"'
            edit = CommentPatch(body=f"Is the time right, @{colleague.user.username}?")
            edited = update_comment.sync(comment.id, client=client, body=edit, if_match=etag)
            equal("version", edited.version, 2)
            problem(412, update_comment.sync, comment.id, client=client, body=edit, if_match=etag)
            reply = CommentCreate(body="It is.")
            answer = create_comment.sync(plan.id, client=colleague_client, body=reply)
            comments = each(lambda cursor: list_task_comments.sync(plan.id, client=client, limit=1, cursor=cursor))
            equal("comments", list(comments), [edited, answer])
            ok("comment")

            body = TaskCreate(title="Choose the date", parent_id=plan.id)
            subtask = create_task.sync(client=client, body=body)
            equal("parent", subtask.parent_id, plan.id)
            equal("project", subtask.project_id, project.id)
            equal("subtasks", get_task.sync(plan.id, client=client).subtask_count, 1)
            ok("subtask")

            add_task_relation.sync(plan.id, RelationKindChoice.BLOCKED_BY, subtask.id, client=client)
            related = list_task_relations.sync(plan.id, client=client).items
            kinds = [(relation.kind, relation.other_task_id) for relation in related]
            equal("relations", kinds, [(grown("blocked_by"), subtask.id)])
            equal("is blocked", get_task.sync(plan.id, client=client).is_blocked, True)
            ok("relation")

            follow_task.sync(subtask.id, client=colleague_client)
            followers = list_task_followers.sync(subtask.id, client=client).items
            equal("followers", {one.user_id for one in followers}, {tokens.user.id, colleague.user.id})

            def unread() -> list[Notification]:
                return list_notifications.sync(client=colleague_client, unread=True).items

            [notification] = eventually("notification", unread)
            equal("reason", notification.reason, grown("mention"))
            equal("comment", notification.comment_id, comment.id)
            mark = NotificationPatch(is_read=True)
            seen = update_notification.sync(notification.id, client=colleague_client, body=mark)
            equal("is read", seen.read_at is not None, True)
            equal("unread", unread(), [])
            ok("inbox")

            receiver_url = os.environ["TASKWRIGHT_RECEIVER"]
            new_webhook = WebhookCreate(url=receiver_url, event_types=["project.*"], project_id=project.id)
            webhook = create_webhook.sync(client=client, body=new_webhook)
            testing = test_webhook.sync(webhook.id, client=client)

            def ended() -> WebhookDelivery | None:
                current = get_webhook_delivery.sync(webhook.id, testing.id, client=client)
                return None if current.ended_at is None else current

            delivery = eventually("delivery", ended)
            equal("delivery", (delivery.status, delivery.response_status), (grown("delivered"), 204))
            deliveries = list_webhook_deliveries.sync(webhook.id, client=client)
            equal("deliveries", deliveries.items, [delivery])
            ok("webhook")

            history = list_task_events.sync(plan.id, client=client).items
            equal("history", history[-1].type_, grown("task.created"))
            search = list_events.sync(client=client, project_id=[project.id], type_=["comment.*"])
            events = [(event.type_, event.resource_id) for event in search.items]
            expected = [
                (grown("comment.created"), answer.id),
                (grown("comment.updated"), comment.id),
                (grown("comment.created"), comment.id),
            ]
            equal("events", events, expected)
            ok("events")

            position, _ = next_event(client, "ready")
            unheard = CommentCreate(body="Nobody is listening.")
            missed = create_comment.sync(plan.id, client=client, body=unheard)
            _, data = next_event(client, "comment.created", position)
            equal("resumed", Event.from_dict(data).resource_id, missed.id)
            ok("stream")

            delete_project.sync(project.id, client=client)
            problem(404, get_task.sync, plan.id, client=colleague_client)
            ok("delete")

        etag = get_task.sync_detailed(task.id, client=client).headers["ETag"]
        rename = TaskPatch(title="Publish the release notes")
        update_task.sync(task.id, client=client, body=rename, if_match=etag)
        conflict = problem(412, update_task.sync, task.id, client=client, body=rename, if_match=etag)
        equal("code", conflict.code, grown("precondition_failed"))
        ok("conflict")

        invalid = problem(400, create_task.sync, client=client, body=TaskCreate(title="x" * 501))
        equal("pointer", [error.pointer for error in invalid.errors or ()], ["/title"])
        ok("validation")

        table = File(payload=BytesIO(b"title\nOrder the cake\n"), file_name="tasks.csv")
        upload = create_import.sync(client=client, body=ImportUpload(file=table))

        def settled() -> Import | None:
            present = get_import.sync(upload.id, client=client)
            return present if present.poll_after_seconds is None else None

        previewed = eventually("the import", settled)
        assert previewed.preview is not None
        equal("previewed tasks", previewed.preview.tasks, 1)
        run_import.sync(upload.id, client=client, body=ImportRun(version=previewed.version))
        result = eventually("the import", settled).result
        assert result is not None
        equal("created", result.created, 1)
        imported = list_tasks.sync(client=client, q='"Order the cake"').items
        equal("imported", [item.title for item in imported], ["Order the cake"])
        ok("import")

        export = create_export.sync(client=client, body=ExportCreate())

        def exported() -> Export | None:
            present = get_export.sync(export.id, client=client)
            return present if present.poll_after_seconds is None else None

        finished = eventually("the export", exported)
        equal("status", finished.status, grown("finished"))
        archive = download_export.sync(export.id, client=client).payload.read()
        equal("size", len(archive), finished.size)
        equal("signature", archive[:2], b"PK")
        ok("export")

    before = tokens.access_token
    refresh = RefreshRequest(refresh_token=tokens.refresh_token)
    with connect(url) as anyone:
        tokens = refresh_token.sync(client=anyone, body=refresh)
    with connect(url, tokens.access_token) as client:
        equal("a new token", tokens.access_token != before, True)
        equal("me", get_current_user.sync(client=client).username, username)
        ok("refresh")

        logout.sync(client=client)
        rejected = problem(401, get_current_user.sync, client=client)
        equal("code", rejected.code, grown("unauthorized"))
        ok("logout")


def grown(value: str) -> str:
    """A value of an enumeration that may grow, or the unknown one that a later service sends instead."""
    return os.environ.get("TASKWRIGHT_UNKNOWN_VALUE", value)


def problem(status: int, function: Callable[..., object], *arguments: object, **options: object) -> Problem:
    """The problem of a call that must fail with a status."""
    try:
        function(*arguments, **options)
    except TaskwrightError as error:
        equal("status", error.response.status_code, status)
        assert error.problem is not None
        return error.problem
    raise SystemExit(f"failed: expected a problem with status {status}")


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
