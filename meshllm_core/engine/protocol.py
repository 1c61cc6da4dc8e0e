"""Messages between the node and an engine child, and their framing.

A frame is a 4-byte little-endian length and a msgpack body. Both ends are ours and on one
machine, yet the length is checked before anything is allocated: a child that lost its mind
must not take the node with it.
"""

import struct
from typing import Literal

import msgspec

from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.types import Delta, Finished, GenerationRequest, ModelFacts, Refused, Started
from meshllm_core.errors import EngineError
from meshllm_core.ids import RequestId

FRAME_LIMIT = 64 << 20
"""Bytes in one frame."""

LENGTH = struct.Struct("<I")


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """What to load and how. Sent once, first."""

    files: tuple[str, ...]
    """All parts of a split set, in order; or one file."""
    context: int
    """Tokens one request may use."""
    lanes: int
    """Requests computed at the same time."""
    prefix_slots: int
    """Idle sequences that may stay in the KV cache, beyond the lanes."""
    parking_bytes: int = 0
    """Memory for idle sequences that were moved out of the KV cache."""
    queue_limit: int
    """Requests that may wait for a lane; more are refused."""
    batch: int = 512
    """Most tokens in one step."""
    prefill_chunk: int = 512
    """Most prompt tokens in one step."""
    threads: int
    """Threads that compute."""
    device: str = "auto"
    """auto, cpu, or a name from the device list."""
    gpu_layers: int = -1
    """Layers offloaded to the device; -1 is all."""
    flash_attention: Literal["auto", "on", "off"] = "auto"
    kv_type: Literal["f16", "q8_0", "q4_0"] = "f16"
    mmap: bool = True
    mlock: bool = False
    chain: ChainSpec | None = None
    """Set for a stage of a model that is split."""
    probes: str = ""
    """With `chain`: a file of golden probes that the stage must reproduce before it is loaded."""


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag="generate"):
    """Compute one completion."""

    request: GenerationRequest


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Stop a completion before its next step."""

    request_id: RequestId


class Tokenize(msgspec.Struct, frozen=True, kw_only=True, tag="tokenize"):
    """Ask for the token ids of a text."""

    call: int
    text: str
    add_special: bool
    parse_special: bool


class Detokenize(msgspec.Struct, frozen=True, kw_only=True, tag="detokenize"):
    """Ask for the text of token ids."""

    call: int
    tokens: tuple[int, ...]


class Embed(msgspec.Struct, frozen=True, kw_only=True, tag="embed"):
    """Ask for one embedding per input."""

    call: int
    inputs: tuple[str | tuple[int, ...], ...]


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """The file is being read."""

    fraction: float


class Probing(msgspec.Struct, frozen=True, kw_only=True, tag="probing"):
    """The file is read; the stage is being proved."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The model answers from now on."""

    facts: ModelFacts


class LoadFailed(msgspec.Struct, frozen=True, kw_only=True, tag="load_failed"):
    """The model cannot be loaded; the child exits."""

    code: Literal["bad_file", "out_of_memory", "context", "probe"]
    message: str
    hint: str = ""


class Chunks(msgspec.Struct, frozen=True, kw_only=True, tag="chunks"):
    """Everything one step produced, for all its requests."""

    items: tuple[Started | Delta | Finished | Refused, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", omit_defaults=True):
    """The result of Tokenize, Detokenize or Embed; `error` is set when there is none."""

    call: int
    tokens: tuple[int, ...] = ()
    text: str = ""
    embeddings: tuple[tuple[list[float], int], ...] = ()
    error: str = ""
    error_code: Literal[
        "", "invalid_value", "context_length_exceeded", "unsupported_model_feature", "rate_limit_exceeded"
    ] = ""


class Stats(msgspec.Struct, frozen=True, kw_only=True, tag="stats"):
    """What the engine did since the last Stats, at most one a second."""

    decode_tokens_per_second: float
    prompt_tokens_per_second: float
    active: int
    queued: int
    cells_used: int
    cells_total: int
    stage_ms: float = 0.0
    """What the last stage of a split model takes for a step of decodes itself, smoothed; 0: not split."""
    in_flight: int = 0
    """Tokens of a split model that were between its stages at the same time, at most; 0: not split."""


class ChainBroken(msgspec.Struct, frozen=True, kw_only=True, tag="chain_broken"):
    """A stage is lost: nothing that was begun can be finished. To the driver, or from it."""

    message: str


class UnitRefused(msgspec.Struct, frozen=True, kw_only=True, tag="unit_refused"):
    """A stage counted a unit that it would not compute; the chain goes on. From a child, or to the driver."""

    message: str


ToChild = ChainBroken | UnitRefused | LoadSpec | Generate | Cancel | Tokenize | Detokenize | Embed
FromChild = ChainBroken | UnitRefused | Progress | Probing | Loaded | LoadFailed | Chunks | Answer | Stats

_encoder = msgspec.msgpack.Encoder()
to_child_decoder = msgspec.msgpack.Decoder(ToChild)
from_child_decoder = msgspec.msgpack.Decoder(FromChild)


def encode(message: ToChild | FromChild) -> bytes:
    """A whole frame. Raises EngineError when the message is larger than FRAME_LIMIT."""
    body = _encoder.encode(message)
    if len(body) > FRAME_LIMIT:
        raise EngineError(f"A message of {len(body)} bytes is too large for the engine socket.")
    return LENGTH.pack(len(body)) + body


def frame_length(header: bytes | bytearray) -> int:
    """Length of the body that follows a 4-byte header. Raises EngineError over FRAME_LIMIT."""
    (length,) = LENGTH.unpack(header)
    if length > FRAME_LIMIT:
        raise EngineError(f"A frame of {length} bytes was announced; the limit is {FRAME_LIMIT}.")
    return int(length)
