"""The pieces that a chat answer is made of, after its raw text has been taken apart. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of the answer's text; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thought before it answered; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model calls a tool. Its arguments follow as `ToolCallArguments` of the same index."""

    index: int
    """0 for the first call of the answer."""
    id: str
    """`call_` and 24 hexadecimal digits."""
    name: str
    """Always one of the tools of the request."""


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the JSON text of a call's arguments; never empty."""

    index: int
    fragment: str


ChatDelta = ContentDelta | ReasoningDelta | ToolCallStarted | ToolCallArguments
