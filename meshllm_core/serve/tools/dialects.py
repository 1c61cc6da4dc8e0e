"""How a model writes a tool call, told from its chat template. Pure."""

from enum import StrEnum


class Dialect(StrEnum):
    """A way of writing tool calls into text."""

    HERMES = "hermes"
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen, and what we teach others."""
    LLAMA3 = "llama3"
    """`{"name": …, "parameters": {…}}` as the whole answer, perhaps after `<|python_tag|>`."""
    MISTRAL = "mistral"
    """`[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]`."""
    MISTRAL_ARGS = "mistral_args"
    """`[TOOL_CALLS]name[ARGS]{…}`, repeated for each call."""


def detect_dialect(template: str) -> Dialect | None:
    """The dialect that a template's source teaches; None if it teaches none or one that is not known here.

    Formats that share Hermes' tags but hold no JSON in them (Qwen3-Coder's `<function=`, GLM's `<arg_key>`)
    count as not known.
    """
    if "[TOOL_CALLS]" in template:
        return Dialect.MISTRAL_ARGS if "[ARGS]" in template else Dialect.MISTRAL
    if "<tool_call>" in template:
        foreign = "<function=" in template or "<arg_key>" in template
        return None if foreign else Dialect.HERMES
    llama_header = "<|start_header_id|>" in template and '"parameters"' in template
    return Dialect.LLAMA3 if "<|python_tag|>" in template or llama_header else None


def special_markers(dialect: Dialect) -> tuple[str, ...]:
    """Markers that may be control tokens in the vocabulary: the engine must show their text."""
    match dialect:
        case Dialect.HERMES:
            return ("<tool_call>", "</tool_call>")
        case Dialect.LLAMA3:
            return ("<|python_tag|>",)
        case Dialect.MISTRAL | Dialect.MISTRAL_ARGS:
            return ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")
