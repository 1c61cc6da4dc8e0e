"""The body of `/v1/responses`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from meshllm_core.api.openai.schema_chat import ReasoningEffort
from meshllm_core.api.openai.schema_common import (
    MAX_TOP_LOGPROBS,
    JsonObject,
    JsonObjectFormat,
    ResponsesSchemaFormat,
    SamplingFields,
    Text,
    TextFormat,
    by_text_or_list,
    by_type,
)
from meshllm_core.api.openai.schema_messages import Arguments, Content
from meshllm_core.api.openai.schema_tools import (
    MAX_TOOLS,
    ChoiceWord,
    FunctionDefinition,
    FunctionName,
    by_choice,
    check_choice,
    distinct_names,
    only_functions,
    only_named,
)
from meshllm_core.api.openai.validation import Body, refused, wrong

ItemStatus = Literal["in_progress", "completed", "incomplete"]
Identifier = Annotated[str, Field(min_length=1, max_length=256)]


class MessageItem(Body):
    """Something said earlier, or now."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    id: str | None = None
    status: ItemStatus | None = None
    phase: str | None = None
    """As the API itself may return it: without effect."""


class CallItem(Body):
    """A call in an earlier answer."""

    type: Literal["function_call"]
    call_id: Identifier
    name: Identifier
    arguments: Arguments
    id: str | None = None
    status: ItemStatus | None = None


class CallOutputItem(Body):
    """What a tool answered."""

    type: Literal["function_call_output"]
    call_id: Identifier
    output: Content
    id: str | None = None
    status: ItemStatus | None = None


class ReasoningText(Body):
    """A piece of a thought."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(Body):
    """The thought before an earlier answer."""

    refused: ClassVar = {"encrypted_content": "Reasoning is kept in the open here."}

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[ReasoningText] | None = None
    content: list[ReasoningText] | None = None
    status: ItemStatus | None = None


_ITEMS = {
    "message": "<message>",
    "function_call": "<call>",
    "function_call_output": "<output>",
    "reasoning": "<reasoning>",
}


def _item_tag(value: Any) -> str | None:
    kind = value.get("type", "message") if isinstance(value, dict) else None
    return _ITEMS.get(kind) if isinstance(kind, str) else None


def _known_item(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("type"), str) and _item_tag(value) is None:
        raise refused(f"Items can be: {', '.join(_ITEMS)}.", "type")
    return value


Item = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[CallItem, Tag("<call>")]
    | Annotated[CallOutputItem, Tag("<output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")],
    Discriminator(
        _item_tag,
        custom_error_type="wrong_value",
        custom_error_message="It must be an object: a message, a function_call or its output, or reasoning.",
    ),
    BeforeValidator(_known_item),
]
Input = Annotated[
    Text | Annotated[list[Item], Field(min_length=1, fail_fast=True), Tag("<list>")], by_text_or_list
]


class ResponsesTool(FunctionDefinition):
    """A function that the model may call; flat, unlike in chat."""

    type: Literal["function"]

    @model_validator(mode="before")
    @classmethod
    def _function(cls, value: Any) -> Any:
        return only_functions(value)


class ResponsesNamedChoice(Body):
    """`{"type": "function", "name": …}`."""

    type: Literal["function"]
    name: FunctionName


class TextSettings(Body):
    """The form of the answer's text."""

    format: (
        Annotated[
            Annotated[TextFormat, Tag("<text>")]
            | Annotated[JsonObjectFormat, Tag("<json_object>")]
            | Annotated[ResponsesSchemaFormat, Tag("<json_schema>")],
            by_type("text", "json_object", "json_schema"),
        ]
        | None
    ) = None
    verbosity: Literal["medium"] | None = None
    """Accepted: medium is no instruction at all."""


class ReasoningSettings(Body):
    """How much to think."""

    refused: ClassVar = {
        "summary": "The reasoning itself is returned; nothing is summarised.",
        "generate_summary": "The reasoning itself is returned; nothing is summarised.",
    }

    effort: ReasoningEffort | None = None
    """Given to the chat template; `none` also sets enable_thinking to false."""


class ResponsesStreamOptions(Body):
    """How the stream is written."""

    include_obfuscation: Literal[False] | None = None
    """No padding is added here, so only false is accepted."""


class ResponsesRequest(SamplingFields):
    """An input to answer. The node keeps nothing, so every request carries the whole conversation."""

    refused: ClassVar = {
        "background": "The answer comes while you wait: use 'stream'.",
        "context_management": "Nothing is kept here.",
        "conversation": "Nothing is kept here: send the whole conversation as 'input'.",
        "max_tool_calls": "The node itself calls no tools.",
        "moderation": "Nothing is moderated here.",
        "previous_response_id": "Nothing is kept here: send the whole conversation as 'input'.",
        "prompt": "There are no stored prompts here: send 'input'.",
        "prompt_cache_options": "Prefixes are reused by themselves.",
    }

    input: Input
    instructions: str | None = None
    """A system message before the input."""
    max_output_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    """Needs `message.output_text.logprobs` in 'include'."""
    include: list[Literal["message.output_text.logprobs"]] | None = None
    tools: Annotated[list[ResponsesTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: (
        Annotated[
            Annotated[ChoiceWord, Tag("<word>")] | Annotated[ResponsesNamedChoice, Tag("<named>")],
            by_choice,
            BeforeValidator(only_named),
        ]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    chat_template_kwargs: JsonObject | None = None
    """More variables for the chat template (an extension)."""
    stream_options: ResponsesStreamOptions | None = None
    truncation: Literal["disabled"] | None = None
    """Nothing is cut away silently, so only `disabled` is accepted."""
    store: Literal[False] | None = None
    """Nothing is stored: absent means false here."""
    service_tier: Literal["auto", "default"] | None = None
    """Accepted, without effect."""
    prompt_cache_key: str | None = None
    """Requests with the same one go to the same node of a mesh; prefixes are recognised by themselves."""
    prompt_cache_retention: Literal["in_memory"] | None = None
    """Accepted: that is how prefixes are kept."""
    safety_identifier: str | None = None
    """Accepted, without effect."""

    @model_validator(mode="after")
    def _consistent(self) -> "ResponsesRequest":
        if self.stream_options is not None and not self.stream:
            raise wrong("It is only allowed when 'stream' is true.", "stream_options")
        if self.top_logprobs is not None and not self.include:
            raise wrong("It needs 'message.output_text.logprobs' in 'include'.", "top_logprobs")
        names = [tool.name for tool in self.tools or []]
        distinct_names(names, "name")
        named = self.tool_choice.name if isinstance(self.tool_choice, ResponsesNamedChoice) else None
        check_choice(self.tool_choice, named, names)
        return self
