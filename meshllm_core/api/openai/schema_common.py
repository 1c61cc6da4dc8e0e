"""Fields that the routes which generate text have in common."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from meshllm_core.api.openai.validation import Body, refused, tagged_by, wrong

Text = Annotated[str, Tag("<text>")]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
ModelName = Annotated[str, Field(min_length=1, max_length=512)]
by_text_or_list = Discriminator(
    tagged_by({str: "<text>", list: "<list>"}),
    custom_error_type="wrong_value",
    custom_error_message="It must be a string or an array.",
)
StopText = Annotated[str, Field(min_length=1, max_length=1024)]
Stop = Annotated[
    Annotated[StopText, Tag("<text>")]
    | Annotated[list[StopText], Field(min_length=1, max_length=16, fail_fast=True), Tag("<list>")],
    by_text_or_list,
]
JsonObject = dict[str, Any]

MAX_LOGIT_BIAS = 256
MAX_TOP_LOGPROBS = 20


class StreamOptions(Body):
    """How the stream is written."""

    include_usage: bool | None = None
    """One more chunk at the end, without choices, carries the usage."""
    include_obfuscation: Literal[False] | None = None
    """No padding is added here, so only false is accepted."""


class SamplingFields(Body):
    """How the next token is chosen. What is absent falls back to the engine's defaults.

    Beyond OpenAI's own: top_k, min_p, typical_p, repeat_penalty (also spelt repetition_penalty),
    ignore_eos, and seed, logit_bias and penalties on every route.
    """

    model: ModelName
    """A name from `/v1/models`, or `auto`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """0 is greedy."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    """0 and -1 switch it off."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    """Another spelling of repeat_penalty."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    """The same seed, request and model give the same answer; folded to 32 bits for the engine."""
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    """Token id (as a decimal string) to what is added to its logit."""
    ignore_eos: bool | None = None
    """Go on past the end-of-text token: for benchmarks."""
    stream: bool | None = None
    user: str | None = None
    """Requests of one user go to the same node of a mesh, where that is not much slower."""
    metadata: dict[str, str] | None = None
    """Accepted, without effect on the answer."""

    @field_validator("logit_bias", mode="after")
    @classmethod
    def _token_ids(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        for key in value or {}:
            if not (key.isascii() and key.isdecimal() and len(key) <= 10):
                raise wrong("A key must be a token id in decimal digits.", key[:100])
        if value is not None and len(value) > MAX_LOGIT_BIAS:
            raise wrong(f"It may have at most {MAX_LOGIT_BIAS} entries.")
        return value

    @model_validator(mode="after")
    def _one_spelling(self) -> "SamplingFields":
        one, other = self.repeat_penalty, self.repetition_penalty
        if one is not None and other is not None and one != other:
            raise wrong("It differs from 'repeat_penalty', which means the same.", "repetition_penalty")
        return self


_ONE_CHOICE = "Only one choice is computed for a request: send the request again for another."


class CompletionFields(SamplingFields):
    """What `/v1/chat/completions` and `/v1/completions` have in common."""

    refused: ClassVar = {
        "best_of": _ONE_CHOICE,
        "moderation": "Nothing is moderated here.",
        "prompt_cache_options": "Prefixes are reused by themselves.",
    }

    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Most tokens of the answer; absent: the node's default, or until the context is full."""
    stop: Stop | None = None
    """Up to 16 strings that end the answer; none of them appears in it."""
    grammar: Annotated[str, Field(min_length=1, max_length=262_144)] | None = None
    """A GBNF grammar with the start rule `root` (an extension)."""
    n: int | None = None
    stream_options: StreamOptions | None = None

    @field_validator("n", mode="after")
    @classmethod
    def _one(cls, value: int | None) -> int | None:
        if value is not None and value != 1:
            raise refused(_ONE_CHOICE) if value > 1 else wrong("It must be 1.")
        return value

    @model_validator(mode="after")
    def _stream_options_need_stream(self) -> "CompletionFields":
        if self.stream_options is not None and not self.stream:
            raise wrong("It is only allowed when 'stream' is true.", "stream_options")
        return self


class JsonSchemaFormat(Body):
    """`response_format.json_schema`: what the answer must be."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    definition: Annotated[JsonObject, Field(alias="schema")]
    """The JSON schema; it constrains every token, whether `strict` is set or not."""
    description: str | None = None
    strict: bool | None = None


class TextFormat(Body):
    """`{"type": "text"}`: no constraint."""

    type: Literal["text"]


class JsonObjectFormat(Body):
    """`{"type": "json_object"}`: any JSON object."""

    type: Literal["json_object"]


class ChatSchemaFormat(Body):
    """`{"type": "json_schema", "json_schema": {…}}`."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


class ResponsesSchemaFormat(JsonSchemaFormat):
    """The same in `/v1/responses`, where it is flat."""

    type: Literal["json_schema"]


def by_type(*names: str) -> Discriminator:
    """Tells the members of a union of objects apart by their `type`."""

    def tag(value: Any) -> str | None:
        kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        return f"<{kind}>" if isinstance(kind, str) and kind in names else None

    return Discriminator(
        tag,
        custom_error_type="wrong_value",
        custom_error_message=f"It must be an object with 'type' one of: {', '.join(names)}.",
    )
