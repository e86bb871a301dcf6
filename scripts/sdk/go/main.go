// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"
	openapi "github.com/oapi-codegen/runtime/types"

	"taskwright-sdk/taskwright"
)

func main() {
	ctx := context.Background()
	url := os.Getenv("TASKWRIGHT_URL")
	username := "go-" + strings.ToLower(rand.Text())
	email := openapi.Email(username + "@example.com")
	password := rand.Text()
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)

	// Documentation: begin
	anyone := must(taskwright.NewClientWithResponses(url))
	account := taskwright.Registration{Username: username, Email: email, Password: password}
	tokens := success(anyone.RegisterWithResponse(ctx, account)).JSON201
	client := must(taskwright.NewClientWithResponses(url, taskwright.WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
			return nil
		})))
	task := success(client.CreateTaskWithResponse(ctx, nil, taskwright.TaskCreate{
		Title: "Write the release notes", Priority: new(taskwright.TaskPriorityHigh),
		DueAt: nullable.NewNullableWithValue(tomorrow),
	})).JSON201
	// Documentation: end
	equal("username", tokens.User.Username, username)
	ok("register")

	equal("title", task.Title, "Write the release notes")
	equal("priority", task.Priority, taskwright.TaskPriorityHigh)
	equal("due_at", must(task.DueAt.Get()).UTC(), tomorrow)
	ok("create")

	change := func(patch taskwright.TaskPatch) *taskwright.Task {
		return success(client.UpdateTaskWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, task.ID, nil, patch)).JSON200
	}
	patched := change(taskwright.TaskPatch{Status: new(taskwright.TaskStatusInProgress)})
	equal("status", patched.Status, taskwright.TaskStatusInProgress)
	equal("due_at", must(patched.DueAt.Get()).UTC(), tomorrow)
	ok("patch")

	reminder := success(client.CreateReminderWithResponse(ctx, task.ID, nil, taskwright.ReminderCreate{
		RelativeTo: nullable.NewNullableWithValue("due"), OffsetMinutes: nullable.NewNullableWithValue(-60),
	})).JSON201
	equal("remind_at", must(reminder.RemindAt.Get()).UTC(), tomorrow.Add(-time.Hour))
	ofTask := &taskwright.ListRemindersParams{TaskID: &[]uuid.UUID{task.ID}}
	equal("reminders", success(client.ListRemindersWithResponse(ctx, ofTask)).JSON200.Items[0].ID, reminder.ID)
	snoozed := success(client.UpdateReminderWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, reminder.ID, nil,
		taskwright.ReminderPatch{SnoozedUntil: nullable.NewNullableWithValue(tomorrow)})).JSON200
	equal("snoozed", must(snoozed.RemindAt.Get()).UTC(), tomorrow)
	success(client.DeleteReminderWithResponse(ctx, reminder.ID, nil))
	equal("deleted", len(success(client.ListRemindersWithResponse(ctx, ofTask)).JSON200.Items), 0)
	ok("remind")

	recurring := change(taskwright.TaskPatch{Recurrence: nullable.NewNullableWithValue(
		taskwright.RecurrencePatch{Rule: new("FREQ=WEEKLY")})})
	equal("rule", must(recurring.Recurrence.Get()).Rule, "FREQ=WEEKLY")
	each := change(taskwright.TaskPatch{Recurrence: nullable.NewNullableWithValue(
		taskwright.RecurrencePatch{Missed: new(taskwright.RecurrenceMissedEach)})})
	equal("rule", must(each.Recurrence.Get()).Rule, "FREQ=WEEKLY")
	equal("missed", must(each.Recurrence.Get()).Missed, taskwright.RecurrenceMissedEach)
	single := change(taskwright.TaskPatch{Recurrence: nullable.NewNullNullable[taskwright.RecurrencePatch]()})
	equal("recurrence is null", single.Recurrence.IsNull(), true)
	ok("recur")

	noted := change(taskwright.TaskPatch{Metadata: &taskwright.MetadataPatch{
		"customer_id": new("42"), "ticket": new("A-7")}})
	equal("keys", len(noted.Metadata), 2)
	merged := change(taskwright.TaskPatch{Metadata: &taskwright.MetadataPatch{"ticket": nil}})
	equal("keys", len(merged.Metadata), 1)
	equal("customer_id", merged.Metadata["customer_id"], "42")
	ok("metadata")

	cleared := change(taskwright.TaskPatch{DueAt: nullable.NewNullNullable[time.Time]()})
	equal("due_at is null", cleared.DueAt.IsNull(), true)
	equal("title", cleared.Title, task.Title)
	ok("clear")

	tag := success(client.CreateTagWithResponse(ctx, nil, taskwright.TagCreate{
		Name:  "release",
		Color: nullable.NewNullableWithValue("#d92d20"),
	})).JSON201
	success(client.AddTaskTagWithResponse(ctx, task.ID, tag.ID, nil))
	tagged := success(client.GetTaskWithResponse(ctx, task.ID, nil)).JSON200
	equal("tags", len(tagged.Tags), 1)
	equal("tag", tagged.Tags[0].ID, tag.ID)
	equal("color", must(tagged.Tags[0].Color.Get()), "#d92d20")
	ok("tag")

	sent := make([]byte, 1000)
	must(rand.Read(sent))
	sum := sha256.Sum256(sent)
	contentType, form := fileForm("random.bin", sent, map[string]string{"sha256": hex.EncodeToString(sum[:])})
	attachment := success(client.AddTaskAttachmentWithBodyWithResponse(ctx, task.ID, nil, contentType, form)).JSON201
	received := success(client.DownloadAttachmentWithResponse(ctx, attachment.ID, nil)).Body
	equal("file name", attachment.FileName, "random.bin")
	equal("same bytes", bytes.Equal(received, sent), true)
	equal("sha256", attachment.Sha256, hex.EncodeToString(sum[:]))
	ok("file")

	created := map[uuid.UUID]int{task.ID: 1}
	for number := range 5 {
		body := taskwright.TaskCreate{Title: fmt.Sprintf("Task %d", number+1)}
		created[success(client.CreateTaskWithResponse(ctx, nil, body)).JSON201.ID] = 1
	}
	listed := map[uuid.UUID]int{}
	for cursor := (*string)(nil); ; {
		page := success(client.ListTasksWithResponse(ctx, &taskwright.ListTasksParams{Limit: new(2), Cursor: cursor})).JSON200
		equal("at most two", len(page.Items) <= 2, true)
		for _, item := range page.Items {
			listed[item.ID]++
		}
		if page.NextCursor.IsNull() {
			break
		}
		cursor = new(must(page.NextCursor.Get()))
	}
	equal("every task once", maps.Equal(listed, created), true)
	ok("page")

	other := success(client.CreateTaskWithResponse(ctx, nil, taskwright.TaskCreate{Title: "Choose the date"})).JSON201
	success(client.AddTaskRelationWithResponse(ctx, task.ID, taskwright.RelationKindChoiceBlockedBy, other.ID, nil))
	related := success(client.ListTaskRelationsWithResponse(ctx, task.ID, nil)).JSON200.Items
	equal("relations", len(related), 1)
	equal("kind", related[0].Kind, grown("blocked_by"))
	equal("other task", related[0].OtherTaskID, other.ID)
	equal("is blocked", success(client.GetTaskWithResponse(ctx, task.ID, nil)).JSON200.IsBlocked, true)
	ok("relation")

	history := success(client.ListTaskEventsWithResponse(ctx, other.ID, nil)).JSON200.Items
	equal("history", history[len(history)-1].Type, grown("task.created"))
	search := taskwright.ListEventsParams{Type: &[]string{"task.tagged", "attachment.*"}}
	events := success(client.ListEventsWithResponse(ctx, &search)).JSON200.Items
	equal("events", len(events), 2)
	equal("newest", events[0].Type, grown("attachment.created"))
	equal("before it", events[1].Type, grown("task.tagged"))
	ok("events")

	position, _ := nextEvent(ctx, client, "ready", nil)
	unheard := taskwright.CommentCreate{Body: "Nobody is listening."}
	missed := success(client.CreateCommentWithResponse(ctx, task.ID, nil, unheard)).JSON201
	_, resumed := nextEvent(ctx, client, "comment.created", &position)
	equal("resumed", must(resumed.ResourceID.Get()), missed.ID)
	ok("stream")

	read := success(client.GetTaskWithResponse(ctx, task.ID, nil))
	rename := taskwright.TaskPatch{Title: new("Publish the release notes")}
	ifUnchanged := &taskwright.UpdateTaskParams{IfMatch: &read.Headers200.ETag}
	success(client.UpdateTaskWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, task.ID, ifUnchanged, rename))
	conflict := must(client.UpdateTaskWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, task.ID, ifUnchanged, rename))
	equal("status", conflict.StatusCode(), http.StatusPreconditionFailed)
	equal("code", conflict.ApplicationProblemJSON412.Code, grown("precondition_failed"))
	ok("conflict")

	invalid := must(client.CreateTaskWithResponse(ctx, nil, taskwright.TaskCreate{Title: strings.Repeat("x", 501)}))
	equal("status", invalid.StatusCode(), http.StatusBadRequest)
	equal("pointer", (*invalid.ApplicationProblemJSON400.Errors)[0].Pointer, "/title")
	ok("validation")

	contentType, form = fileForm("tasks.csv", []byte("title\nOrder the cake\n"), nil)
	upload := success(client.CreateImportWithBodyWithResponse(ctx, nil, contentType, form)).JSON201
	importEnded := func() (*taskwright.Import, bool) {
		present := success(client.GetImportWithResponse(ctx, upload.ID, nil)).JSON200
		return present, present.PollAfterSeconds.IsNull()
	}
	preview := eventually("the import", importEnded)
	equal("previewed tasks", must(preview.Preview.Get()).Tasks, 1)
	success(client.RunImportWithResponse(ctx, upload.ID, nil, taskwright.ImportRun{Version: preview.Version}))
	equal("created", must(eventually("the import", importEnded).Result.Get()).Created, 1)
	named := &taskwright.ListTasksParams{Q: new(`"Order the cake"`)}
	equal("imported", success(client.ListTasksWithResponse(ctx, named)).JSON200.Items[0].Title, "Order the cake")
	ok("import")

	export := success(client.CreateExportWithResponse(ctx, nil, taskwright.ExportCreate{})).JSON201
	finished := eventually("the export", func() (*taskwright.Export, bool) {
		present := success(client.GetExportWithResponse(ctx, export.ID, nil)).JSON200
		return present, present.PollAfterSeconds.IsNull()
	})
	equal("status", finished.Status, grown("finished"))
	archive := success(client.DownloadExportWithResponse(ctx, export.ID, nil)).Body
	equal("size", int64(len(archive)), must(finished.Size.Get()))
	equal("signature", string(archive[:2]), "PK")
	ok("export")

	before := tokens.AccessToken
	tokens = success(anyone.RefreshTokenWithResponse(ctx, taskwright.RefreshRequest{RefreshToken: tokens.RefreshToken})).JSON200
	equal("a new token", tokens.AccessToken != before, true)
	equal("me", success(client.GetCurrentUserWithResponse(ctx, nil)).JSON200.Username, username)
	ok("refresh")

	success(client.LogoutWithResponse(ctx, nil))
	rejected := must(client.GetCurrentUserWithResponse(ctx, nil))
	equal("status", rejected.StatusCode(), http.StatusUnauthorized)
	equal("code", rejected.ApplicationProblemJSON401.Code, grown("unauthorized"))
	ok("logout")
}

