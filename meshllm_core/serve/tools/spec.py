"""The tools of a request and the client's choice among them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from meshllm_core.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One function that the model may call."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the arguments object; empty allows any object."""
    strict: bool = False
    """Whether the arguments must follow the schema even when the model is free to call or not."""

    def as_openai(self) -> dict[str, Any]:
        """The form that chat templates expect."""
        function: dict[str, Any] = {"name": self.name}
        if self.description:
            function["description"] = self.description
        function["parameters"] = dict(self.parameters) or {"type": "object", "properties": {}}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model may, must or must not call a tool."""

    mode: Literal["none", "auto", "required", "named"] = "auto"
    name: str = ""
    """The tool to call when `mode` is named."""

    @property
    def forced(self) -> bool:
        """Whether the answer must be a call."""
        return self.mode in {"required", "named"}


def callable_tools(tools: Sequence[ToolSpec], choice: ToolChoice) -> tuple[ToolSpec, ...]:
    """The tools that this answer may call.

    Raises InvalidRequest if `choice` names or demands one that is not given.
    """
    if choice.mode == "none":
        return ()
    if choice.mode == "named":
        named = tuple(tool for tool in tools if tool.name == choice.name)
        if not named:
            raise InvalidRequest(
                f"tool_choice names the function {choice.name[:100]!r}, which is not among the tools.",
                hint="Declare it in `tools`, or choose another.",
                param="tool_choice",
            )
        return named
    if choice.mode == "required" and not tools:
        raise InvalidRequest(
            "tool_choice is 'required' but there are no tools.",
            hint="Declare at least one in `tools`.",
            param="tool_choice",
        )
    return tuple(tools)
