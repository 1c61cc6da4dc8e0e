"""What a node says of itself, signed by it and passed on by everybody."""

from typing import Annotated, Literal

import msgspec

from meshllm_core.wire import limits

Name = Annotated[str, msgspec.Meta(max_length=limits.NAME)]
Short = Annotated[str, msgspec.Meta(max_length=limits.VERSION)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e9)]

Hash = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]

Role = Literal["host", "client"]
"""host: computes for others. client: only asks."""

PURPOSE = "announcement"
PAUSED = "lending-paused"
"""Capability of a node whose owner paused lending: it says no to what is new, and offers no model."""


class Address(msgspec.Struct, frozen=True, array_like=True):
    """Where a node can be reached: an IP address (text) and the port, the same for UDP and TCP."""

    host: Annotated[str, msgspec.Meta(max_length=45)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class DeviceOffer(msgspec.Struct, frozen=True, array_like=True):
    """One accelerator."""

    name: Name
    kind: Short
    memory_total: Count
    memory_free: Count


class ModelOffer(msgspec.Struct, frozen=True, array_like=True):
    """One model that the node serves."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=limits.MODEL_NAME)]
    load: Annotated[bytes, msgspec.Meta(max_length=8)]
    """Changes with every load, so that facts fetched from an earlier one are not used."""
    status: Literal["loading", "ready"]
    architecture: Short
    parameters: Count
    context: Count
    lanes: Annotated[int, msgspec.Meta(ge=0, le=4096)]
    chat: bool
    embeddings: bool
    decode_tokens_per_second: Rate
    """Measured on this node for one request; 0 when nothing was measured yet."""
    prompt_tokens_per_second: Rate
    active: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    queued: Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class RoundTrip(msgspec.Struct, frozen=True, array_like=True):
    """What this node measured to one peer."""

    peer: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
    """First 8 bytes of its id."""
    microseconds: Annotated[int, msgspec.Meta(ge=0, le=600_000_000)]


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """The node as others should know it. Later (incarnation, sequence) replaces earlier."""

    mesh: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    """Grows with every start of the node, and when it has to contradict the news of its death."""
    sequence: Annotated[int, msgspec.Meta(ge=0, le=1 << 22)]
    """Grows with every announcement of an incarnation."""
    instance: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
    """Drawn at the start of the process: two of them at a time are two machines with one key."""
    at: float
    """By the node's own clock, seconds since the epoch; shown, never trusted."""
    name: Name
    version: Short
    protocol: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    role: Role
    addresses: Annotated[tuple[Address, ...], msgspec.Meta(max_length=limits.ADDRESSES)]
    memory_total: Count
    memory_free: Count
    devices: Annotated[tuple[DeviceOffer, ...], msgspec.Meta(max_length=limits.DEVICES)]
    models: Annotated[tuple[ModelOffer, ...], msgspec.Meta(max_length=limits.MODELS)]
    round_trips: Annotated[tuple[RoundTrip, ...], msgspec.Meta(max_length=limits.RTTS)]
    accepts_udp: bool | None = None
    """Whether packets that nobody asked for arrive; None while not known."""
    accepts_tcp: bool | None = None
    owner: Annotated[bytes, msgspec.Meta(max_length=limits.CERTIFICATE)] = b""
    """The owner's certificate for this node, or nothing."""
    capabilities: Annotated[tuple[Short, ...], msgspec.Meta(max_length=16)] = ()
    memory_lent: Count = 0
    """Bytes that a stage of somebody's model may take here now."""
    weights_per_second: Count = 0
    """Bytes of weights that a decode goes through in a second; 0 when nothing was measured yet."""
    prefill_per_second: Count = 0
    """Bytes of weights times tokens of a prompt, in a second; 0 when nothing was measured yet."""
    calibrated: bool = False
    """Whether these were measured on a small model made for that, and no answer has confirmed them yet."""
    codec_certificates: Annotated[tuple[Hash, ...], msgspec.Meta(max_length=limits.CODEC_CERTIFICATES)] = ()
    """SHA-256 of the sealed certificates of codecs that the node measured and gives to members who ask."""
