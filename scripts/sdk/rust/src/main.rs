//! The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Debug;

use chrono::{Duration, SubsecRound, Utc};
use sha2::{Digest, Sha256};
use taskwright::apis::configuration::Configuration;
use taskwright::apis::{
    self, attachments_api, auth_api, comments_api, events_api, members_api, notifications_api, projects_api,
    relations_api, tags_api, task_tags_api, tasks_api, webhooks_api,
};
use taskwright::models::{
    CommentCreate, CommentList, CommentPatch, NotificationList, NotificationPatch, Problem, ProjectCreate,
    ProjectMemberSet, ProjectRole, RefreshRequest, Registration, RelationKind, TagCreate, TaskCreate, TaskPatch,
    TaskPriority, TaskStatus, WebhookCreate,
};

/// Maximum number of polls for a result, because the service works in the background.
const ATTEMPTS: usize = 600;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("TASKWRIGHT_URL")?;
    let username = format!("rust-{}", random_text());
    let email = format!("{username}@example.com");
    let password = random_text();
    let tomorrow = (Utc::now() + Duration::days(1)).trunc_subsecs(3).fixed_offset();

    // Documentation: begin
    let mut client = Configuration { base_path: url, ..Configuration::default() };
    let account = Registration::new(username.clone(), email, password);
    let mut tokens = auth_api::register(&client, account).await?;
    client.bearer_access_token = Some(tokens.access_token.clone());
    let new_task = TaskCreate {
        priority: Some(TaskPriority::High),
        due_at: Some(Some(tomorrow)),
        ..TaskCreate::new("Write the release notes".to_owned())
    };
    let task = tasks_api::create_task(&client, new_task, None).await?;
    // Documentation: end
    equal("username", &tokens.user.username, &username);
    ok("register");

    equal("title", task.title.as_str(), "Write the release notes");
    equal("priority", task.priority, TaskPriority::High);
    equal("due_at", task.due_at, Some(tomorrow));
    ok("create");

    let id = task.id.to_string();
    let to_progress = TaskPatch { status: Some(TaskStatus::InProgress), ..TaskPatch::new() };
    let patched = tasks_api::update_task(&client, &id, to_progress, None, None).await?;
    equal("status", patched.status, TaskStatus::InProgress);
    equal("due_at", patched.due_at, Some(tomorrow));
    ok("patch");

    let no_date = TaskPatch { due_at: Some(None), ..TaskPatch::new() };
    let cleared = tasks_api::update_task(&client, &id, no_date, None, None).await?;
    equal("due_at", cleared.due_at, None);
    equal("title", &cleared.title, &task.title);
    ok("clear");

    let new_tag = TagCreate { color: Some(Some("#d92d20".to_owned())), ..TagCreate::new("release".to_owned()) };
    let tag = tags_api::create_tag(&client, new_tag, None).await?;
    task_tags_api::add_task_tag(&client, &id, &tag.id.to_string(), None).await?;
    let tagged = tasks_api::get_task(&client, &id, None, None, None).await?;
    equal("color", tag.color.as_deref(), Some("#d92d20"));
    equal("tags", tagged.tags, vec![tag]);
    ok("tag");

    let sent: [u8; 1000] = std::array::from_fn(|_| rand::random());
    let sha256 = hex(&Sha256::digest(sent));
    let path = std::env::temp_dir().join(format!("{}.bin", random_text()));
    std::fs::write(&path, sent)?;
    let uploaded =
        attachments_api::add_task_attachment(&client, &id, path.clone(), None, None, Some(&sha256)).await;
    std::fs::remove_file(&path)?;
    let attachment = uploaded?;
    let file = attachment.id.to_string();
    let download =
        attachments_api::download_attachment(&client, &file, None, None, None, None, None, None, None).await?;
    let received = download.bytes().await?;
    equal("file name", path.file_name().and_then(|name| name.to_str()), Some(attachment.file_name.as_str()));
    equal("same bytes", received[..] == sent, true);
    equal("sha256", &attachment.sha256, &sha256);
    ok("file");

    let mut created = vec![task.id];
    for number in 1..=5 {
        let another = TaskCreate::new(format!("Task {number}"));
        created.push(tasks_api::create_task(&client, another, None).await?.id);
    }
    let mut listed = Vec::new();
    let mut cursor = None;
    loop {
        let page = list_page(&client, None, cursor.as_deref()).await?;
        equal("at most two", page.items.len() <= 2, true);
        listed.extend(page.items.iter().map(|item| item.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    created.sort();
    listed.sort();
    equal("every task once", listed, created);
    ok("page");

    let new_project = ProjectCreate::new("Launch".to_owned());
    let project = projects_api::create_project(&client, new_project, None).await?;
    let in_project = project.id.to_string();
    let new_plan =
        TaskCreate { project_id: Some(Some(project.id)), ..TaskCreate::new("Plan the launch".to_owned()) };
    let plan = tasks_api::create_task(&client, new_plan, None).await?;
    let another = Registration::new(format!("{username}2"), format!("2{username}@example.com"), random_text());
    let colleague = auth_api::register(&client, another).await?;
    let colleague_id = colleague.user.id.to_string();
    let editor = ProjectMemberSet::new(ProjectRole::Editor);
    let member = members_api::set_project_member(&client, &in_project, &colleague_id, editor, None, None).await?;
    equal("role", member.role, ProjectRole::Editor);
    let colleague_client = Configuration { bearer_access_token: Some(colleague.access_token.clone()), ..client.clone() };
    let shared = tasks_api::get_task(&colleague_client, &plan.id.to_string(), None, None, None).await?;
    equal("project", shared.project_id, Some(project.id));
    let planned = list_page(&colleague_client, Some(vec![in_project.clone()]), None).await?;
    equal("tasks of the project", planned.items, vec![shared]);
    ok("project");

    let plan_id = plan.id.to_string();
    let question = CommentCreate::new(format!("Is the date right, @{}?", colleague.user.username));
    let comment = comments_api::create_comment(&client, &plan_id, question, None).await?;
    equal("mentions", &comment.mentions, &vec![colleague.user.id]);
    let comment_id = comment.id.to_string();
    equal("the same comment", &comments_api::get_comment(&client, &comment_id, None, None).await?, &comment);
    // The client does not return response headers, but the ETag of a resource is its version in quotes.
    let written = format!("\"{}\"", comment.version);
    let edit = CommentPatch { body: Some(format!("Is the time right, @{}?", colleague.user.username)) };
    let edited = comments_api::update_comment(&client, &comment_id, edit.clone(), Some(&written), None).await?;
    equal("version", edited.version, 2);
    problem(412, comments_api::update_comment(&client, &comment_id, edit, Some(&written), None).await)?;
    let reply = CommentCreate::new("It is.".to_owned());
    let answer = comments_api::create_comment(&colleague_client, &plan_id, reply, None).await?;
    let first = list_comments(&client, &plan_id, None).await?;
    let last = list_comments(&client, &plan_id, first.next_cursor.as_deref()).await?;
    equal("first comment", first.items, vec![edited]);
    equal("last comment", &last.items, &vec![answer.clone()]);
    equal("no more", last.next_cursor, None);
    ok("comment");

    let new_subtask =
        TaskCreate { parent_id: Some(Some(plan.id)), ..TaskCreate::new("Choose the date".to_owned()) };
    let subtask = tasks_api::create_task(&client, new_subtask, None).await?;
    equal("parent", subtask.parent_id, Some(plan.id));
    equal("project", subtask.project_id, Some(project.id));
    let subtask_id = subtask.id.to_string();
    equal("subtasks", tasks_api::get_task(&client, &plan_id, None, None, None).await?.subtask_count, 1);
    ok("subtask");

    relations_api::add_task_relation(&client, &plan_id, RelationKind::BlockedBy, &subtask_id, None).await?;
    let related = relations_api::list_task_relations(&client, &plan_id, None, None, None, None, None, None).await?;
    let kinds: Vec<_> = related.items.iter().map(|relation| (relation.kind, relation.other_task_id)).collect();
    equal("relations", kinds, vec![(RelationKind::BlockedBy, subtask.id)]);
    equal("is blocked", tasks_api::get_task(&client, &plan_id, None, None, None).await?.is_blocked, true);
    ok("relation");

    notifications_api::follow_task(&colleague_client, &subtask_id, None).await?;
    let following =
        notifications_api::list_task_followers(&client, &subtask_id, None, None, None, None, None).await?;
    let followers: BTreeSet<_> = following.items.iter().map(|follower| follower.user_id).collect();
    equal("followers", followers, BTreeSet::from([tokens.user.id, colleague.user.id]));
    let mut inbox = list_unread(&colleague_client).await?;
    for _ in 0..ATTEMPTS {
        if !inbox.items.is_empty() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        inbox = list_unread(&colleague_client).await?;
    }
    equal("reason", &inbox.items[0].reason, &grown("mention"));
    equal("comment", inbox.items[0].comment_id, Some(comment.id));
    let mark = NotificationPatch { is_read: Some(true) };
    let notification_id = inbox.items[0].id.to_string();
    let seen = notifications_api::update_notification(&colleague_client, &notification_id, mark, None).await?;
    equal("is read", seen.read_at.is_some(), true);
    equal("unread", list_unread(&colleague_client).await?.items.len(), 0);
    ok("inbox");

    let receiver = std::env::var("TASKWRIGHT_RECEIVER")?;
    let new_webhook = WebhookCreate {
        project_id: Some(Some(project.id)),
        ..WebhookCreate::new(receiver, vec!["project.*".to_owned()])
    };
    let webhook = webhooks_api::create_webhook(&client, new_webhook, None).await?;
    equal("secret", webhook.secret.starts_with("whsec_"), true);
    let webhook_id = webhook.id.to_string();
    let mut delivery = webhooks_api::test_webhook(&client, &webhook_id, None).await?;
    let delivery_id = delivery.id.to_string();
    for _ in 0..ATTEMPTS {
        if delivery.ended_at.is_some() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        delivery = webhooks_api::get_webhook_delivery(&client, &webhook_id, &delivery_id).await?;
    }
    equal("delivery", &delivery.status, &grown("delivered"));
    equal("response status", delivery.response_status, Some(204));
    let deliveries =
        webhooks_api::list_webhook_deliveries(&client, &webhook_id, None, None, None, None, None).await?;
    equal("deliveries", deliveries.items, vec![delivery]);
    ok("webhook");

    let history = events_api::list_task_events(&client, &plan_id, None, None, None, None).await?;
    equal("history", history.items.last().map(|event| &event.r#type), Some(&grown("task.created")));
    let (types, projects) = (Some(vec!["comment.*".to_owned()]), Some(vec![in_project.clone()]));
    let found =
        events_api::list_events(&client, None, None, None, None, None, types, projects, None, None, None).await?;
    let events: Vec<_> = found.items.iter().map(|event| (event.r#type.clone(), event.resource_id)).collect();
    let expected = vec![
        (grown("comment.created"), Some(answer.id)),
        (grown("comment.updated"), Some(comment.id)),
        (grown("comment.created"), Some(comment.id)),
    ];
    equal("events", events, expected);
    ok("events");

    projects_api::delete_project(&client, &in_project, None, None).await?;
    problem(404, tasks_api::get_task(&colleague_client, &plan_id, None, None, None).await)?;
    ok("delete");

    let version = format!("\"{}\"", tasks_api::get_task(&client, &id, None, None, None).await?.version);
    let rename = TaskPatch { title: Some("Publish the release notes".to_owned()), ..TaskPatch::new() };
    tasks_api::update_task(&client, &id, rename.clone(), Some(&version), None).await?;
    let conflict = problem(412, tasks_api::update_task(&client, &id, rename, Some(&version), None).await)?;
    equal("code", conflict.code, grown("precondition_failed"));
    ok("conflict");

    let too_long = TaskCreate::new("x".repeat(501));
    let invalid = problem(400, tasks_api::create_task(&client, too_long, None).await)?;
    let errors = invalid.errors.unwrap_or_default();
    equal("pointer", errors[0].pointer.as_str(), "/title");
    ok("validation");

    let before = tokens.access_token;
    tokens = auth_api::refresh_token(&client, RefreshRequest::new(tokens.refresh_token)).await?;
    client.bearer_access_token = Some(tokens.access_token.clone());
    equal("a new token", tokens.access_token != before, true);
    equal("me", auth_api::get_current_user(&client, None, None).await?.username, username);
    ok("refresh");

    auth_api::logout(&client, None).await?;
    let rejected = problem(401, auth_api::get_current_user(&client, None, None).await)?;
    equal("code", rejected.code, grown("unauthorized"));
    ok("logout");
    Ok(())
}

/// A page of two tasks, of all visible ones or of some projects. The generated function requires every parameter of the contract.
async fn list_page(
    client: &Configuration,
    projects: Option<Vec<String>>,
    cursor: Option<&str>,
) -> Result<taskwright::models::TaskList, apis::Error<tasks_api::ListTasksError>> {
    tasks_api::list_tasks(
        client, Some(2), None, cursor, None, None, None, None, None, None, projects, None, None, None, None,
        None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None,
    )
    .await
}

async fn list_comments(
    client: &Configuration,
    task: &str,
    cursor: Option<&str>,
) -> Result<CommentList, apis::Error<comments_api::ListTaskCommentsError>> {
    comments_api::list_task_comments(client, task, Some(1), None, cursor, None, None, None, None).await
}

async fn list_unread(
    client: &Configuration,
) -> Result<NotificationList, apis::Error<notifications_api::ListNotificationsError>> {
    notifications_api::list_notifications(client, None, None, None, None, Some(true), None).await
}

/// The problem of a call that must fail with a status.
fn problem<Body, Failure>(
    status: u16,
    result: Result<Body, apis::Error<Failure>>,
) -> Result<Problem, Box<dyn Error>> {
    match result {
        Err(apis::Error::ResponseError(response)) => {
            equal("status", response.status.as_u16(), status);
            Ok(serde_json::from_str(&response.content)?)
        }
        _ => Err(format!("expected a problem with status {status}").into()),
    }
}

/// A value of an enumeration that may grow, or the unknown one that a later service sends instead.
fn grown(value: &str) -> String {
    std::env::var("TASKWRIGHT_UNKNOWN_VALUE").unwrap_or_else(|_| value.to_owned())
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
