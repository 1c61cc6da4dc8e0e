"""The body of `/v1/responses` to the same conversation that a chat request makes."""

from typing import Any

from meshllm_core.api.openai.schema_messages import text_of
from meshllm_core.api.openai.schema_responses import (
    CallItem,
    CallOutputItem,
    Item,
    MessageItem,
    ReasoningItem,
    ResponsesNamedChoice,
    ResponsesRequest,
)
from meshllm_core.api.openai.translate import Conversation, schema_text
from meshllm_core.serve.tools import ToolChoice, ToolSpec


def responses_conversation(body: ResponsesRequest) -> Conversation:
    """The conversation of a request to `/v1/responses`."""
    return Conversation(
        messages=messages_of(body),
        tools=[
            ToolSpec(tool.name, tool.description or "", tool.parameters or {}, bool(tool.strict))
            for tool in body.tools or []
        ],
        choice=choice_of(body.tool_choice),
        parallel=body.parallel_tool_calls is not False,
        schema=schema_text(body.text.format if body.text else None),
        schema_param="text.format",
        effort=body.reasoning.effort if body.reasoning else None,
        template_variables=body.chat_template_kwargs,
    )


def choice_of(choice: str | ResponsesNamedChoice | None) -> ToolChoice:
    """Whether a tool may, must or must not be called."""
    match choice:
        case ResponsesNamedChoice():
            return ToolChoice("named", choice.name)
        case "none" | "required":
            return ToolChoice(choice)
        case _:
            return ToolChoice("auto")


def messages_of(body: ResponsesRequest) -> list[dict[str, Any]]:
    """The input as chat messages; thought, text and calls of one turn become one assistant message."""
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        return [*messages, {"role": "user", "content": body.input}]
    for item in body.input:
        _append(messages, item)
    return messages


def _append(messages: list[dict[str, Any]], item: Item) -> None:
    match item:
        case MessageItem(role="assistant"):
            turn = _assistant_turn(messages)
            turn["content"] += text_of(item.content)
        case MessageItem():
            role = "user" if item.role == "user" else "system"
            messages.append({"role": role, "content": text_of(item.content)})
        case ReasoningItem():
            turn = _assistant_turn(messages)
            thought = "".join(part.text for part in item.content or [])
            if thought:
                turn["reasoning_content"] = turn.get("reasoning_content", "") + thought
        case CallItem():
            function = {"name": item.name, "arguments": item.arguments.strip() or "{}"}
            calls = _assistant_turn(messages).setdefault("tool_calls", [])
            calls.append({"id": item.call_id, "type": "function", "function": function})
        case CallOutputItem():
            messages.append({"role": "tool", "content": text_of(item.output), "tool_call_id": item.call_id})


def _assistant_turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]
