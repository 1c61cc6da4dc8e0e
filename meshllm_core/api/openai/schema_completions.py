"""The body of `/v1/completions`."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator

from meshllm_core.api.openai.schema_common import MAX_TOP_LOGPROBS, CompletionFields, Text, TokenId
from meshllm_core.api.openai.validation import refused, wrong

Tokens = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]


def _prompt_kind(value: Any) -> str | None:
    match value:
        case str():
            return "<text>"
        case [str()]:
            return "<one>"
        case [list()]:
            return "<one_tokens>"
        case list():
            return "<tokens>"
        case _:
            return None


def _one_prompt(value: Any) -> Any:
    match value:
        case [str() | list(), _, *_]:
            raise refused("Send one prompt a request.")
        case _:
            return value


Prompt = Annotated[
    Text
    | Annotated[list[str], Tag("<one>")]
    | Annotated[list[Tokens], Tag("<one_tokens>")]
    | Annotated[Tokens, Tag("<tokens>")],
    Discriminator(
        _prompt_kind,
        custom_error_type="wrong_value",
        custom_error_message="It must be a string or an array of token ids.",
    ),
    BeforeValidator(_one_prompt),
]


class CompletionRequest(CompletionFields):
    """A text to continue."""

    refused: ClassVar = {name: why for name, why in CompletionFields.refused.items() if name != "best_of"}

    prompt: Prompt
    """Text or token ids, either also as the one element of an array."""
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    """Alternatives for each token; OpenAI stops at 5."""
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None

    @field_validator("best_of", mode="after")
    @classmethod
    def _best_of_one(cls, value: int | None) -> int | None:
        if value is not None and value != 1:
            raise refused(CompletionFields.refused["best_of"]) if value > 1 else wrong("It must be 1.")
        return value

    @field_validator("echo", mode="after")
    @classmethod
    def _no_echo(cls, value: bool | None) -> bool | None:
        if value:
            raise refused("The prompt is not sent back: put it before the answer yourself.")
        return value

    @field_validator("suffix", mode="after")
    @classmethod
    def _no_suffix(cls, value: str | None) -> str | None:
        if value:
            raise refused("Text is continued at its end only.")
        return value

    @property
    def single_prompt(self) -> str | tuple[int, ...]:
        """The prompt as text or token ids."""
        match self.prompt:
            case str():
                return self.prompt
            case [str() as text]:
                return text
            case [list() as tokens]:
                return tuple(tokens)
            case tokens:
                return tuple(token for token in tokens if isinstance(token, int))
