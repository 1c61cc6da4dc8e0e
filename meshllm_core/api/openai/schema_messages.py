"""Messages and tools of `/v1/chat/completions`."""

import json
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from meshllm_core.api.openai.body import parse_object
from meshllm_core.api.openai.schema_common import JsonObject, Text, by_text_or_list
from meshllm_core.api.openai.validation import Body, refused, refused_feature, wrong
from meshllm_core.errors import InvalidRequest

MAX_TOOLS = 128
_MEDIA = {
    "image_url": "images",
    "input_image": "images",
    "input_audio": "audio",
    "file": "files",
    "input_file": "files",
}
_PART_TAGS = {"text": "<part>", "input_text": "<part>", "output_text": "<part>", "refusal": "<refusal>"}

FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class TextPart(Body):
    """A part of a message that is text."""

    type: Literal["text", "input_text", "output_text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    """As the API itself returns it: always empty here."""
    logprobs: list[Any] | None = None
    """As the API itself returned it: without effect in a request."""


class RefusalPart(Body):
    """A part of an earlier answer in which a model declined; it is passed on as text."""

    type: Literal["refusal"]
    refusal: str


def _part_kind(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return None
    if kind in _MEDIA:
        raise refused_feature(f"The models of this node read text only, no {_MEDIA[kind]}.")
    return _PART_TAGS.get(kind)


Part = Annotated[
    Annotated[TextPart, Tag("<part>")] | Annotated[RefusalPart, Tag("<refusal>")],
    Discriminator(
        _part_kind,
        custom_error_type="wrong_value",
        custom_error_message="It must be an object with 'type' text or refusal.",
    ),
]
Content = Annotated[
    Text | Annotated[list[Part], Field(min_length=1, fail_fast=True), Tag("<list>")], by_text_or_list
]


def text_of(content: "str | list[TextPart | RefusalPart] | None") -> str:
    """The text of a message's content, its parts joined."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def check_arguments(text: str) -> str:
    """Arguments of a call as the JSON text of an object; empty text stands for none."""
    try:
        if text.strip():
            parse_object(text.encode())
    except InvalidRequest as error:
        raise wrong(f"It must be the JSON text of an object: {error.message}") from error
    return text


Arguments = Annotated[str, AfterValidator(check_arguments)]


class FunctionCall(Body):
    """What was called, in an earlier answer."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    arguments: Arguments


class ToolCall(Body):
    """A call in an earlier answer."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None
    """As streams carry it: without effect in a request."""


class SystemMessage(Body):
    """Instructions; `developer` is OpenAI's newer name of `system`."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Body):
    """What a person said."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AssistantMessage(Body):
    """An earlier answer, as this API returned it."""

    refused: ClassVar = {
        "audio": "The models of this node have no voice.",
        "function_call": "Use 'tool_calls'.",
    }

    role: Literal["assistant"]
    content: Content | None = None
    name: str | None = None
    refusal: str | None = None
    """A refusal of an earlier answer; it is passed on as text."""
    reasoning_content: str | None = None
    """The reasoning of an earlier answer; the model's template decides whether it is shown again."""
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_TOOLS)] | None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    """As the API itself returns it: always empty here."""

    @model_validator(mode="after")
    def _says_something(self) -> "AssistantMessage":
        if self.content is None and self.refusal is None and not self.tool_calls:
            raise wrong("It must have text, or the message 'tool_calls'.", "content")
        return self


class ToolMessage(Body):
    """What a tool answered."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Annotated[str, Field(min_length=1, max_length=256)]
    name: str | None = None


_ROLES = {
    "system": "<system>",
    "developer": "<system>",
    "user": "<user>",
    "assistant": "<assistant>",
    "tool": "<tool>",
}


def _role(value: Any) -> str | None:
    role = value.get("role") if isinstance(value, dict) else None
    if role == "function":
        raise refused("Use the role 'tool'.", "role")
    if isinstance(value, dict) and role not in _ROLES:
        raise wrong(f"It must be one of: {', '.join(_ROLES)}.", "role")
    return _ROLES[role] if isinstance(role, str) else None


Message = Annotated[
    Annotated[SystemMessage, Tag("<system>")]
    | Annotated[UserMessage, Tag("<user>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[ToolMessage, Tag("<tool>")],
    Discriminator(
        _role,
        custom_error_type="wrong_value",
        custom_error_message="It must be an object with 'role' and 'content'.",
    ),
]


class FunctionDefinition(Body):
    """A function that the model may call."""

    name: FunctionName
    description: str | None = None
    parameters: JsonObject | None = None
    """A JSON schema; absent: no parameters."""
    strict: bool | None = None
    """Arguments follow `parameters` whenever a call is forced; otherwise the model is only told of them."""


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
    if isinstance(value, dict):
        if value.get("type") in {"allowed_tools", "custom"}:
            raise refused("Offer only the tools that may be called.", "type")
        return "<named>"
    return None


by_choice = Discriminator(
    choice_tag,
    custom_error_type="wrong_value",
    custom_error_message="It must be none, auto, required, or an object naming a function.",
)
ToolChoiceField = Annotated[
    Annotated[ChoiceWord, Tag("<word>")] | Annotated[NamedChoice, Tag("<named>")], by_choice
]


def distinct_names(names: list[str], path: str) -> None:
    """Refuse two tools of the same name; `path` is where a name stands in a tool."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"Two tools are named {name!r}.", f"tools[{index}].{path}")


def json_text(value: JsonObject) -> str:
    """A JSON object as compact text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
