"""The number format in which hidden states cross: what each takes, and which may be used for an artifact."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from meshllm_core.wire.codecs import CODECS, Dtype, dtype_named

VERDICTS = ("exact", "validated", "rejected", "untested")
"""What may be known of a codec for a file and its cuts."""


@dataclass(frozen=True)
class Wire:
    """A codec that was chosen, and why it may be used."""

    dtype: str
    verdict: str
    note: str


Wires = Callable[[Sequence[int]], Wire | str]
"""For the layers at which a model is cut: the codec to use, or a sentence why there is none."""


@cache
def row_bytes(dtype: str, width: int) -> int:
    """Bytes of one hidden state of `width` values. Raises ConfigError for a format that does not exist."""
    return CODECS[dtype_named(dtype)].size_of(1, width)


def choose_wire(
    requested: str, verdicts: Mapping[str, str], width: int, *, override: bool = False
) -> Wire | str:
    """The codec for an artifact whose verdicts are given; a sentence if the one requested may not be used.

    `auto` takes the smallest that is exact; what is only validated is used when it is named. f32 changes
    nothing, so it needs no record. With `override` any codec is used, and the note says so.
    """
    if requested == "auto":
        proven = [dtype.label for dtype in Dtype if verdicts.get(dtype.label) == "exact"]
        if not proven:
            why = "f32, which changes nothing: no smaller format is certified for this file"
            return Wire("f32", "exact", why)
        best = min(proven, key=lambda dtype: (row_bytes(dtype, width), dtype))
        return Wire(best, verdicts[best], f"{best}, the smallest format that is certified ({verdicts[best]})")
    verdict = "exact" if requested == "f32" else verdicts.get(requested, "untested")
    if verdict in ("exact", "validated"):
        return Wire(requested, verdict, f"{requested}, as asked ({verdict})")
    if override:
        return Wire(requested, verdict, f"{requested}, as insisted on although it is {verdict} for this file")
    what = "changes the answers of" if verdict == "rejected" else "has not been tested with"
    return f"The wire format {requested} {what} this file ({verdict})."


def lossless(cuts: Sequence[int]) -> Wire | str:
    """For chains of which nothing is certified."""
    return Wire("f32", "exact", "f32, which changes nothing")
