"""The body of `/v1/chat/completions`, field by field: what is done, taken without effect, or refused."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag, model_validator

from meshllm_core.api.openai.schema_common import (
    MAX_TOP_LOGPROBS,
    ChatSchemaFormat,
    CompletionFields,
    JsonObject,
    JsonObjectFormat,
    TextFormat,
    by_type,
)
from meshllm_core.api.openai.schema_messages import Message
from meshllm_core.api.openai.schema_tools import (
    MAX_TOOLS,
    FunctionTool,
    NamedChoice,
    ToolChoiceField,
    check_choice,
    distinct_names,
)
from meshllm_core.api.openai.validation import wrong

ResponseFormat = Annotated[
    Annotated[TextFormat, Tag("<text>")]
    | Annotated[JsonObjectFormat, Tag("<json_object>")]
    | Annotated[ChatSchemaFormat, Tag("<json_schema>")],
    by_type("text", "json_object", "json_schema"),
]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(CompletionFields):
    """A conversation to continue by one message."""

    refused: ClassVar = CompletionFields.refused | {
        "audio": "The models of this node have no voice.",
        "function_call": "Use 'tool_choice'.",
        "functions": "Use 'tools'.",
        "prediction": "Predicted outputs are not done here.",
        "web_search_options": "This node does not search the web: offer a tool that does.",
    }

    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Another spelling of max_tokens; reasoning counts."""
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoiceField | None = None
    """Absent: `auto` with tools, else `none`."""
    parallel_tool_calls: bool | None = None
    """Absent: true."""
    reasoning_effort: ReasoningEffort | None = None
    """Given to the chat template; `none` also sets enable_thinking to false."""
    enable_thinking: bool | None = None
    """Given to the chat template (an extension)."""
    chat_template_kwargs: JsonObject | None = None
    """More variables for the chat template (an extension)."""
    modalities: list[Literal["text"]] | None = None
    """Accepted: text is what there is."""
    verbosity: Literal["medium"] | None = None
    """Accepted: medium is no instruction at all."""
    store: Literal[False] | None = None
    """Accepted: nothing is ever stored."""
    service_tier: Literal["auto", "default"] | None = None
    """Accepted, without effect."""
    prompt_cache_key: str | None = None
    """Requests with the same one go to the same node of a mesh; prefixes are recognised by themselves."""
    prompt_cache_retention: Literal["in_memory"] | None = None
    """Accepted: that is how prefixes are kept."""
    safety_identifier: str | None = None
    """Accepted, without effect."""

    @model_validator(mode="after")
    def _consistent(self) -> "ChatRequest":
        if self.top_logprobs is not None and not self.logprobs:
            raise wrong("It needs 'logprobs' to be true.", "top_logprobs")
        newer = self.max_completion_tokens
        if newer is not None and self.max_tokens is not None and newer != self.max_tokens:
            raise wrong("It differs from 'max_completion_tokens', which means the same.", "max_tokens")
        names = [tool.function.name for tool in self.tools or []]
        distinct_names(names, "function.name")
        check_choice(self.tool_choice, self.tool_choice_name, names)
        if self.grammar is not None and (names or self.response_format is not None):
            raise wrong("It cannot be combined with 'tools' or 'response_format'.", "grammar")
        return self

    @property
    def tool_choice_name(self) -> str | None:
        """The function that must be called, if one is named."""
        return self.tool_choice.function.name if isinstance(self.tool_choice, NamedChoice) else None
