"""Questions about the logs of a node and its engines."""

from typing import Annotated

import msgspec

LogName = Annotated[str, msgspec.Meta(min_length=1, max_length=160, pattern=r"^[A-Za-z0-9._-]+$")]
"""A log's name from the listing; it is looked up there, never made a path of."""


class LogsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`logs` has no arguments."""


class LogRow(msgspec.Struct, frozen=True, kw_only=True):
    """A log that can be read."""

    name: str
    model: str
    """The model whose engine writes it, as file names write it; empty: the node's own log."""
    bytes: int
    changed_at: float
    """Seconds since the epoch."""


class LogsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The node's log first, then the engines', newest first."""

    logs: tuple[LogRow, ...]


class ReadLogArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which log, and from where on."""

    name: LogName
    after: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)] | None = None
    """`end` of the piece before; absent: the last lines."""
    file: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """`file` of the piece before, so that a log that began anew is read from its beginning."""


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """At most 64 KiB of a log, whole lines where they are shorter."""

    name: str
    text: str
    """Without anything that looks like a secret."""
    file: str
    start: int
    end: int
    """In bytes from the file's beginning: what to ask for next."""
    size: int
    """Bytes of the whole file; larger than `end`: there is more to read now."""
    fresh: bool
    """The log began anew since the piece before."""
