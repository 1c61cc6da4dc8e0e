"""What to tell the engine so that it must write a tool call. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meshllm_core.serve.tools.dialects import Dialect
from meshllm_core.serve.tools.schema import enforceable
from meshllm_core.serve.tools.spec import ToolChoice, ToolSpec, callable_tools


@dataclass(frozen=True, slots=True)
class Constraint:
    """Fields of the same names of a GenerationRequest."""

    json_schema: str
    grammar_prefix: str = ""
    grammar_suffix: str = ""
    grammar_triggers: tuple[str, ...] = ()


def constraint(
    tools: Sequence[ToolSpec],
    choice: ToolChoice,
    parallel: bool,
    dialect: Dialect,
    *,
    reasoning_close: str = "",
) -> Constraint | None:
    """What holds the answer to calls of the tools; None when it is free.

    Required and named choices hold it from its beginning, or from `reasoning_close`, the end tag of a
    thought that the prompt has opened. With choice auto only strict tools are held to their schema, from
    the marker of a call on. A held answer is one call; several (`parallel`) only in Mistral's list form.
    Raises InvalidRequest if `choice` names or demands a tool that is not given, or a schema is unusable.
    """
    callable_ = callable_tools(tools, choice)
    if not choice.forced and not any(tool.strict for tool in callable_):
        return None
    prefix, schema, suffix = _form(callable_, parallel, dialect)
    triggers: tuple[str, ...] = ()
    if not choice.forced:
        triggers = _triggers(dialect)
    elif reasoning_close:
        triggers, prefix = (reasoning_close,), f"{reasoning_close}\n\n{prefix}"
    return Constraint(json.dumps(schema, ensure_ascii=False), prefix, suffix, triggers)


def _triggers(dialect: Dialect) -> tuple[str, ...]:
    match dialect:
        case Dialect.HERMES:
            return ("<tool_call>",)
        case Dialect.LLAMA3:
            return ('{"name"',)
        case Dialect.MISTRAL | Dialect.MISTRAL_ARGS:
            return ("[TOOL_CALLS]",)


def _form(tools: Sequence[ToolSpec], parallel: bool, dialect: Dialect) -> tuple[str, dict[str, Any], str]:
    """Literal prefix, schema and literal suffix of what a model of this dialect writes."""
    match dialect:
        case Dialect.HERMES:
            return "<tool_call>\n", _any_call(tools, "arguments"), "\n</tool_call>"
        case Dialect.LLAMA3:
            return "", _any_call(tools, "parameters"), ""
        case Dialect.MISTRAL_ARGS if len(tools) == 1 and not parallel:
            tool = tools[0]
            schema = enforceable(dict(tool.parameters), tool=tool.name, strict=tool.strict, root="#")
            return f"[TOOL_CALLS]{tool.name}[ARGS]", schema, ""
    calls = _any_call(tools, "arguments")
    definitions = calls.pop("$defs")
    schema = {"type": "array", "items": calls, "minItems": 1, "$defs": definitions}
    return "[TOOL_CALLS]", schema if parallel else schema | {"maxItems": 1}, ""


def _any_call(tools: Sequence[ToolSpec], arguments_key: str) -> dict[str, Any]:
    """Schema of a call object of any of the tools; their parameters are definitions, so that `$ref`s hold."""
    calls, definitions = [], {}
    for index, tool in enumerate(tools):
        place = f"parameters{index}"
        root = f"#/$defs/{place}"
        definitions[place] = enforceable(dict(tool.parameters), tool=tool.name, strict=tool.strict, root=root)
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, arguments_key: {"$ref": root}},
                "required": ["name", arguments_key],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, "$defs": definitions}
