"""What Schemathesis cannot know of the contract."""

import schemathesis
from schemathesis import SerializationContext


@schemathesis.serializer("application/offset+octet-stream")
def piece_of_a_file(ctx: SerializationContext, value: object) -> bytes:
    """A piece of an upload is bytes as they are."""
    return value if isinstance(value, bytes) else str(value).encode()
