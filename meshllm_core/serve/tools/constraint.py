"""What to tell the engine so that it must write a tool call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.serve.tools.dialects import Dialect
from meshllm_core.serve.tools.spec import ToolChoice, ToolSpec


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

    `reasoning_close` is the end tag of a thought that the prompt has opened: the rule starts after it.
    Raises InvalidRequest if `choice` names or demands a tool that is not given.
    """
    raise NotImplementedError
