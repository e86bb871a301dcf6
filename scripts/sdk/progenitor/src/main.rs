//! The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Debug;

use chrono::{Duration, SubsecRound, Utc};
use futures_util::TryStreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::multipart::{Form, Part};
use sha2::{Digest, Sha256};
use taskwright::types::{
    Attachment, CommentBody, CommentCreate, CommentPatch, EventType, EventTypePattern, NotificationPatch,
    NotificationReason, Problem, ProjectCreate, ProjectMemberSet, ProjectOrNone, ProjectRole, RefreshRequest,
    Registration, RelationKind, TagCreate, TagCreateColor, TaskCreate, TaskPatch, TaskPriority, TaskReplace, TaskStatus,
    TaskTitle, WebhookCreate, WebhookDeliveryStatus,
};
use taskwright::{Client, ClientInfo, ResponseValue};

mod taskwright {
    progenitor::generate_api!(spec = "contract.json", interface = Builder);
}

/// Maximum number of polls for a result, because the service works in the background.
const ATTEMPTS: usize = 600;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

type ClientError = taskwright::Error<Problem>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("TASKWRIGHT_URL")?;
    let username = format!("progenitor-{}", &random_text()[..16]);
    let email = format!("{username}@example.com");
    let password = random_text();
    let tomorrow = (Utc::now() + Duration::days(1)).trunc_subsecs(3);

    // Documentation: begin
    let anyone = Client::new(&url);
    let account = Registration::builder().username(&*username).email(email).password(password);
    let tokens = anyone.register().body(account).send().await?.into_inner();
    let client = signed_in(&url, &tokens.access_token)?;
    let new_task =
        TaskCreate::builder().title("Write the release notes").priority(TaskPriority::High).due_at(tomorrow);
    let task = client.create_task().body(new_task).send().await?.into_inner();
    // Documentation: end
    equal("username", tokens.user.username.as_str(), username.as_str());
    ok("register");

    equal("title", task.title.as_str(), "Write the release notes");
    equal("priority", task.priority, TaskPriority::High);
    equal("due_at", task.due_at, Some(tomorrow));
    ok("create");

    let to_progress = TaskPatch::builder().status(TaskStatus::InProgress);
    let patched = client.update_task().task_id(task.id).body(to_progress).send().await?.into_inner();
    equal("status", patched.status, TaskStatus::InProgress);
    equal("due_at", patched.due_at, Some(tomorrow));
    ok("patch");

    // The client never sends null, so a patch cannot clear a field. A replacement clears omitted fields.
    let without_date =
        TaskReplace::builder().title(patched.title.as_str()).status(patched.status).priority(patched.priority);
    let cleared = client.replace_task().task_id(task.id).body(without_date).send().await?.into_inner();
    equal("due_at", cleared.due_at, None);
    equal("title", &cleared.title, &task.title);
    ok("clear");

    let new_tag = TagCreate::builder().name("release").color(TagCreateColor::try_from("#d92d20")?);
    let tag = client.create_tag().body(new_tag).send().await?.into_inner();
    client.add_task_tag().task_id(task.id).tag_id(tag.id).send().await?;
    let tagged = client.get_task().task_id(task.id).send().await?.into_inner();
    equal("tags", tagged.tags.len(), 1);
    equal("tag", tagged.tags[0].id, tag.id);
    equal("color", tagged.tags[0].color.as_deref().map(String::as_str), Some("#d92d20"));
    ok("tag");

    let sent: [u8; 1000] = std::array::from_fn(|_| rand::random());
    let sha256 = hex(&Sha256::digest(sent));
    // progenitor does not support forms, so the form is sent with the HTTP client of the generated client.
    let form = Form::new()
        .text("sha256", sha256.clone())
        .part("file", Part::bytes(sent.to_vec()).file_name("random.bin"));
    let place = format!("{url}/tasks/{}/attachments", task.id);
    let answer = client.client().post(place).multipart(form).send().await?.error_for_status()?;
    let attachment: Attachment = answer.json().await?;
    let download = client.download_attachment().attach_id(attachment.id).send().await?.into_inner();
    let received = download.into_inner().try_fold(Vec::new(), |bytes, piece| async move { Ok([&bytes, &piece[..]].concat()) }).await?;
    equal("file name", attachment.file_name.as_str(), "random.bin");
    equal("same bytes", received == sent, true);
    equal("sha256", attachment.sha256.as_str(), sha256.as_str());
    ok("file");

    let mut created = vec![task.id];
    for number in 1..=5 {
        let another = TaskCreate::builder().title(format!("Task {number}"));
        created.push(client.create_task().body(another).send().await?.id);
    }
    let mut listed = Vec::new();
    let mut page = client.list_tasks().limit(2).send().await?.into_inner();
    loop {
        equal("at most two", page.items.len() <= 2, true);
        listed.extend(page.items.iter().map(|item| item.id));
        let Some(cursor) = page.next_cursor else { break };
        page = client.list_tasks().limit(2).cursor(cursor).send().await?.into_inner();
    }
    created.sort();
    listed.sort();
    equal("every task once", listed, created);
    ok("page");

    let project = client.create_project().body(ProjectCreate::builder().name("Launch")).send().await?.into_inner();
    let new_plan = TaskCreate::builder().title("Plan the launch").project_id(project.id);
    let plan = client.create_task().body(new_plan).send().await?.into_inner();
    let another = Registration::builder()
        .username(format!("{username}2"))
        .email(format!("2{username}@example.com"))
        .password(random_text());
    let colleague = anyone.register().body(another).send().await?.into_inner();
    let editor = ProjectMemberSet::builder().role(ProjectRole::Editor);
    let membership = client.set_project_member().project_id(project.id).user_id(colleague.user.id.to_string());
    equal("role", membership.body(editor).send().await?.role, ProjectRole::Editor);
    let colleague_client = signed_in(&url, &colleague.access_token)?;
    let shared = colleague_client.get_task().task_id(plan.id).send().await?;
    equal("project", shared.project_id, Some(project.id));
    let planned = colleague_client.list_project_tasks().project_id(project.id).send().await?.into_inner();
    equal("tasks of the project", planned.items.iter().map(|item| item.id).collect(), vec![plan.id]);
    ok("project");

    let question = CommentCreate::builder().body(format!("Is the date right, @{}?", *colleague.user.username));
    let comment = client.create_comment().task_id(plan.id).body(question).send().await?.into_inner();
    equal("mentions", &comment.mentions, &vec![colleague.user.id]);
    let written = client.get_comment().comment_id(comment.id).send().await?;
    equal("the same comment", written.body.as_str(), comment.body.as_str());
    let comment_tag = written.headers()["etag"].to_str()?;
    let text = CommentBody::try_from(format!("Is the time right, @{}?", *colleague.user.username))?;
    let edit = || {
        let patch = CommentPatch::builder().body(text.clone());
        client.update_comment().comment_id(comment.id).if_match(comment_tag).body(patch).send()
    };
    equal("version", edit().await?.version.get(), 2);
    problem(412, edit().await)?;
    let reply = CommentCreate::builder().body("It is.");
    let answer = colleague_client.create_comment().task_id(plan.id).body(reply).send().await?.into_inner();
    let first = client.list_task_comments().task_id(plan.id).limit(1).send().await?.into_inner();
    let cursor = first.next_cursor.unwrap_or_default();
    let last = client.list_task_comments().task_id(plan.id).limit(1).cursor(cursor).send().await?.into_inner();
    equal("first comment", first.items[0].id, comment.id);
    equal("last comment", last.items[0].id, answer.id);
    equal("no more", last.next_cursor, None);
    ok("comment");

    let new_subtask = TaskCreate::builder().title("Choose the date").parent_id(plan.id);
    let subtask = client.create_task().body(new_subtask).send().await?.into_inner();
    equal("parent", subtask.parent_id, Some(plan.id));
    equal("project", subtask.project_id, Some(project.id));
    equal("subtasks", client.get_task().task_id(plan.id).send().await?.subtask_count, 1);
    ok("subtask");

    let relation = client.add_task_relation().task_id(plan.id).kind(RelationKind::BlockedBy);
    relation.other_task_id(subtask.id).send().await?;
    let related = client.list_task_relations().task_id(plan.id).send().await?.into_inner().items;
    let kinds: Vec<_> = related.iter().map(|relation| (relation.kind, relation.other_task_id)).collect();
    equal("relations", kinds, vec![(RelationKind::BlockedBy, subtask.id)]);
    equal("is blocked", client.get_task().task_id(plan.id).send().await?.is_blocked, true);
    ok("relation");

    colleague_client.follow_task().task_id(subtask.id).send().await?;
    let following = client.list_task_followers().task_id(subtask.id).send().await?.into_inner().items;
    let followers: BTreeSet<_> = following.iter().map(|follower| follower.user_id).collect();
    equal("followers", followers, BTreeSet::from([tokens.user.id, colleague.user.id]));
    let unread = || colleague_client.list_notifications().unread(true).send();
    let mut inbox = unread().await?.into_inner().items;
    for _ in 0..ATTEMPTS {
        if !inbox.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        inbox = unread().await?.into_inner().items;
    }
    equal("reason", inbox[0].reason, NotificationReason::Mention);
    equal("comment", inbox[0].comment_id, Some(comment.id));
    let mark = NotificationPatch::builder().is_read(true);
    let seen = colleague_client.update_notification().notification_id(inbox[0].id).body(mark).send().await?;
    equal("is read", seen.read_at.is_some(), true);
    equal("unread", unread().await?.items.len(), 0);
    ok("inbox");

    let receiver = std::env::var("TASKWRIGHT_RECEIVER")?;
    let types = vec!["project.*".parse::<EventTypePattern>()?];
    let new_webhook = WebhookCreate::builder().url(receiver).event_types(types).project_id(project.id);
    let webhook = client.create_webhook().body(new_webhook).send().await?.into_inner();
    equal("secret", webhook.secret.starts_with("whsec_"), true);
    let mut delivery = client.test_webhook().webhook_id(webhook.id).send().await?.into_inner();
    for _ in 0..ATTEMPTS {
        if delivery.status != WebhookDeliveryStatus::Pending {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let sending = client.get_webhook_delivery().webhook_id(webhook.id).delivery_id(delivery.id);
        delivery = sending.send().await?.into_inner();
    }
    equal("delivery", delivery.status, WebhookDeliveryStatus::Delivered);
    equal("response status", delivery.response_status, Some(204));
    let deliveries = client.list_webhook_deliveries().webhook_id(webhook.id).send().await?.into_inner().items;
    equal("deliveries", deliveries.iter().map(|one| one.id).collect(), vec![delivery.id]);
    ok("webhook");

    let history = client.list_task_events().task_id(plan.id).send().await?.into_inner().items;
    equal("history", history.last().map(|event| event.type_), Some(EventType::TaskCreated));
    let search = client.list_events().project_id(vec![project.id.to_string().parse::<ProjectOrNone>()?]);
    let found = search.type_(vec!["comment.*".parse::<EventTypePattern>()?]).send().await?.into_inner().items;
    let events: Vec<_> = found.iter().map(|event| (event.type_, event.resource_id)).collect();
    let expected = vec![
        (EventType::CommentCreated, Some(answer.id)),
        (EventType::CommentUpdated, Some(comment.id)),
        (EventType::CommentCreated, Some(comment.id)),
    ];
    equal("events", events, expected);
    ok("events");

    client.delete_project().project_id(project.id).send().await?;
    problem(404, colleague_client.get_task().task_id(plan.id).send().await)?;
    ok("delete");

    let read = client.get_task().task_id(task.id).send().await?;
    let etag = read.headers()["etag"].to_str()?;
    let title = TaskTitle::try_from("Publish the release notes")?;
    let rename = || {
        let patch = TaskPatch::builder().title(title.clone());
        client.update_task().task_id(task.id).if_match(etag).body(patch).send()
    };
    rename().await?;
    let conflict = problem(412, rename().await)?;
    equal("code", conflict.code.to_string().as_str(), "precondition_failed");
    ok("conflict");

    // The client rejects titles that are too long itself, but does not limit combining marks.
    let unreadable = TaskCreate::builder().title(format!("x{}", "\u{301}".repeat(31)));
    let invalid = problem(400, client.create_task().body(unreadable).send().await)?;
    equal("pointer", invalid.errors[0].pointer.as_str(), "/title");
    ok("validation");

    let refresh = RefreshRequest::builder().refresh_token(&*tokens.refresh_token);
    let fresh = anyone.refresh_token().body(refresh).send().await?.into_inner();
    equal("a new token", fresh.access_token != tokens.access_token, true);
    let client = signed_in(&url, &fresh.access_token)?;
    equal("me", client.get_current_user().send().await?.username.as_str(), username.as_str());
    ok("refresh");

    client.logout().send().await?;
    let rejected = problem(401, client.get_current_user().send().await)?;
    equal("code", rejected.code.to_string().as_str(), "unauthorized");
    ok("logout");
    Ok(())
}

/// A client that sends an access token with each request.
fn signed_in(url: &str, token: &str) -> Result<Client, Box<dyn Error>> {
    let authorization = HeaderValue::from_str(&format!("Bearer {token}"))?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization)]);
    let http = reqwest::Client::builder().default_headers(headers).build()?;
    Ok(Client::new_with_client(url, http))
}

/// The problem of a call that must fail with a status.
fn problem<Answer>(status: u16, result: Result<ResponseValue<Answer>, ClientError>) -> Result<Problem, Box<dyn Error>> {
    match result {
        Err(ClientError::ErrorResponse(response)) => {
            equal("status", response.status().as_u16(), status);
            Ok(response.into_inner())
        }
        Err(other) => Err(other.into()),
        Ok(_) => Err(format!("expected a problem with status {status}").into()),
    }
}

fn random_text() -> String {
    hex(&rand::random::<[u8; 12]>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn equal<Value: PartialEq + Debug>(label: &str, got: Value, want: Value) {
    assert!(got == want, "{label}: got {got:?}, want {want:?}");
}

fn ok(step: &str) {
    println!("ok {step}");
}
