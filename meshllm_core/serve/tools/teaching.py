"""Tool calls for models whose template knows nothing of them, in plain messages. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from meshllm_core.serve.tools.spec import ToolSpec

_INSTRUCTIONS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


def teach(messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The same conversation with the tools in its system message, and past calls and results as text.

    Results become user messages, neighbouring ones one message, as Qwen's template writes them.
    """
    taught: list[dict[str, Any]] = []
    answering = False
    for message in messages:
        if message["role"] == "tool":
            result = f"<tool_response>\n{message['content'] or ''}\n</tool_response>"
            if answering:
                taught[-1]["content"] += "\n" + result
            else:
                taught.append({"role": "user", "content": result})
            answering = True
            continue
        answering = False
        taught.append(_calls_as_text(message) if message.get("tool_calls") else dict(message))
    return _with_instructions(taught, tools) if tools else taught


def _calls_as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = [message["content"]] if message.get("content") else []
    for call in message["tool_calls"]:
        function = call["function"]
        body = {"name": function["name"], "arguments": function.get("arguments", {})}
        parts.append(f"<tool_call>\n{json.dumps(body, ensure_ascii=False)}\n</tool_call>")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return rest | {"content": "\n".join(parts)}


def _with_instructions(messages: list[dict[str, Any]], tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    signatures = "\n".join(json.dumps(tool.as_openai(), ensure_ascii=False) for tool in tools)
    instructions = _INSTRUCTIONS.format(signatures=signatures)
    if messages and messages[0]["role"] == "system":
        first = messages[0] | {"content": f"{messages[0]['content'] or ''}\n\n{instructions}".lstrip()}
        return [first, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]
