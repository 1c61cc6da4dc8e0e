"""What machines say to each other about the stages of a split model. On CALL channels, marked by a prefix.

A stage lives as long as the channel on which its coordinator offered it: when that ends, for whatever
reason, the stage's memory is free again. Units travel on channels of their own, one for each hop.
"""

from typing import Annotated, Literal

import msgspec

from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.errors import WireError
from meshllm_core.wire import limits

MARK = b"\xc1STG"
"""First bytes of a channel's first frame. 0xc1 begins no msgpack, so no other call begins so."""

Text = Annotated[str, msgspec.Meta(max_length=400)]
Name = Annotated[str, msgspec.Meta(max_length=limits.MODEL_NAME)]
Node = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
PROBES_LIMIT = 256 << 20
"""Bytes of a golden probe of one stage: two rows for each of its tokens."""
Run = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Small = Annotated[int, msgspec.Meta(ge=0, le=4096)]


State = Literal["fetching", "loading", "probing", "ready", "failed"]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base."""


class Offer(Message, frozen=True, kw_only=True, tag="offer"):
    """Will you compute this stage? First message of a control channel."""

    run: Run
    model: Name
    index: Small
    stages: Small
    start: Small
    end: Small
    file_size: Count
    file_sha256: Digest
    """Of the stage's file, which the coordinator serves under this name; empty when it has not these layers:
    then `source` is a package, and `package` fixes what they are."""
    source: Annotated[str, msgspec.Meta(max_length=limits.MODEL_NAME)] = ""
    """Reference of the model at the hub, its revision a commit: the same layers can be fetched there."""
    package: Digest = ""
    """SHA-256 of the package's manifest, if `source` is one. It lists the hash of every fragment, and a stage
    follows from its fragments and the version of meshllm."""
    probes_sha256: Digest = ""
    """Of a file with the golden probe of these layers, which the coordinator serves; empty: there is none."""
    probes_size: Annotated[int, msgspec.Meta(ge=0, le=PROBES_LIMIT)] = 0
    memory_needed: Count
    upstream: Node
    """Who sends units; from anybody else they are refused."""
    context: Annotated[int, msgspec.Meta(ge=1, le=1 << 26)]
    lanes: Annotated[int, msgspec.Meta(ge=1, le=64)]
    prefix_slots: Annotated[int, msgspec.Meta(ge=0, le=128)]
    batch: Annotated[int, msgspec.Meta(ge=1, le=16_384)]
    kv_type: Literal["f16", "q8_0", "q4_0"]
    chain: ChainSpec


class Progress(Message, frozen=True, kw_only=True, tag="progress"):
    """How far the stage is. failed ends it."""

    state: State
    bytes_done: Count = 0
    bytes_total: Count = 0
    memory: Count = 0
    """Bytes resident in the engine."""
    text: Text = ""
    unproved: bool = False
    """failed: it computes something else than the model does."""
    unstored: bool = False
    """failed: its disk cannot take the stage, and another try would end in the same way."""


class Connect(Message, frozen=True, kw_only=True, tag="connect"):
    """All stages are ready: send what you compute to this node."""

    downstream: Node


class Measured(Message, frozen=True, kw_only=True, tag="measured"):
    """Now and then, from a stage that computes."""

    unit_ms: Annotated[float, msgspec.Meta(ge=0, le=1e7)]
    """Of a decode, smoothed."""
    units: Count
    refused: Count
    text: Text = ""
    """Why the last one was refused."""


class Attach(Message, frozen=True, kw_only=True, tag="attach"):
    """First message of a channel for units: what follows are units for that stage."""

    run: Run
    index: Small


StageMessage = Offer | Progress | Connect | Measured | Attach

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StageMessage)


def encode(message: StageMessage) -> bytes:
    """With the mark in front."""
    return MARK + _encoder.encode(message)


def decode(body: bytes) -> StageMessage:
    """Raises WireError."""
    if not body.startswith(MARK):
        raise WireError("A message about a stage was expected.")
    try:
        return _decoder.decode(memoryview(body)[len(MARK) :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"A message about a stage that cannot be read: {error}.") from None
