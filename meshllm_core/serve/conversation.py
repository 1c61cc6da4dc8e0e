"""OpenAI's messages in the form that chat templates expect, and ways to please one that objects. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from meshllm_core.errors import InvalidRequest

Messages = list[dict[str, Any]]

_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})


def plain_messages(messages: Sequence[Mapping[str, Any]]) -> Messages:
    """Copies whose content is text or None and whose call arguments are objects where they hold one.

    Text parts are joined by line ends; a tool message without a name gets that of its call. Raises
    InvalidRequest for a part that is not text.
    """
    names: dict[str, str] = {}
    plain: Messages = []
    for index, message in enumerate(messages):
        copy = dict(message)
        copy["content"] = _text(message.get("content"), f"messages[{index}].content")
        if message.get("tool_calls"):
            copy["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
            names |= {call.get("id", ""): call["function"]["name"] for call in copy["tool_calls"]}
        else:
            copy.pop("tool_calls", None)
        if copy["role"] == "tool" and not copy.get("name") and copy.get("tool_call_id") in names:
            copy["name"] = names[copy["tool_call_id"]]
        plain.append(copy)
    return plain


def _text(content: Any, path: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    texts = []
    for index, part in enumerate(content):
        kind = part.get("type")
        if kind not in _TEXT_PARTS:
            raise InvalidRequest(
                f"This model reads text only, not a part of type {str(kind)[:40]!r}.",
                hint="Send text parts.",
                param=f"{path}[{index}].type",
            )
        texts.append(part.get("text") or part.get("refusal") or "")
    return "\n".join(texts)


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        function["arguments"] = _object_or_text(arguments)
    return {"type": "function", **call, "function": function}


def _object_or_text(arguments: str) -> Any:
    try:
        decoded = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    return decoded if isinstance(decoded, dict) else arguments


def rename_role(messages: Messages, old: str, new: str) -> Messages:
    """Every message of role `old` with role `new`."""
    return [message | {"role": new} if message["role"] == old else message for message in messages]


def empty_for_null(messages: Messages) -> Messages:
    """For templates that add to content without looking: no content is empty content."""
    return [message | {"content": message["content"] or ""} for message in messages]


def arguments_as_text(messages: Messages) -> Messages:
    """For templates that add to arguments: JSON text instead of objects."""
    return [
        message | {"tool_calls": [_call_as_text(call) for call in message["tool_calls"]]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _call_as_text(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["function"].get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return call | {"function": call["function"] | {"arguments": arguments}}


def short_call_ids(messages: Messages) -> Messages:
    """For Mistral's templates, which demand ids of nine letters and digits: nine of the id's hash."""
    renamed: Messages = []
    for message in messages:
        copy = dict(message)
        if copy.get("tool_calls"):
            copy["tool_calls"] = [call | {"id": _short(call.get("id", ""))} for call in copy["tool_calls"]]
        if copy.get("tool_call_id"):
            copy["tool_call_id"] = _short(copy["tool_call_id"])
        renamed.append(copy)
    return renamed


def _short(call_id: str) -> str:
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def system_into_user(messages: Messages) -> Messages:
    """For templates without a system role: its text goes before that of the first user message."""
    system = [message["content"] or "" for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    if not system:
        return messages
    text = "\n\n".join(system)
    for index, message in enumerate(rest):
        if message["role"] == "user":
            joined = f"{text}\n\n{message['content'] or ''}".strip()
            return [*rest[:index], message | {"content": joined}, *rest[index + 1 :]]
    return [{"role": "user", "content": text}, *rest]


def merge_neighbours(messages: Messages) -> Messages:
    """For templates whose roles must alternate: neighbours of one role become one message."""
    merged: Messages = []
    for message in messages:
        last = merged[-1] if merged else None
        plain = not message.get("tool_calls") and message["role"] in {"system", "user", "assistant"}
        if last and plain and last["role"] == message["role"] and not last.get("tool_calls"):
            merged[-1] = last | {"content": f"{last['content'] or ''}\n\n{message['content'] or ''}".strip()}
        else:
            merged.append(message)
    return merged
