import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;
import taskwright.ApiClient;
import taskwright.ApiException;
import taskwright.api.AttachmentsApi;
import taskwright.api.AuthApi;
import taskwright.api.EventsApi;
import taskwright.api.EventsApi.APIListEventsRequest;
import taskwright.api.ExportsApi;
import taskwright.api.ImportsApi;
import taskwright.api.RelationsApi;
import taskwright.api.RemindersApi;
import taskwright.api.RemindersApi.APIListRemindersRequest;
import taskwright.api.TagsApi;
import taskwright.api.TaskTagsApi;
import taskwright.api.TasksApi;
import taskwright.api.TasksApi.APIListTasksRequest;
import taskwright.model.AuthTokens;
import taskwright.model.Event;
import taskwright.model.Export;
import taskwright.model.ExportCreate;
import taskwright.model.ImportRun;
import taskwright.model.ModelImport;
import taskwright.model.Problem;
import taskwright.model.RefreshRequest;
import taskwright.model.Registration;
import taskwright.model.RelationKindChoice;
import taskwright.model.ReminderCreate;
import taskwright.model.ReminderPatch;
import taskwright.model.TagCreate;
import taskwright.model.TaskCreate;
import taskwright.model.RecurrenceMissed;
import taskwright.model.RecurrencePatch;
import taskwright.model.TaskPatch;
import taskwright.model.TaskPriority;
import taskwright.model.TaskStatus;

/** The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program. */
public final class Main {
  private static final SecureRandom RANDOM = new SecureRandom();

  private AuthTokens tokens;

  public static void main(String[] arguments) throws Exception {
    new Main().run(System.getenv("TASKWRIGHT_URL"));
  }

