"""What can have happened to a measurement of codecs on this node. Same rules as `events`."""

from typing import Literal

import msgspec

from meshllm_core.state.event import Event

CertifyPhase = Literal["hashing", "writing", "answering", "measuring"]
"""In this order; answering and measuring count positions, hashing bytes, writing layers."""
CertifyOutcome = Literal["done", "cancelled", "failed"]


class CodecVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came out for one codec."""

    codec: str
    verdict: Literal["exact", "validated", "rejected", "untested"]


class CertificationStarted(Event, frozen=True, kw_only=True, tag="certification_started"):
    """A measurement began; one runs at a time."""

    model: str
    """As it was asked for."""
    cuts: tuple[int, ...]
    """First layers of the later stages."""
    codecs: tuple[str, ...]


class CertificationProgressed(Event, frozen=True, kw_only=True, tag="certification_progressed"):
    """It went on: at most two events a second, and one at the beginning of each phase."""

    phase: CertifyPhase
    done: int
    total: int


class CertificationEnded(Event, frozen=True, kw_only=True, tag="certification_ended"):
    """It ended; what was measured is signed and kept when the outcome is done."""

    outcome: CertifyOutcome
    verdicts: tuple[CodecVerdict, ...] = ()
    message: str = ""
    """Why it failed."""
    hint: str = ""


class CertificationView(msgspec.Struct, frozen=True, kw_only=True):
    """The latest measurement of this node."""

    model: str
    cuts: tuple[int, ...]
    codecs: tuple[str, ...]
    started_at: float
    state: Literal["running"] | CertifyOutcome = "running"
    phase: CertifyPhase = "hashing"
    done: int = 0
    total: int = 0
    ended_at: float = 0.0
    verdicts: tuple[CodecVerdict, ...] = ()
    message: str = ""
    hint: str = ""