// A value of an enumeration that may grow, or the unknown one that a later service sends instead.
func grown(value string) string {
	if unknown, isSet := os.LookupEnv("TASKWRIGHT_UNKNOWN_VALUE"); isSet {
		return unknown
	}
	return value
}

// A form with a file and fields, because the generated client expects an encoded multipart body.
func fileForm(name string, content []byte, fields map[string]string) (string, *bytes.Buffer) {
	form := &bytes.Buffer{}
	writer := multipart.NewWriter(form)
	for field, value := range fields {
		must(must(writer.CreateFormField(field)).Write([]byte(value)))
	}
	must(must(writer.CreateFormFile("file", name)).Write(content))
	if err := writer.Close(); err != nil {
		fail(err)
	}
	return writer.FormDataContentType(), form
}

// Polls until read returns true, because the service works in the background.
func eventually[T any](label string, read func() (T, bool)) T {
	for range 600 {
		if present, isEnded := read(); isEnded {
			return present
		}
		time.Sleep(50 * time.Millisecond)
	}
	fail(fmt.Errorf("%s timed out after 30 seconds", label))
	panic("not reached")
}

// The id and the data of the next event of a type. StreamEventsWithResponse waits for the end of the stream.
func nextEvent(ctx context.Context, client *taskwright.ClientWithResponses, wanted string, after *string) (string, taskwright.Event) {
	response := must(client.StreamEvents(ctx, &taskwright.StreamEventsParams{LastEventID: after}))
	defer response.Body.Close()
	fields := map[string]string{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		fields[name] = value
		if name == "" && fields["event"] == wanted {
			var event taskwright.Event
			if err := json.Unmarshal([]byte(fields["data"]), &event); err != nil {
				fail(err)
			}
			return fields["id"], event
		}
	}
	fail(fmt.Errorf("the stream ended before %s", wanted))
	panic("not reached")
}

// The common methods of generated responses.
type response interface {
	StatusCode() int
	GetBody() []byte
}

// The response. Fails if there is none or it is a problem.
func success[R response](got R, err error) R {
	must(got, err)
	if got.StatusCode() >= 300 {
		fail(fmt.Errorf("%d %s", got.StatusCode(), got.GetBody()))
	}
	return got
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