  private void run(String url)
      throws ApiException, InterruptedException, IOException, NoSuchAlgorithmException {
    var username = "java-" + randomText();
    var email = username + "@example.com";
    var password = randomText();
    var tomorrow = OffsetDateTime.now(ZoneOffset.UTC).plusDays(1).truncatedTo(ChronoUnit.MILLIS);

    // Documentation: begin
    var client = new ApiClient();
    client.updateBaseUri(url);
    var account = new Registration().username(username).email(email).password(password);
    tokens = new AuthApi(client).register(account);
    client.setRequestInterceptor(
        request -> request.header("Authorization", "Bearer " + tokens.getAccessToken()));
    var tasks = new TasksApi(client);
    var newTask = new TaskCreate().title("Write the release notes").dueAt(tomorrow);
    var task = tasks.createTask(newTask.priority(TaskPriority.HIGH), null);
    // Documentation: end
    equal("username", tokens.getUser().getUsername(), username);
    ok("register");

    equal("title", task.getTitle(), "Write the release notes");
    equal("priority", task.getPriority(), TaskPriority.HIGH);
    equal("due_at", task.getDueAt(), tomorrow);
    ok("create");

    var patched = tasks.updateTask(task.getId(), new TaskPatch().status(TaskStatus.IN_PROGRESS), null, null);
    equal("status", patched.getStatus(), TaskStatus.IN_PROGRESS);
    equal("due_at", patched.getDueAt(), tomorrow);
    ok("patch");

    var reminders = new RemindersApi(client);
    var hourBefore = new ReminderCreate().relativeTo("due").offsetMinutes(-60);
    var reminder = reminders.createReminder(task.getId(), hourBefore, null);
    equal("remind_at", reminder.getRemindAt(), tomorrow.minusHours(1));
    var ofTask = APIListRemindersRequest.newBuilder().taskId(List.of(task.getId())).build();
    equal("reminders", reminders.listReminders(ofTask).getItems(), List.of(reminder));
    var snooze = new ReminderPatch().snoozedUntil(tomorrow);
    equal("snoozed", reminders.updateReminder(reminder.getId(), snooze, null, null).getRemindAt(), tomorrow);
    reminders.deleteReminder(reminder.getId(), null, null);
    equal("deleted", reminders.listReminders(ofTask).getItems(), List.of());
    ok("remind");

    var weekly = new RecurrencePatch().rule("FREQ=WEEKLY");
    var recurring = tasks.updateTask(task.getId(), new TaskPatch().recurrence(weekly), null, null);
    equal("rule", recurring.getRecurrence().getRule(), "FREQ=WEEKLY");
    var each = new RecurrencePatch().missed(RecurrenceMissed.EACH);
    var changed = tasks.updateTask(task.getId(), new TaskPatch().recurrence(each), null, null);
    equal("rule", changed.getRecurrence().getRule(), "FREQ=WEEKLY");
    equal("missed", changed.getRecurrence().getMissed(), RecurrenceMissed.EACH);
    var single = tasks.updateTask(task.getId(), new TaskPatch().recurrence(null), null, null);
    equal("recurrence", single.getRecurrence(), null);
    ok("recur");

    var both = Map.of("customer_id", "42", "ticket", "A-7");
    var noted = tasks.updateTask(task.getId(), new TaskPatch().metadata(both), null, null);
    equal("two keys", noted.getMetadata(), both);
    var without = new HashMap<String, String>();
    without.put("ticket", null);
    var merged = tasks.updateTask(task.getId(), new TaskPatch().metadata(without), null, null);
    equal("one key", merged.getMetadata(), Map.of("customer_id", "42"));
    ok("metadata");

    var cleared = tasks.updateTask(task.getId(), new TaskPatch().dueAt(null), null, null);
    equal("due_at", cleared.getDueAt(), null);
    equal("title", cleared.getTitle(), task.getTitle());
    ok("clear");

    var tag = new TagsApi(client).createTag(new TagCreate().name("release").color("#d92d20"), null);
    new TaskTagsApi(client).addTaskTag(task.getId(), tag.getId(), null);
    var tagged = tasks.getTask(task.getId(), null, null, null);
    equal("tags", tagged.getTags().size(), 1);
    equal("tag", tagged.getTags().get(0).getId(), tag.getId());
    equal("color", tagged.getTags().get(0).getColor(), "#d92d20");
    ok("tag");

    var attachments = new AttachmentsApi(client);
    var sent = randomBytes(1000);
    var file = File.createTempFile("random-", ".bin");
    file.deleteOnExit();
    Files.write(file.toPath(), sent);
    var attachment = attachments.addTaskAttachment(task.getId(), file, null, null, sha256(sent));
    var download = attachments.downloadAttachment(attachment.getId(), null, null, null, null, null, null, null);
    var received = Files.readAllBytes(download.toPath());
    equal("file name", attachment.getFileName(), file.getName());
    equal("same bytes", Arrays.equals(received, sent), true);
    equal("sha256", attachment.getSha256(), sha256(sent));
    ok("file");

    var created = new HashMap<UUID, Integer>(Map.of(task.getId(), 1));
    for (var number = 1; number <= 5; number++) {
      created.put(tasks.createTask(new TaskCreate().title("Task " + number), null).getId(), 1);
    }
    var listed = new HashMap<UUID, Integer>();
    String cursor = null;
    do {
      var page = tasks.listTasks(APIListTasksRequest.newBuilder().limit(2).cursor(cursor).build());
      equal("at most two", page.getItems().size() <= 2, true);
      page.getItems().forEach(item -> listed.merge(item.getId(), 1, Integer::sum));
      cursor = page.getNextCursor();
    } while (cursor != null);
    equal("every task once", listed, created);
    ok("page");

    var other = tasks.createTask(new TaskCreate().title("Choose the date"), null);
    var relations = new RelationsApi(client);
    relations.addTaskRelation(task.getId(), RelationKindChoice.BLOCKED_BY, other.getId(), null);
    var related = relations.listTaskRelations(task.getId(), null, null, null, null, null, null).getItems();
    equal("relations", related.size(), 1);
    equal("kind", related.get(0).getKind(), grown("blocked_by"));
    equal("other task", related.get(0).getOtherTaskId(), other.getId());
    equal("is blocked", tasks.getTask(task.getId(), null, null, null).getIsBlocked(), true);
    ok("relation");

    var events = new EventsApi(client);
    var history = events.listTaskEvents(other.getId(), null, null, null, null).getItems();
    equal("history", history.get(history.size() - 1).getType(), grown("task.created"));
    var search = APIListEventsRequest.newBuilder().type(List.of("task.tagged", "attachment.*")).build();
    var types = List.of(grown("attachment.created"), grown("task.tagged"));
    equal("events", events.listEvents(search).getItems().stream().map(Event::getType).toList(), types);
    ok("events");

    var etag = tasks.getTaskWithHttpInfo(task.getId(), null, null, null).getHeaders().get("etag").get(0);
    var rename = new TaskPatch().title("Publish the release notes");
    tasks.updateTask(task.getId(), rename, etag, null);
    var conflict = problem(412, () -> tasks.updateTask(task.getId(), rename, etag, null));
    equal("code", conflict.getCode(), grown("precondition_failed"));
    ok("conflict");

    var invalid = problem(400, () -> tasks.createTask(new TaskCreate().title("x".repeat(501)), null));
    equal("pointer", invalid.getErrors().get(0).getPointer(), "/title");
    ok("validation");

    var imports = new ImportsApi(client);
    var table = File.createTempFile("tasks-", ".csv");
    table.deleteOnExit();
    Files.writeString(table.toPath(), "title\nOrder the cake\n");
    var upload = imports.createImport(table, null, null, null);
    Call<ModelImport> getImport = () -> imports.getImport(upload.getId(), null, null);
    var previewed = settled(getImport, ModelImport::getPollAfterSeconds);
    equal("previewed tasks", previewed.getPreview().getTasks(), 1);
    imports.runImport(upload.getId(), new ImportRun().version(previewed.getVersion()), null, null);
    var imported = settled(getImport, ModelImport::getPollAfterSeconds);
    equal("created", imported.getResult().getCreated(), 1);
    var named = APIListTasksRequest.newBuilder().q("\"Order the cake\"").build();
    equal("imported", tasks.listTasks(named).getItems().get(0).getTitle(), "Order the cake");
    ok("import");

    var exports = new ExportsApi(client);
    var export = exports.createExport(new ExportCreate(), null);
    var finished = settled(() -> exports.getExport(export.getId(), null, null), Export::getPollAfterSeconds);
    equal("status", finished.getStatus(), grown("finished"));
    var saved = exports.downloadExport(export.getId(), null, null, null, null, null, null);
    var archive = Files.readAllBytes(saved.toPath());
    equal("size", (long) archive.length, finished.getSize());
    equal("signature", new String(archive, 0, 2), "PK");
    ok("export");

    var auth = new AuthApi(client);
    var before = tokens.getAccessToken();
    tokens = auth.refreshToken(new RefreshRequest().refreshToken(tokens.getRefreshToken()));
    equal("a new token", !tokens.getAccessToken().equals(before), true);
    equal("me", auth.getCurrentUser((String) null, null).getUsername(), username);
    ok("refresh");

    auth.logout(false);
    var rejected = problem(401, () -> auth.getCurrentUser((String) null, null));
    equal("code", rejected.getCode(), grown("unauthorized"));
    ok("logout");
  }

