"""The public JSON of what is known of codecs: reviewed records, measurements, and how to make one here."""

from typing import Annotated, Literal

import msgspec

CodecName = Literal["f16", "bf16", "q8", "q8x"]
"""f32 carries every value as it is: there is nothing to measure."""
VerdictName = Literal["exact", "validated", "rejected", "untested"]
"""exact: no more harm than noise does. validated: within a bound. rejected. untested: nothing is known."""

MEASURED_SHOWN = 512
"""Measurements in one answer; the newest first."""

_Cut = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


class CertifyArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `certify`."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """A model that is on this machine's disk: its name, a .gguf path, owner/repo:QUANT, default."""
    cuts: Annotated[tuple[_Cut, ...], msgspec.Meta(min_length=1, max_length=64)] | None = None
    """First layers of the later stages, rising; absent: one cut in the middle."""
    codecs: Annotated[tuple[CodecName, ...], msgspec.Meta(min_length=1, max_length=8)] | None = None
    """What to measure; absent: all."""


class CancelCertifyArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cancel_certify` has no arguments."""


class CertificatesArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`certificates` has no parameters."""


class ReviewedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What others reviewed for one published artifact: whether q8 changed the next token there."""

    model: str
    """owner/repo:QUANT."""
    family: str
    wire: Literal["f32", "f16"]
    """What the reviewers send by default."""
    q8: VerdictName


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """One signed measurement: a codec, for an artifact, its cuts and a backend."""

    artifact: str
    """SHA-256 of the model's files, hexadecimal."""
    name: str
    """What the artifact is called here; empty where that is not known."""
    cuts: tuple[int, ...]
    codec: str
    backend: str
    verdict: VerdictName
    reason: str
    """The figures as a clause."""
    positions: int
    agreed: int
    """Positions whose most likely token stayed the same."""
    mean_kl: float
    """Nats."""
    max_kl: float
    floor_agreed: float
    """The same under noise that means nothing: the artifact's own floor."""
    floor_mean_kl: float
    floor_seeds: int
    shortfall: float
    """Standard errors by which the agreement is below the floor's."""
    noise: float
    """Relative size of that noise."""
    signer: str
    """Id of the node that measured, hexadecimal."""
    own: bool
    """Measured by this node."""
    same_owner: bool = False
    """Measured by another node of this node's owner. Only these and its own decide what is used here."""
    measured_by: str = ""
    """In words: this node, or who else and whether that counts here. Cleaned."""
    at: float
    """By the signer's clock, seconds since the epoch."""
    meshllm: str
    llama_cpp: str
    device: str
    threads: int
    kv_type: str
    answer_tokens: int


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `certificates`."""

    measured: tuple[MeasuredRow, ...]
    """The newest first, at most MEASURED_SHOWN."""
    left_out: int
    """Measurements that are on this disk and not in the answer, those of others among them."""
    reviewed: tuple[ReviewedRow, ...]
    folder: str
    """Where the signed records are."""
