"""Adapts Schemathesis to rules of the contract that OpenAPI cannot express."""

import unicodedata
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies
from schemathesis import Case, GenerationMode, HookContext, SerializationContext


@schemathesis.serializer("application/offset+octet-stream")
def upload_chunk(ctx: SerializationContext, value: object) -> bytes:
    """Serialize a chunk of an upload as raw bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


# Formats of the contract.
schemathesis.openapi.format(
    "time-zone", strategies.sampled_from(["UTC", "Europe/Berlin", "america/new_york", "Asia/Calcutta", "Etc/GMT+5"])
)
schemathesis.openapi.format(
    "time-or-date",
    strategies.dates().map(str) | strategies.datetimes().map(lambda time: f"{time.isoformat(timespec='seconds')}+0100"),
)

# Without the routes of mail relays, which the service refuses.
schemathesis.openapi.format("email", strategies.emails().filter(lambda address: not set("%!") & set(address)))


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Correct a request. Schemathesis validates it again and decides whether the service must reject it."""
    if case.meta is not None and "json" in (case.media_type or ""):
        # The service trims titles and names before it checks their length (x-normalize: line).
        is_negative = case.meta.generation.mode is GenerationMode.NEGATIVE
        body = map_text(str.strip if is_negative else make_visible, case.body)
        # The service omits null in optional fields, unless the body is a merge patch.
        if is_negative and case.method != "PATCH":
            body = without_nulls(body)
        # Where a body may be left out, null is none.
        if body is None and not any(alternative.is_required for alternative in case.operation.body):
            body = {}
        if body != case.body:
            case.body = body
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        # A repeated key returns the stored response, whose resource an earlier test case may have deleted.
        if case.headers is not None and "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = str(uuid4())
    for name, value in case.path_parameters.items():
        if is_not_an_id(name, value):
            case.path_parameters[name] = str(uuid4())


def is_not_an_id(name: str, value: object) -> bool:
    """Whether Schemathesis mistook a value of an earlier response for an id.

    A task or tag without a project has the project_id null. Problems in the results of a batch have the instance
    /tasks/batch, which looks like the URL of a task.
    """
    return value in (None, "None") or (name == "task_id" and value == "batch")


def map_text(change: Callable[[str], str], value: Any) -> Any:
    """Apply a change to all strings in a JSON value."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_text(change, item) for item in value]
    if isinstance(value, dict):
        return {key: map_text(change, item) for key, item in value.items()}
    return value


def without_nulls(value: Any) -> Any:
    """Remove fields that are null from all objects in a JSON value."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def make_visible(text: str) -> str:
    """Add a visible character, which names require but a portable pattern cannot express."""
    if text == "" or any(unicodedata.category(character)[0] in "LNPS" for character in text):
        return text
    return text[:-1] + "x"
