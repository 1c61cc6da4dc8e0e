"""The number format in which hidden states cross: what each takes, and which may be used for an artifact."""

from collections.abc import Mapping
from dataclasses import dataclass

from meshllm_core.wire.codecs import CODECS, Dtype, dtype_named

VERDICTS = ("exact", "validated", "rejected", "untested")
PROVEN = ("exact", "validated")
"""Verdicts that allow a codec."""


@dataclass(frozen=True)
class Wire:
    """A codec that was chosen, and why it may be used."""

    dtype: str
    verdict: str
    note: str


def row_bytes(dtype: str, width: int) -> int:
    """Bytes of one hidden state of `width` values. Raises ConfigError for a format that does not exist."""
    return CODECS[dtype_named(dtype)].size_of(1, width)


def choose_wire(
    requested: str, verdicts: Mapping[str, str], width: int, *, override: bool = False
) -> Wire | str:
    """The codec for an artifact whose verdicts are given; a sentence if the one requested may not be used.

    `auto` takes the smallest that is proven. f32 changes nothing, so it needs no record. With `override` an
    unproven codec is used all the same, and the note says so.
    """
    if requested == "auto":
        proven = [dtype.label for dtype in Dtype if verdicts.get(dtype.label) in PROVEN]
        if not proven:
            why = "f32, which changes nothing: no smaller format is certified for this file"
            return Wire("f32", "exact", why)
        best = min(proven, key=lambda dtype: (row_bytes(dtype, width), dtype))
        return Wire(best, verdicts[best], f"{best}, the smallest format that is certified ({verdicts[best]})")
    verdict = "exact" if requested == "f32" else verdicts.get(requested, "untested")
    if verdict in PROVEN:
        return Wire(requested, verdict, f"{requested}, as asked ({verdict})")
    if override:
        return Wire(requested, verdict, f"{requested}, as insisted on although it is {verdict} for this file")
    what = "changes the answers of" if verdict == "rejected" else "has not been tested with"
    return f"The wire format {requested} {what} this file ({verdict})."
