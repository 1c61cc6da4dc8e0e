"""What can become known of how fast this machine computes. Same rules as `events`."""

from typing import Annotated, Literal

import msgspec

from meshllm_core.state.event import Event

PaceSource = Literal["", "calibrated", "measured"]
"""calibrated: on a small model made for that; measured: from answers of a model; empty: not at all."""

Rate = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of a machine. 0: not known."""

    decode: Rate = 0
    """Bytes of weights that a decode goes through in a second."""
    prefill: Rate = 0
    """Bytes of weights times tokens of a prompt, in a second."""
    source: PaceSource = ""
    """Of `decode`."""


UNKNOWN = Pace()


class PaceLearned(Event, frozen=True, kw_only=True, tag="pace_learned"):
    """This machine's speed was calibrated, or is kept from an earlier run."""

    pace: Pace
