"""Tools and the choice among them, as requests spell them."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from meshllm_core.api.openai.schema_common import JsonObject
from meshllm_core.api.openai.validation import Body, refused, wrong

MAX_TOOLS = 128
FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class FunctionDefinition(Body):
    """A function that the model may call."""

    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    """A JSON schema; absent: no parameters."""
    strict: bool | None = None
    """True: the arguments of a call follow `parameters`. Otherwise only those of a forced call do."""


def only_functions(value: Any) -> Any:
    """Refuse tools that OpenAI runs itself, by their `type`."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind != "function":
        raise refused("Only tools of the type 'function' can be offered.", "type")
    return value


class FunctionTool(Body):
    """A tool."""

    type: Literal["function"]
    function: FunctionDefinition

    @model_validator(mode="before")
    @classmethod
    def _function(cls, value: Any) -> Any:
        return only_functions(value)


class NamedFunction(Body):
    """The name of an offered function."""

    name: FunctionName


class NamedChoice(Body):
    """`{"type": "function", "function": {"name": …}}`."""

    type: Literal["function"]
    function: NamedFunction


ChoiceWord = Literal["none", "auto", "required"]


def choice_tag(value: Any) -> str | None:
    """Tells a word from an object in `tool_choice`."""
    if isinstance(value, str):
        return "<word>"
    return "<named>" if isinstance(value, dict) else None


def only_named(value: Any) -> Any:
    """Refuse the choices that OpenAI knows beyond a word and a function."""
    if isinstance(value, dict) and value.get("type") in ("allowed_tools", "custom"):
        raise refused("Offer only the tools that may be called.", "type")
    return value


by_choice = Discriminator(
    choice_tag,
    custom_error_type="wrong_value",
    custom_error_message="It must be none, auto, required, or an object naming a function.",
)
ToolChoiceField = Annotated[
    Annotated[ChoiceWord, Tag("<word>")] | Annotated[NamedChoice, Tag("<named>")],
    by_choice,
    BeforeValidator(only_named),
]


def distinct_names(names: list[str], path: str) -> None:
    """Refuse two tools of the same name; `path` is where a name stands in a tool."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"Two tools are named {name!r}.", f"tools[{index}].{path}")


def check_choice(choice: Any, named: str | None, names: list[str]) -> None:
    """Refuse a `tool_choice` that asks for a tool which is not offered."""
    if named is not None and named not in names:
        raise wrong(f"No tool named {named!r} is offered in 'tools'.", "tool_choice")
    if choice == "required" and not names:
        raise wrong("It needs 'tools'.", "tool_choice")
