"""What Schemathesis cannot know of the contract."""

from typing import Any
from uuid import uuid4

import schemathesis
from schemathesis import Case, GenerationMode, HookContext, SerializationContext


@schemathesis.serializer("application/offset+octet-stream")
def piece_of_a_file(ctx: SerializationContext, value: object) -> bytes:
    """A piece of an upload is bytes as they are."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Correct a request; Schemathesis then validates it again and decides anew whether it must be refused."""
    # Titles and names are trimmed before they are measured (x-normalize: line).
    if case.meta is not None and case.meta.generation.mode is GenerationMode.NEGATIVE:
        case.body = trimmed(case.body)
    # The problems in the results of a batch have the instance /tasks/batch, which Schemathesis takes for the URL of a task.
    if case.path_parameters.get("task_id") == "batch":
        case.path_parameters["task_id"] = str(uuid4())


def trimmed(value: Any) -> Any:
    """Strip the text in a JSON value, and leave anything else as it is."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    if isinstance(value, dict):
        return {key: trimmed(item) for key, item in value.items()}
    return value
