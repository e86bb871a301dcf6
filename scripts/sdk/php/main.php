<?php
// The scenario for generated clients. Each step uses the generated client; the first mismatch ends the program.
declare(strict_types=1);

require __DIR__ . '/autoload.php';

use GuzzleHttp\Client;
use Taskwright\Api\AttachmentsApi;
use Taskwright\Api\AuthApi;
use Taskwright\Api\EventsApi;
use Taskwright\Api\ExportsApi;
use Taskwright\Api\ImportsApi;
use Taskwright\Api\RelationsApi;
use Taskwright\Api\RemindersApi;
use Taskwright\Api\TagsApi;
use Taskwright\Api\TasksApi;
use Taskwright\Api\TaskTagsApi;
use Taskwright\ApiException;
use Taskwright\Configuration;
use Taskwright\Model\Export;
use Taskwright\Model\ExportCreate;
use Taskwright\Model\Import;
use Taskwright\Model\ImportRun;
use Taskwright\Model\Problem;
use Taskwright\Model\RefreshRequest;
use Taskwright\Model\Registration;
use Taskwright\Model\RelationKindChoice;
use Taskwright\Model\ReminderCreate;
use Taskwright\Model\ReminderPatch;
use Taskwright\Model\TagCreate;
use Taskwright\Model\TaskCreate;
use Taskwright\Model\RecurrenceMissed;
use Taskwright\Model\RecurrencePatch;
use Taskwright\Model\TaskPatch;
use Taskwright\Model\TaskPriority;
use Taskwright\Model\TaskStatus;
use Taskwright\ObjectSerializer;

function equal(string $label, mixed $got, mixed $want): void
{
    if ($got !== $want) {
        throw new Exception("$label: got " . json_encode($got) . ', want ' . json_encode($want));
    }
}

function ok(string $step): void
{
    echo "ok $step\n";
}

// A value of an enumeration that may grow, or the unknown one that a later service sends instead.
function grown(string $value): string
{
    return getenv('TASKWRIGHT_UNKNOWN_VALUE') ?: $value;
}

// An import or export once nothing happens in the background.
function settled(callable $get): Import|Export
{
    for ($attempt = 0; $attempt < 600; $attempt++) {
        $present = $get();
        if ($present->getPollAfterSeconds() === null) {
            return $present;
        }
        usleep(50_000);
    }
    throw new Exception('timed out after 30 seconds');
}

// The problem of a call that must fail with a status.
function problem(int $status, callable $call): Problem
{
    try {
        $call();
    } catch (ApiException $exception) {
        equal('status', $exception->getCode(), $status);
        return ObjectSerializer::deserialize(json_decode($exception->getResponseBody()), Problem::class);
    }
    throw new Exception("expected a problem with status $status");
}

$url = getenv('TASKWRIGHT_URL');
$username = 'php-' . bin2hex(random_bytes(8));
$email = "$username@example.com";
$password = bin2hex(random_bytes(12));

// Documentation: begin
// By default, the client sends times without milliseconds, and 1 for true in a query.
ObjectSerializer::setDateTimeFormat(DateTimeInterface::RFC3339_EXTENDED);
Configuration::getDefaultConfiguration()->setBooleanFormatForQueryString(Configuration::BOOLEAN_FORMAT_STRING);
$tomorrow = DateTime::createFromFormat('U.v', sprintf('%.3F', microtime(true) + 24 * 60 * 60));
$config = (new Configuration())->setHost($url);
$http = new Client();
$auth = new AuthApi($http, $config);
$account = new Registration(['username' => $username, 'email' => $email, 'password' => $password]);
$tokens = $auth->register($account);
$config->setAccessToken($tokens->getAccessToken());
$tasks = new TasksApi($http, $config);
$task = $tasks->createTask(new TaskCreate([
    'title' => 'Write the release notes', 'priority' => TaskPriority::HIGH, 'due_at' => $tomorrow,
]));
// Documentation: end
equal('username', $tokens->getUser()->getUsername(), $username);
ok('register');

