"""Messages and tools of `/v1/chat/completions`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from meshllm_core.api.openai.body import parse_object
from meshllm_core.api.openai.schema_common import Text, by_text_or_list
from meshllm_core.api.openai.validation import Body, refused, refused_feature, wrong
from meshllm_core.errors import InvalidRequest

MAX_CALLS = 128
_MEDIA = {
    "image_url": "images",
    "input_image": "images",
    "input_audio": "audio",
    "file": "files",
    "input_file": "files",
}
_PART_TAGS = {"text": "<part>", "input_text": "<part>", "output_text": "<part>", "refusal": "<refusal>"}


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
    return _PART_TAGS.get(kind) if isinstance(kind, str) else None


def _only_text(value: Any) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind in _MEDIA:
        raise refused_feature(f"The models of this node read text only, no {_MEDIA[kind]}.")
    return value


Part = Annotated[
    Annotated[TextPart, Tag("<part>")] | Annotated[RefusalPart, Tag("<refusal>")],
    Discriminator(
        _part_kind,
        custom_error_type="wrong_value",
        custom_error_message="It must be an object with 'type' text or refusal.",
    ),
    BeforeValidator(_only_text),
]
Content = Annotated[
    Text | Annotated[list[Part], Field(min_length=1, fail_fast=True), Tag("<list>")], by_text_or_list
]


def text_of(content: "str | list[TextPart | RefusalPart] | None") -> str:
    """The text of a message's content, its parts on lines of their own (as llama-server has it)."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


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
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS)] | None = None
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


def _role_tag(value: Any) -> str | None:
    role = value.get("role") if isinstance(value, dict) else None
    return _ROLES.get(role) if isinstance(role, str) else None


def _known_role(value: Any) -> Any:
    if isinstance(value, dict) and _role_tag(value) is None:
        if value.get("role") == "function":
            raise refused("Use the role 'tool'.", "role")
        raise wrong(f"It must be one of: {', '.join(_ROLES)}.", "role")
    return value


Message = Annotated[
    Annotated[SystemMessage, Tag("<system>")]
    | Annotated[UserMessage, Tag("<user>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[ToolMessage, Tag("<tool>")],
    Discriminator(
        _role_tag,
        custom_error_type="wrong_value",
        custom_error_message="It must be an object with 'role' and 'content'.",
    ),
    BeforeValidator(_known_role),
]
