"""What two nodes say to each other on a CALL channel. Pure.

One channel is one call: the asking side sends one `Ask`; the other answers with `Reply`s and finishes. The
asking side ends a call early by giving the channel up. msgpack; unknown fields are passed over, so that a
later version may add some.
"""

import struct
from typing import Annotated, TypeVar

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.engine.types import Delta, Finished, GenerationRequest, ModelFacts, Started
from meshllm_core.errors import (
    ContextLengthExceeded,
    EngineError,
    EngineExited,
    EngineTimeout,
    InvalidRequest,
    MeshError,
    ModelNotReady,
    ModelUnknown,
    NotPermitted,
    Overloaded,
    PayloadTooLarge,
    RequestCancelled,
    UnsupportedFeature,
    UnsupportedField,
    WireError,
)
from meshllm_core.wire import limits

FACTS_FRAME = (2 << 20) + (64 << 10)
"""Bytes of a reply that carries facts."""
TEMPLATE = 512 << 10
"""Characters of a chat template."""
MESSAGE = 1000
"""Characters of an error's text that are passed on."""
VECTORS_FRAME = 1 << 20
"""Bytes of vectors that are put into one frame."""
RETRY_SECONDS = 600

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.MODEL_NAME)]


class AskFacts(msgspec.Struct, frozen=True, tag="facts"):
    """What is this model?"""

    model: Name


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """Compute one completion."""

    model: Name
    request: GenerationRequest


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize"):
    """Token ids of a text."""

    model: Name
    text: str
    add_special: bool
    parse_special: bool


class Detokenize(msgspec.Struct, frozen=True, tag="detokenize"):
    """Text of token ids."""

    model: Name
    tokens: tuple[int, ...]


class Embed(msgspec.Struct, frozen=True, tag="embed"):
    """One embedding for each input."""

    model: Name
    inputs: tuple[str | tuple[int, ...], ...]


class Facts(msgspec.Struct, frozen=True, tag="facts"):
    """The answer to AskFacts."""

    facts: ModelFacts


class Chunks(msgspec.Struct, frozen=True, tag="chunks"):
    """What the engine gave since the last frame, in order; the last of all is Finished."""

    items: tuple[Started | Delta | Finished, ...]


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Nothing yet, but the call is being worked on or waits for a lane."""


class Tokens(msgspec.Struct, frozen=True, tag="tokens"):
    """The answer to Tokenize."""

    tokens: tuple[int, ...]


class Text(msgspec.Struct, frozen=True, tag="text"):
    """The answer to Detokenize."""

    text: str


class Vectors(msgspec.Struct, frozen=True, tag="vectors"):
    """Some of the answer to Embed, in order: each vector as little-endian 32-bit floats, its token count."""

    items: tuple[tuple[bytes, int], ...]


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", omit_defaults=True):
    """An error of the tree in `errors`; nothing follows it."""

    code: str
    message: str
    hint: str = ""
    param: str | None = None
    retry_after: int = 0


Ask = AskFacts | Generate | Tokenize | Detokenize | Embed
Reply = Facts | Chunks | Alive | Tokens | Text | Vectors | Refused
MessageT = TypeVar("MessageT")

_encoder = msgspec.msgpack.Encoder()
_asks = msgspec.msgpack.Decoder(Ask)
_replies = msgspec.msgpack.Decoder(Reply)


def encode(message: Ask | Reply) -> bytes:
    """One frame. Raises PayloadTooLarge for more than `limits.CALL_FRAME` bytes."""
    body = _encoder.encode(message)
    if len(body) > limits.CALL_FRAME:
        raise PayloadTooLarge(
            f"{len(body) >> 20} MiB do not fit in a call to another node.", hint="Send or ask for less."
        )
    return body


def decode_ask(body: bytes) -> Ask:
    """The one frame of the asking side. Raises WireError."""
    return _decode(_asks, body)


def decode_reply(body: bytes) -> Reply:
    """A frame of the answering side. Raises WireError."""
    return _decode(_replies, body)


def _decode(decoder: "msgspec.msgpack.Decoder[MessageT]", body: bytes) -> MessageT:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(f"A frame of {len(body)} bytes is no message of a call: {error}.") from error


def check_facts(facts: ModelFacts) -> ModelFacts:
    """`facts`, if they can be those of a model. Raises WireError."""
    texts = (facts.architecture, facts.name, facts.bos_text, facts.eos_text, facts.device, facts.llama_cpp)
    counts = (facts.context, facts.vocabulary, facts.width, facts.layers, facts.context_trained, facts.lanes)
    if (
        len(facts.chat_template) > TEMPLATE
        or any(len(text) > 1024 for text in texts)
        or not all(0 <= count < 1 << 31 for count in counts)
        or min(facts.context, facts.vocabulary, facts.width) < 1
        or not 0 <= facts.parameters < 1 << 62
    ):
        raise WireError("What was said of the model cannot be true.")
    return facts


def pack(vector: list[float]) -> bytes:
    """A vector as it travels: engines compute in 32 bits, so nothing is lost."""
    return struct.pack(f"<{len(vector)}f", *vector)


def unpack(data: bytes, width: int) -> list[float]:
    """A vector of `width` numbers. Raises WireError when it has another length."""
    if len(data) != width * 4:
        raise WireError(f"A vector of {len(data)} bytes came; the model's have {width * 4}.")
    return list(struct.unpack(f"<{width}f", data))


def refusal_of(error: MeshError) -> Refused:
    """An error as it travels."""
    return Refused(
        code=error.code,
        message=error.message[:MESSAGE],
        hint=error.hint[:MESSAGE],
        param=error.param[:MESSAGE] if error.param else None,
        retry_after=int(getattr(error, "retry_after", 0)),
    )


_PLAIN: dict[str, type[MeshError]] = {
    kind.code: kind
    for kind in (
        InvalidRequest,
        UnsupportedField,
        UnsupportedFeature,
        ContextLengthExceeded,
        PayloadTooLarge,
        ModelUnknown,
        RequestCancelled,
        EngineTimeout,
        EngineExited,
        NotPermitted,
    )
}


def error_of(refused: Refused, name: str) -> MeshError:
    """The error that the node `name` met, in its own class; EngineError if this version does not know it."""
    message = f"{name}: {clean_text(refused.message, MESSAGE) or 'it gave no reason.'}"
    hint = clean_text(refused.hint, MESSAGE)
    retry_after = min(max(1, refused.retry_after), RETRY_SECONDS)
    match refused.code:
        case Overloaded.code:
            return Overloaded(message, hint=hint, retry_after=retry_after)
        case ModelNotReady.code:
            return ModelNotReady(message, hint=hint, retry_after=retry_after)
        case EngineExited.code:
            return EngineExited(message, hint=hint)
    kind = _PLAIN.get(refused.code, EngineError)
    param = clean_text(refused.param, 200) if refused.param else None
    return kind(message, hint=hint, param=param)