$inMilliseconds = static fn(?DateTime $time): ?string => $time?->format('U.v');
equal('title', $task->getTitle(), 'Write the release notes');
equal('priority', $task->getPriority(), TaskPriority::HIGH);
equal('due_at', $inMilliseconds($task->getDueAt()), $inMilliseconds($tomorrow));
ok('create');

$patched = $tasks->updateTask($task->getId(), new TaskPatch(['status' => TaskStatus::IN_PROGRESS]));
equal('status', $patched->getStatus(), TaskStatus::IN_PROGRESS);
equal('due_at', $inMilliseconds($patched->getDueAt()), $inMilliseconds($tomorrow));
ok('patch');

$reminders = new RemindersApi($http, $config);
$hourBefore = new ReminderCreate(['relative_to' => 'due', 'offset_minutes' => -60]);
$reminder = $reminders->createReminder($task->getId(), $hourBefore);
equal('remind_at', $inMilliseconds($reminder->getRemindAt()?->modify('+1 hour')), $inMilliseconds($tomorrow));
[$read] = $reminders->listReminders(task_id: [$task->getId()])->getItems();
equal('reminder', $read->getId(), $reminder->getId());
$snoozed = $reminders->updateReminder($reminder->getId(), new ReminderPatch(['snoozed_until' => $tomorrow]));
equal('snoozed', $inMilliseconds($snoozed->getRemindAt()), $inMilliseconds($tomorrow));
$reminders->deleteReminder($reminder->getId());
equal('deleted', $reminders->listReminders(task_id: [$task->getId()])->getItems(), []);
ok('remind');

$weekly = new RecurrencePatch(['rule' => 'FREQ=WEEKLY']);
$recurring = $tasks->updateTask($task->getId(), new TaskPatch(['recurrence' => $weekly]));
equal('rule', $recurring->getRecurrence()->getRule(), 'FREQ=WEEKLY');
$each = new RecurrencePatch(['missed' => RecurrenceMissed::EACH]);
$changed = $tasks->updateTask($task->getId(), new TaskPatch(['recurrence' => $each]));
equal('rule', $changed->getRecurrence()->getRule(), 'FREQ=WEEKLY');
equal('missed', $changed->getRecurrence()->getMissed(), RecurrenceMissed::EACH);
$single = $tasks->updateTask($task->getId(), new TaskPatch(['recurrence' => null]));
equal('recurrence', $single->getRecurrence(), null);
ok('recur');

$both = ['customer_id' => '42', 'ticket' => 'A-7'];
$noted = $tasks->updateTask($task->getId(), new TaskPatch(['metadata' => $both]));
equal('a key', $noted->getMetadata()['ticket'], 'A-7');
$merged = $tasks->updateTask($task->getId(), new TaskPatch(['metadata' => ['ticket' => null]]));
equal('one key', (array) $merged->getMetadata(), ['customer_id' => '42']);
ok('metadata');

$cleared = $tasks->updateTask($task->getId(), new TaskPatch(['due_at' => null]));
equal('due_at', $cleared->getDueAt(), null);
equal('title', $cleared->getTitle(), $task->getTitle());
ok('clear');

$tag = (new TagsApi($http, $config))->createTag(new TagCreate(['name' => 'release', 'color' => '#d92d20']));
(new TaskTagsApi($http, $config))->addTaskTag($task->getId(), $tag->getId());
$tagged = $tasks->getTask($task->getId());
equal('tags', count($tagged->getTags()), 1);
equal('tag', $tagged->getTags()[0]->getId(), $tag->getId());
equal('color', $tagged->getTags()[0]->getColor(), '#d92d20');
ok('tag');

$attachments = new AttachmentsApi($http, $config);
$sent = random_bytes(1000);
$sha256 = hash('sha256', $sent);
$path = tempnam(sys_get_temp_dir(), 'random-');
file_put_contents($path, $sent);
$attachment = $attachments->addTaskAttachment($task->getId(), new SplFileObject($path), null, null, $sha256);
unlink($path);
$file = $attachments->downloadAttachment($attachment->getId());
$received = file_get_contents($file->getPathname());
unlink($file->getPathname());
equal('file name', $attachment->getFileName(), basename($path));
equal('same bytes', $received === $sent, true);
equal('sha256', $attachment->getSha256(), $sha256);
ok('file');

