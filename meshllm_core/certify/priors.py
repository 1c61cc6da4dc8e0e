"""What others reviewed: verdicts of the row codec (q8) for published artifacts, by their exact names.

They come from Mesh LLM's family records: the next token did or did not change, for one split and one set of
prompts of that very artifact. Weaker than a measurement here, and said to be; never carried to a neighbour.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec


class Prior(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reviewed artifact."""

    model: str
    """owner/repo:QUANT, as published."""
    family: str
    """For a person; nothing is looked up by it."""
    wire: Literal["f32", "f16"]
    """What the reviewers send by default."""
    q8: Literal["validated", "rejected", "untested"]
    """The row codec."""


Priors = Mapping[str, Prior]
"""By `model`, in lower case: the hub takes both spellings for one repository."""


@cache
def reviewed() -> Priors:
    """The records that come with meshllm."""
    return read_priors((files("meshllm_core.certify") / "reviewed.json").read_bytes())


def read_priors(data: bytes) -> Priors:
    """Records from JSON. Raises ValueError for two of one artifact, msgspec.ValidationError."""
    records = msgspec.json.decode(data, type=tuple[Prior, ...])
    found = {prior.model.lower(): prior for prior in records}
    if len(found) != len(records):
        raise ValueError("two reviewed records have the same artifact")
    return found
