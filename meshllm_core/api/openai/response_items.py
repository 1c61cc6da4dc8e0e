"""Chat deltas to the output items of `/v1/responses`, with the events that announce them.

An answer is a row of items (a thought, a message, calls); at most one is open. Each has the same life:
added, deltas, done. A whole answer is made by the same code, its events thrown away.
"""

from dataclasses import dataclass, field
from typing import Any

from meshllm_core.api.openai.wire import finite
from meshllm_core.engine.types import PositionLogprobs, TokenLogprob
from meshllm_core.serve.deltas import (
    ChatDelta,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStarted,
)

AnyEvent = dict[str, Any]


@dataclass
class _Open:
    """The item being written."""

    kind: str
    """message, reasoning or function_call."""
    id: str
    head: dict[str, Any] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def view(self, status: str) -> dict[str, Any]:
        """The item as a client sees it."""
        text = "".join(self.texts)
        item = {"id": self.id, "type": self.kind, "status": status}
        if self.kind == "function_call":
            return {**item, **self.head, "arguments": text}
        parts = [] if status == "in_progress" else [self.part()]
        if self.kind == "reasoning":
            return {**item, "summary": [], "content": parts}
        return {**item, "role": "assistant", "content": parts}

    def part(self) -> dict[str, Any]:
        """The one content part of a message or a thought."""
        text = "".join(self.texts)
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if self.logprobs:
            part["logprobs"] = self.logprobs
        return part


_PREFIX = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}
_EVENTS = {
    "message": "response.output_text",
    "reasoning": "response.reasoning_text",
    "function_call": "response.function_call_arguments",
}


@dataclass
class Output:
    """The items of one answer. Feed it deltas, then `close` it."""

    suffix: str
    """Makes the ids of the items unlike those of other answers."""
    items: list[dict[str, Any]] = field(default_factory=list)
    _open: _Open | None = None

    def feed(self, delta: ChatDelta, logprobs: list[PositionLogprobs]) -> list[AnyEvent]:
        """The events of one delta; `logprobs` are of its tokens."""
        match delta:
            case ContentDelta(text):
                return self._text("message", text, logprobs)
            case ReasoningDelta(text):
                return self._text("reasoning", text, [])
            case ToolCallStarted(_, call_id, name):
                head = {"call_id": call_id, "name": name}
                return [*self.close("completed"), *self._add("function_call", head)]
            case ToolCallArguments(_, fragment):
                return self._text("function_call", fragment, [])

    def close(self, status: str) -> list[AnyEvent]:
        """End the open item, if there is one; `status` is completed or incomplete."""
        item = self._open
        if item is None:
            return []
        view = item.view(status)
        name, place = _EVENTS[item.kind], self._place(item)
        text = "".join(item.texts)
        events: list[AnyEvent] = []
        if item.kind == "function_call":
            events.append({"type": f"{name}.done", **place, "name": item.head["name"], "arguments": text})
        else:
            done: AnyEvent = {"type": f"{name}.done", **place, "text": text}
            if item.kind == "message":
                done["logprobs"] = item.logprobs
            events += [done, {"type": "response.content_part.done", **place, "part": item.part()}]
        events.append({"type": "response.output_item.done", "output_index": len(self.items), "item": view})
        self.items.append(view)
        self._open = None
        return events

    def _text(self, kind: str, text: str, logprobs: list[PositionLogprobs]) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        if self._open is None or self._open.kind != kind:
            events = [*self.close("completed"), *self._add(kind, {})]
        item = self._open
        assert item is not None, "an item was just added"
        item.texts.append(text)
        event: AnyEvent = {"type": f"{_EVENTS[kind]}.delta", **self._place(item), "delta": text}
        if kind == "message":
            views = [_logprob(position) for position in logprobs]
            item.logprobs += views
            event["logprobs"] = views
        return [*events, event]

    def _add(self, kind: str, head: dict[str, Any]) -> list[AnyEvent]:
        index = len(self.items)
        item = self._open = _Open(kind, f"{_PREFIX[kind]}{index}_{self.suffix}", head)
        events: list[AnyEvent] = [
            {"type": "response.output_item.added", "output_index": index, "item": item.view("in_progress")}
        ]
        if kind != "function_call":
            part = {"type": "response.content_part.added", **self._place(item), "part": item.part()}
            events.append(part)
        return events

    def _place(self, item: _Open) -> dict[str, Any]:
        place = {"item_id": item.id, "output_index": len(self.items)}
        return place if item.kind == "function_call" else {**place, "content_index": 0}


def _logprob(position: PositionLogprobs) -> dict[str, Any]:
    return {**_token(position.chosen), "top_logprobs": [_token(other) for other in position.top]}


def _token(token: TokenLogprob) -> dict[str, Any]:
    text = token.text.decode("utf-8", "replace")
    return {"token": text, "logprob": finite(token.logprob), "bytes": list(token.text)}