$created = [$task->getId()];
for ($number = 1; $number <= 5; $number++) {
    $created[] = $tasks->createTask(new TaskCreate(['title' => "Task $number"]))->getId();
}
$listed = [];
$cursor = null;
do {
    $page = $tasks->listTasks(limit: 2, cursor: $cursor);
    equal('at most two', count($page->getItems()) <= 2, true);
    foreach ($page->getItems() as $item) {
        $listed[] = $item->getId();
    }
    $cursor = $page->getNextCursor();
} while ($cursor !== null);
sort($created);
sort($listed);
equal('every task once', $listed, $created);
ok('page');

$other = $tasks->createTask(new TaskCreate(['title' => 'Choose the date']));
$relations = new RelationsApi($http, $config);
$relations->addTaskRelation($task->getId(), RelationKindChoice::BLOCKED_BY, $other->getId());
$related = array_map(
    static fn($relation) => [$relation->getKind(), $relation->getOtherTaskId()],
    $relations->listTaskRelations($task->getId())->getItems(),
);
equal('relations', $related, [[grown('blocked_by'), $other->getId()]]);
equal('is blocked', $tasks->getTask($task->getId())->getIsBlocked(), true);
ok('relation');

$events = new EventsApi($http, $config);
$history = $events->listTaskEvents($other->getId())->getItems();
equal('history', end($history)->getType(), grown('task.created'));
$found = $events->listEvents(type: ['task.tagged', 'attachment.*'])->getItems();
$types = [grown('attachment.created'), grown('task.tagged')];
equal('events', array_map(static fn($event) => $event->getType(), $found), $types);
ok('events');

[, , $headers] = $tasks->getTaskWithHttpInfo($task->getId());
[$etag] = array_change_key_case($headers)['etag'];
$rename = new TaskPatch(['title' => 'Publish the release notes']);
$tasks->updateTask($task->getId(), $rename, $etag);
$conflict = problem(412, static fn() => $tasks->updateTask($task->getId(), $rename, $etag));
equal('code', $conflict->getCode(), grown('precondition_failed'));
ok('conflict');

// The client rejects titles that are too long itself, but does not limit combining marks.
$unreadable = new TaskCreate();
$unreadable->setTitle('x' . str_repeat("\u{301}", 31));
$invalid = problem(400, static fn() => $tasks->createTask($unreadable));
equal('pointer', $invalid->getErrors()[0]->getPointer(), '/title');
ok('validation');

$imports = new ImportsApi($http, $config);
$path = tempnam(sys_get_temp_dir(), 'tasks-');
file_put_contents($path, "title\nOrder the cake\n");
$upload = $imports->createImport(new SplFileObject($path));
unlink($path);
$getImport = static fn() => $imports->getImport($upload->getId());
$previewed = settled($getImport);
equal('previewed tasks', $previewed->getPreview()->getTasks(), 1);
$imports->runImport($upload->getId(), new ImportRun(['version' => $previewed->getVersion()]));
equal('created', settled($getImport)->getResult()->getCreated(), 1);
equal('imported', $tasks->listTasks(q: '"Order the cake"')->getItems()[0]->getTitle(), 'Order the cake');
ok('import');

$exports = new ExportsApi($http, $config);
$export = $exports->createExport(new ExportCreate());
$finished = settled(static fn() => $exports->getExport($export->getId()));
equal('status', $finished->getStatus(), grown('finished'));
$file = $exports->downloadExport($export->getId());
$archive = file_get_contents($file->getPathname());
unlink($file->getPathname());
equal('size', strlen($archive), $finished->getSize());
equal('signature', substr($archive, 0, 2), 'PK');
ok('export');

$before = $tokens->getAccessToken();
$tokens = $auth->refreshToken(new RefreshRequest(['refresh_token' => $tokens->getRefreshToken()]));
$config->setAccessToken($tokens->getAccessToken());
equal('a new token', $tokens->getAccessToken() !== $before, true);
equal('me', $auth->getCurrentUser()->getUsername(), $username);
ok('refresh');

$auth->logout();
$rejected = problem(401, static fn() => $auth->getCurrentUser());
equal('code', $rejected->getCode(), grown('unauthorized'));
ok('logout');
