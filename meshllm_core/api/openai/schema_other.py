"""The bodies of `/v1/embeddings`, `/v1/tokenize` and `/v1/detokenize`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from meshllm_core.api.openai.schema_common import JsonObject, ModelName, TokenId
from meshllm_core.api.openai.schema_messages import Message
from meshllm_core.api.openai.schema_tools import FunctionTool
from meshllm_core.api.openai.validation import Body, wrong

InputText = Annotated[str, Field(min_length=1)]
InputTokens = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]


def _input_kind(value: Any) -> str | None:
    match value:
        case str():
            return "<text>"
        case [str(), *_]:
            return "<texts>"
        case [list(), *_]:
            return "<token_lists>"
        case list():
            return "<tokens>"
        case _:
            return None


Input = Annotated[
    Annotated[InputText, Tag("<text>")]
    | Annotated[list[InputText], Field(fail_fast=True), Tag("<texts>")]
    | Annotated[list[InputTokens], Field(fail_fast=True), Tag("<token_lists>")]
    | Annotated[InputTokens, Tag("<tokens>")],
    Discriminator(
        _input_kind,
        custom_error_type="wrong_value",
        custom_error_message="It must be a string, an array of strings, or token ids.",
    ),
]


class EmbeddingRequest(Body):
    """Texts to turn into vectors."""

    refused: ClassVar = {"dimensions": "The vectors have the model's own length."}

    model: ModelName
    input: Input
    encoding_format: Literal["float", "base64"] | None = None
    """base64: little-endian 32-bit floats."""
    user: str | None = None
    """Accepted, without effect."""

    @property
    def inputs(self) -> list[str | tuple[int, ...]]:
        """One entry for each vector wanted."""
        match self.input:
            case str() as text:
                return [text]
            case [int(), *_] as tokens:
                return [tuple(token for token in tokens if isinstance(token, int))]
            case items:
                texts = [item for item in items if not isinstance(item, int)]
                return [item if isinstance(item, str) else tuple(item) for item in texts]


class TokenizeRequest(Body):
    """A text, or a conversation as the model's template writes it, to turn into token ids."""

    model: ModelName
    content: str | None = None
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)] | None = None
    tools: list[FunctionTool] | None = None
    chat_template_kwargs: JsonObject | None = None
    add_special: bool | None = None
    """For `content`: whether the tokenizer may add the begin-of-text token. Absent: true."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "TokenizeRequest":
        if (self.content is None) == (self.messages is None):
            raise wrong("Send either 'content' or 'messages'.", "content")
        if self.messages is None and self.tools is not None:
            raise wrong("It needs 'messages'.", "tools")
        if self.messages is not None and self.add_special is not None:
            raise wrong("With 'messages' the template decides.", "add_special")
        return self


class DetokenizeRequest(Body):
    """Token ids to turn into text."""

    model: ModelName
    tokens: Annotated[list[TokenId], Field(fail_fast=True)]
