"""Bytes of a Server-Sent Events stream -> events. Splits at line feeds only: JSON may hold other breaks."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from meshllm_core.errors import NodeError

EVENT_LIMIT = 8 << 20
"""Bytes of one event; a longer one is refused."""


@dataclass(frozen=True)
class ServerEvent:
    """One event. `data` has its lines joined; `id` is empty when the server gave none."""

    event: str
    data: str
    id: str = ""


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent]:
    """The events in a stream of bytes; comments are left out. Raises NodeError for one without end."""
    buffer = bytearray()
    fields: dict[str, list[str]] = {}
    size = 0
    async for chunk in chunks:
        buffer += chunk
        start = 0
        while (end := buffer.find(b"\n", start)) >= 0:
            line = buffer[start:end].decode("utf-8", "replace").removesuffix("\r")
            start = end + 1
            if line:
                size += len(line)
                name, _, value = line.partition(":")
                if name:
                    fields.setdefault(name, []).append(value.removeprefix(" "))
            else:
                if event := _event(fields):
                    yield event
                fields, size = {}, 0
        del buffer[:start]
        if len(buffer) + size > EVENT_LIMIT:
            raise NodeError(
                f"An event is larger than {EVENT_LIMIT >> 20} MiB.", hint="Is this a node's address?"
            )


def _event(fields: dict[str, list[str]]) -> ServerEvent | None:
    if "data" not in fields:
        return None
    last = {name: values[-1] for name, values in fields.items()}
    return ServerEvent(last.get("event", "message"), "\n".join(fields["data"]), last.get("id", ""))