  /** A value of an enumeration that may grow, or the unknown one that a later service sends instead. */
  private static String grown(String value) {
    return Optional.ofNullable(System.getenv("TASKWRIGHT_UNKNOWN_VALUE")).orElse(value);
  }

  /** An import or export once nothing happens in the background. */
  private static <T> T settled(Call<T> get, Function<T, Integer> pollAfterSeconds)
      throws ApiException, InterruptedException {
    for (var attempt = 0; attempt < 600; attempt++) {
      var present = get.run();
      if (pollAfterSeconds.apply(present) == null) {
        return present;
      }
      Thread.sleep(50);
    }
    throw new AssertionError("timed out after 30 seconds");
  }

  private interface Call<T> {
    T run() throws ApiException;
  }

  /** The problem of a call that must fail with a status. */
  private static Problem problem(int status, Call<?> call) {
    try {
      call.run();
    } catch (ApiException exception) {
      equal("status", exception.getCode(), status);
      return ApiClient.createDefaultObjectMapper().readValue(exception.getResponseBody(), Problem.class);
    }
    throw new AssertionError("expected a problem with status " + status);
  }

  private static byte[] randomBytes(int count) {
    var bytes = new byte[count];
    RANDOM.nextBytes(bytes);
    return bytes;
  }

  private static String randomText() {
    return HexFormat.of().formatHex(randomBytes(12));
  }

  private static String sha256(byte[] bytes) throws NoSuchAlgorithmException {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }

  private static void equal(String label, Object got, Object want) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError(label + ": got " + got + ", want " + want);
    }
  }

  private static void ok(String step) {
    System.out.println("ok " + step);
  }
}
