"""Events as Server-Sent Events: a client names the last one it knows and gets the rest, then news.

Nothing is queued per client: each reads the store's ring at its own pace. One that falls further behind
than the ring reaches gets `reset` and takes a new snapshot.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent

from meshllm_core.errors import InvalidRequest, Overloaded
from meshllm_core.state.events import LoggedEvent
from meshllm_core.state.snapshot import NodeSnapshot

HEARTBEAT_SECONDS = 10
"""A comment goes out at least this often, so that both ends notice a dead connection."""
SEND_TIMEOUT_SECONDS = 30
"""A client that takes nothing for so long is cut off."""
CLIENTS_LIMIT = 64
"""Streams at the same time; more are refused."""
BATCH_LIMIT = 256
"""Events taken from the ring at a time."""


class EventSource(Protocol):
    """What a stream needs of the node's store."""

    @property
    def snapshot(self) -> NodeSnapshot:
        """The node after the last event."""

    @property
    def closed(self) -> bool:
        """True once the node is about to end: streams finish."""

    def events_after(self, sequence: int) -> list[LoggedEvent] | None:
        """Later events, or None when that place in the log is not known."""

    async def wait_after(self, sequence: int, timeout: float) -> bool:
        """Waits for a later event, at most `timeout` seconds."""


class EventStreams:
    """Opens streams and counts them."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._open = 0

    def open(self, after: str | None, last_event_id: str | None) -> EventSourceResponse:
        """A stream that starts after the event a client knows; after none, it starts with what comes next.

        `Last-Event-ID` is what a browser sends when it comes back: it is newer than the address.
        Raises InvalidRequest, Overloaded.
        """
        start = self._source.snapshot.sequence
        if last_event_id:
            start = _sequence(last_event_id, "Last-Event-ID")
        elif after is not None:
            start = _sequence(after, "after")
        if self._open >= CLIENTS_LIMIT:
            raise Overloaded(
                f"{CLIENTS_LIMIT} event streams are open.",
                hint="Close one, or read /api/snapshot.",
                retry_after=5,
            )
        return EventSourceResponse(
            self._counted(start), ping=HEARTBEAT_SECONDS, sep="\n", send_timeout=SEND_TIMEOUT_SECONDS
        )

    async def _counted(self, start: int) -> AsyncIterator[ServerSentEvent]:
        self._open += 1
        try:
            async for event in self._follow(start):
                yield event
        finally:
            self._open -= 1

    async def _follow(self, sequence: int) -> AsyncIterator[ServerSentEvent]:
        source = self._source
        while True:
            events = source.events_after(sequence)
            if events is None:
                sequence = source.snapshot.sequence
                yield _reset(sequence)
                continue
            for logged in events[:BATCH_LIMIT]:
                yield _message(logged)
                sequence = logged.sequence
            if not events:
                if source.closed:
                    return
                await source.wait_after(sequence, HEARTBEAT_SECONDS)


def _message(logged: LoggedEvent) -> ServerSentEvent:
    data = msgspec.json.encode(logged).decode()
    kind = type(logged.event).__struct_config__.tag
    return ServerSentEvent(data=data, id=str(logged.sequence), event=str(kind), sep="\n")


def _reset(sequence: int) -> ServerSentEvent:
    return ServerSentEvent(data=f'{{"sequence":{sequence}}}', id=str(sequence), event="reset", sep="\n")


def _sequence(text: str, name: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        return int(text)
    raise InvalidRequest(
        f"{name} is {text[:40]!r}.", hint="Give the sequence number of the last event you know.", param=name
    )
