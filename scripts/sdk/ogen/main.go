// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	ht "github.com/ogen-go/ogen/http"

	"taskwright-sdk/taskwright"
)

// The access token of the signed-in user.
type session struct{ token string }

func (s *session) BearerAuth(context.Context, taskwright.OperationName) (taskwright.BearerAuth, error) {
	return taskwright.BearerAuth{Token: s.token}, nil
}

func main() {
	ctx := context.Background()
	url := os.Getenv("TASKWRIGHT_URL")
	username := taskwright.Username("ogen-" + strings.ToLower(rand.Text()))
	email := taskwright.EmailAddress(username + "@example.com")
	password := taskwright.NewPassword(rand.Text())
	// The client sends times without milliseconds.
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)

	// Documentation: begin
	me := &session{}
	client := must(taskwright.NewClient(url, me))
	account := &taskwright.Registration{Username: username, Email: email, Password: password}
	tokens := as[*taskwright.RegisteredHeaders](client.Register(ctx, account)).Response
	me.token = tokens.AccessToken
	task := as[*taskwright.TaskHeaders](client.CreateTask(ctx, &taskwright.TaskCreate{
		Title:    "Write the release notes",
		Priority: taskwright.NewOptTaskPriority(taskwright.TaskPriorityHigh),
		DueAt:    taskwright.NewOptNilDateTime(tomorrow),
	}, taskwright.CreateTaskParams{})).Response
	// Documentation: end
	equal("username", tokens.User.Username, string(username))
	ok("register")

	equal("title", task.Title, "Write the release notes")
	equal("priority", task.Priority, taskwright.TaskPriorityHigh)
	equal("due_at", task.DueAt.Value.UTC(), tomorrow)
	ok("create")

	change := func(etag taskwright.OptString, patch taskwright.TaskPatch) (taskwright.UpdateTaskRes, error) {
		body := taskwright.UpdateTaskApplicationMergePatchJSON(patch)
		return client.UpdateTask(ctx, &body, taskwright.UpdateTaskParams{TaskID: task.ID, IfMatch: etag})
	}
	anyVersion := taskwright.OptString{}
	toProgress := taskwright.TaskPatch{Status: taskwright.NewOptTaskStatus(taskwright.TaskStatusInProgress)}
	patched := as[*taskwright.TaskReadHeaders](change(anyVersion, toProgress)).Response
	equal("status", patched.Status, taskwright.TaskStatusInProgress)
	equal("due_at", patched.DueAt.Value.UTC(), tomorrow)
	ok("patch")

	noDate := taskwright.TaskPatch{}
	noDate.DueAt.SetToNull()
	cleared := as[*taskwright.TaskReadHeaders](change(anyVersion, noDate)).Response
	equal("due_at is null", cleared.DueAt.Null, true)
	equal("title", cleared.Title, task.Title)
	ok("clear")

	tag := as[*taskwright.TagHeaders](client.CreateTag(ctx, &taskwright.TagCreate{
		Name: "release", Color: taskwright.NewOptNilString("#d92d20"),
	}, taskwright.CreateTagParams{})).Response
	as[*taskwright.AddTaskTagNoContent](client.AddTaskTag(ctx, taskwright.AddTaskTagParams{TaskID: task.ID, TagID: tag.ID}))
	read := taskwright.GetTaskParams{TaskID: task.ID}
	tagged := as[*taskwright.TaskReadHeaders](client.GetTask(ctx, read)).Response
	equal("tags", len(tagged.Tags), 1)
	equal("tag", tagged.Tags[0].ID, tag.ID)
	equal("color", tagged.Tags[0].Color.Value, "#d92d20")
	ok("tag")

	sent := make([]byte, 1000)
	must(rand.Read(sent))
	sum := sha256.Sum256(sent)
	sha256 := hex.EncodeToString(sum[:])
	form := &taskwright.AttachmentUploadMultipart{
		File:   ht.MultipartFile{Name: "random.bin", File: bytes.NewReader(sent)},
		SHA256: taskwright.NewOptString(sha256),
	}
	attachment := as[*taskwright.AttachmentHeaders](client.AddTaskAttachment(ctx, form,
		taskwright.AddTaskAttachmentParams{TaskID: task.ID})).Response
	download := as[*taskwright.DownloadHeaders](client.DownloadAttachment(ctx,
		taskwright.DownloadAttachmentParams{AttachID: attachment.ID}))
	received := must(io.ReadAll(download.Response))
	equal("file name", attachment.FileName, "random.bin")
	equal("same bytes", bytes.Equal(received, sent), true)
	equal("sha256", attachment.SHA256, sha256)
	ok("file")

	created := map[uuid.UUID]int{task.ID: 1}
	for number := range 5 {
		body := &taskwright.TaskCreate{Title: taskwright.TaskTitle(fmt.Sprintf("Task %d", number+1))}
		added := as[*taskwright.TaskHeaders](client.CreateTask(ctx, body, taskwright.CreateTaskParams{}))
		created[added.Response.ID] = 1
	}
	listed := map[uuid.UUID]int{}
	for cursor := (taskwright.OptString{}); ; {
		query := taskwright.ListTasksParams{Limit: taskwright.NewOptInt(2), Cursor: cursor}
		page := as[*taskwright.TaskPageHeaders](client.ListTasks(ctx, query)).Response
		equal("at most two", len(page.Items) <= 2, true)
		for _, item := range page.Items {
			listed[item.ID]++
		}
		if page.NextCursor.Null {
			break
		}
		cursor = taskwright.NewOptString(page.NextCursor.Value)
	}
	equal("every task once", maps.Equal(listed, created), true)
	ok("page")

	project := as[*taskwright.ProjectHeaders](client.CreateProject(ctx,
		&taskwright.ProjectCreate{Name: "Launch"}, taskwright.CreateProjectParams{})).Response
	plan := as[*taskwright.TaskHeaders](client.CreateTask(ctx, &taskwright.TaskCreate{
		Title: "Plan the launch", ProjectID: taskwright.NewOptNilUUID(project.ID),
	}, taskwright.CreateTaskParams{})).Response
	account.Username, account.Email = username+"2", "2"+email
	colleague := as[*taskwright.RegisteredHeaders](client.Register(ctx, account)).Response
	colleagueClient := must(taskwright.NewClient(url, &session{colleague.AccessToken}))
	member := as[*taskwright.ProjectMemberHeaders](client.SetProjectMember(ctx,
		&taskwright.ProjectMemberSet{Role: taskwright.ProjectRoleEditor},
		taskwright.SetProjectMemberParams{ProjectID: project.ID, UserID: taskwright.UserRef(colleague.User.ID.String())})).Response
	equal("role", member.Role, taskwright.ProjectRoleEditor)
	readPlan := taskwright.GetTaskParams{TaskID: plan.ID}
	shared := as[*taskwright.TaskReadHeaders](colleagueClient.GetTask(ctx, readPlan)).Response
	equal("project", shared.ProjectID.Value, project.ID)
	planned := as[*taskwright.TaskPageHeaders](colleagueClient.ListProjectTasks(ctx,
		taskwright.ListProjectTasksParams{ProjectID: project.ID})).Response
	equal("tasks of the project", len(planned.Items), 1)
	equal("task of the project", planned.Items[0].ID, plan.ID)
	ok("project")

	toPlan := taskwright.CreateCommentParams{TaskID: plan.ID}
	question := taskwright.CommentBody(fmt.Sprintf("Is the date right, @%s?", colleague.User.Username))
	comment := as[*taskwright.CommentHeaders](client.CreateComment(ctx, &taskwright.CommentCreate{Body: question}, toPlan)).Response
	equal("mentions", len(comment.Mentions), 1)
	equal("mention", comment.Mentions[0], colleague.User.ID)
	written := as[*taskwright.CommentReadHeaders](client.GetComment(ctx, taskwright.GetCommentParams{CommentID: comment.ID}))
	equal("the same comment", written.Response.Body, comment.Body)
	editOnce := func() (taskwright.UpdateCommentRes, error) {
		text := taskwright.CommentBody(fmt.Sprintf("Is the time right, @%s?", colleague.User.Username))
		body := taskwright.UpdateCommentApplicationMergePatchJSON{Body: taskwright.NewOptCommentBody(text)}
		params := taskwright.UpdateCommentParams{CommentID: comment.ID, IfMatch: taskwright.NewOptString(written.ETag)}
		return client.UpdateComment(ctx, &body, params)
	}
	equal("version", as[*taskwright.CommentReadHeaders](editOnce()).Response.Version, 2)
	as[*taskwright.PreconditionFailedHeaders](editOnce())
	answer := as[*taskwright.CommentHeaders](colleagueClient.CreateComment(ctx, &taskwright.CommentCreate{Body: "It is."}, toPlan)).Response
	ofPlan := taskwright.ListTaskCommentsParams{TaskID: plan.ID, Limit: taskwright.NewOptInt(1)}
	first := as[*taskwright.CommentListHeaders](client.ListTaskComments(ctx, ofPlan)).Response
	ofPlan.Cursor = taskwright.NewOptString(first.NextCursor.Value)
	last := as[*taskwright.CommentListHeaders](client.ListTaskComments(ctx, ofPlan)).Response
	equal("first comment", first.Items[0].ID, comment.ID)
	equal("last comment", last.Items[0].ID, answer.ID)
	equal("no more", last.NextCursor.Null, true)
	ok("comment")

	subtask := as[*taskwright.TaskHeaders](client.CreateTask(ctx, &taskwright.TaskCreate{
		Title: "Choose the date", ParentID: taskwright.NewOptNilUUID(plan.ID),
	}, taskwright.CreateTaskParams{})).Response
	equal("parent", subtask.ParentID.Value, plan.ID)
	equal("project", subtask.ProjectID.Value, project.ID)
	equal("subtasks", as[*taskwright.TaskReadHeaders](client.GetTask(ctx, readPlan)).Response.SubtaskCount, 1)
	ok("subtask")

	as[*taskwright.AddTaskRelationNoContent](client.AddTaskRelation(ctx, taskwright.AddTaskRelationParams{
		TaskID: plan.ID, Kind: taskwright.RelationKindBlockedBy, OtherTaskID: subtask.ID,
	}))
	related := as[*taskwright.TaskRelationListHeaders](client.ListTaskRelations(ctx,
		taskwright.ListTaskRelationsParams{TaskID: plan.ID})).Response.Items
	equal("relations", len(related), 1)
	equal("kind", related[0].Kind, taskwright.RelationKindBlockedBy)
	equal("other task", related[0].OtherTaskID, subtask.ID)
	equal("is blocked", as[*taskwright.TaskReadHeaders](client.GetTask(ctx, readPlan)).Response.IsBlocked, true)
	ok("relation")

	as[*taskwright.NoContent](colleagueClient.FollowTask(ctx, taskwright.FollowTaskParams{TaskID: subtask.ID}))
	following := as[*taskwright.TaskFollowerListHeaders](client.ListTaskFollowers(ctx,
		taskwright.ListTaskFollowersParams{TaskID: subtask.ID})).Response
	followers := map[uuid.UUID]bool{}
	for _, follower := range following.Items {
		followers[follower.UserID] = true
	}
	equal("followers", maps.Equal(followers, map[uuid.UUID]bool{tokens.User.ID: true, colleague.User.ID: true}), true)
	unread := func() []taskwright.Notification {
		params := taskwright.ListNotificationsParams{Unread: taskwright.NewOptBool(true)}
		return as[*taskwright.NotificationListHeaders](colleagueClient.ListNotifications(ctx, params)).Response.Items
	}
	eventually("notification", func() bool { return len(unread()) > 0 })
	notification := unread()[0]
	equal("reason", notification.Reason, taskwright.NotificationReasonMention)
	equal("comment", notification.CommentID.Value, comment.ID)
	seen := as[*taskwright.NotificationHeaders](colleagueClient.UpdateNotification(ctx,
		&taskwright.NotificationPatch{IsRead: taskwright.NewOptBool(true)},
		taskwright.UpdateNotificationParams{NotificationID: notification.ID})).Response
	equal("is read", seen.ReadAt.Null, false)
	equal("unread", len(unread()), 0)
	ok("inbox")

	webhook := as[*taskwright.CreatedWebhookHeaders](client.CreateWebhook(ctx, &taskwright.WebhookCreate{
		URL: taskwright.WebhookUrl(os.Getenv("TASKWRIGHT_RECEIVER")), EventTypes: []taskwright.EventTypePattern{"project.*"},
		ProjectID: taskwright.NewOptNilUUID(project.ID),
	}, taskwright.CreateWebhookParams{})).Response
	equal("secret", strings.HasPrefix(webhook.Secret, "whsec_"), true)
	delivery := as[*taskwright.WebhookDeliveryCreatedHeaders](client.TestWebhook(ctx,
		taskwright.TestWebhookParams{WebhookID: webhook.ID})).Response
	sending := taskwright.GetWebhookDeliveryParams{WebhookID: webhook.ID, DeliveryID: delivery.ID}
	eventually("delivery", func() bool {
		delivery = as[*taskwright.WebhookDeliveryHeaders](client.GetWebhookDelivery(ctx, sending)).Response
		return delivery.Status != taskwright.WebhookDeliveryStatusPending
	})
	equal("delivery", delivery.Status, taskwright.WebhookDeliveryStatusDelivered)
	equal("response status", delivery.ResponseStatus.Value, 204)
	deliveries := as[*taskwright.WebhookDeliveryListHeaders](client.ListWebhookDeliveries(ctx,
		taskwright.ListWebhookDeliveriesParams{WebhookID: webhook.ID})).Response.Items
	equal("deliveries", len(deliveries), 1)
	equal("the same delivery", deliveries[0].ID, delivery.ID)
	ok("webhook")

	history := as[*taskwright.EventListHeaders](client.ListTaskEvents(ctx,
		taskwright.ListTaskEventsParams{TaskID: plan.ID})).Response.Items
	equal("history", history[len(history)-1].Type, taskwright.EventTypeTaskCreated)
	events := as[*taskwright.EventListHeaders](client.ListEvents(ctx, taskwright.ListEventsParams{
		ProjectID: []taskwright.ProjectOrNone{taskwright.ProjectOrNone(project.ID.String())},
		Type:      []taskwright.EventTypePattern{"comment.*"},
	})).Response.Items
	equal("events", len(events), 3)
	equal("newest", events[0].Type, taskwright.EventTypeCommentCreated)
	equal("its comment", events[0].ResourceID.Value, answer.ID)
	equal("before it", events[1].Type, taskwright.EventTypeCommentUpdated)
	ok("events")

	as[*taskwright.NoContent](client.DeleteProject(ctx, taskwright.DeleteProjectParams{ProjectID: project.ID}))
	as[*taskwright.NotFoundHeaders](colleagueClient.GetTask(ctx, readPlan))
	ok("delete")

	etag := taskwright.NewOptString(as[*taskwright.TaskReadHeaders](client.GetTask(ctx, read)).ETag)
	rename := taskwright.TaskPatch{Title: taskwright.NewOptTaskTitle("Publish the release notes")}
	as[*taskwright.TaskReadHeaders](change(etag, rename))
	conflict := as[*taskwright.PreconditionFailedHeaders](change(etag, rename)).Response
	equal("code", string(conflict.Code), "precondition_failed")
	ok("conflict")

	tooLong := &taskwright.TaskCreate{Title: taskwright.TaskTitle(strings.Repeat("x", 501))}
	invalid := as[*taskwright.BadRequestHeaders](client.CreateTask(ctx, tooLong, taskwright.CreateTaskParams{})).Response
	equal("pointer", invalid.Errors[0].Pointer, "/title")
	ok("validation")

	before := tokens.AccessToken
	refresh := &taskwright.RefreshRequest{RefreshToken: taskwright.OpaqueToken(tokens.RefreshToken)}
	tokens = as[*taskwright.SignedInHeaders](client.RefreshToken(ctx, refresh)).Response
	me.token = tokens.AccessToken
	equal("a new token", tokens.AccessToken != before, true)
	whoAmI := as[*taskwright.UserReadHeaders](client.GetCurrentUser(ctx, taskwright.GetCurrentUserParams{})).Response
	equal("me", whoAmI.Username, string(username))
	ok("refresh")

	as[*taskwright.NoContent](client.Logout(ctx, taskwright.LogoutParams{}))
	rejected := as[*taskwright.UnauthorizedHeaders](client.GetCurrentUser(ctx, taskwright.GetCurrentUserParams{})).Response
	equal("code", string(rejected.Code), "unauthorized")
	ok("logout")
}

// The response, which must have the expected type: the client has a type for each status of an operation.
func as[Want any](got any, err error) Want {
	must(got, err)
	response, matches := got.(Want)
	if !matches {
		fail(fmt.Errorf("unexpected response %T: %+v", got, got))
	}
	return response
}

// Polls until a condition is true, because the service works in the background.
func eventually(label string, isFound func() bool) {
	for range 600 {
		if isFound() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	fail(fmt.Errorf("%s: timed out after 30 seconds", label))
}

func must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

func equal[T comparable](label string, got, want T) {
	if got != want {
		fail(fmt.Errorf("%s: got %v, want %v", label, got, want))
	}
}

func ok(step string) {
	fmt.Println("ok", step)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "failed:", err)
	os.Exit(1)
}
