"""A stage's place in a chain, as messages carry it. Light to import: the node has it before any split."""

from typing import Annotated, Literal

import msgspec


class ChainSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A stage's place in a chain; part of what its engine is told to load."""

    role: Literal["stage", "driver"]
    """driver: the last stage, which samples."""
    run: Annotated[int, msgspec.Meta(ge=1, le=(1 << 62))]
    """Which assignment of stages this is; units of another are refused."""
    width: int
    """Values in a row between stages."""
    rows: int
    """Most rows of a unit."""
    sequences: int
    positions: int
    """Context of each sequence."""
    dtype: str
    """Of the rows, as codecs are labelled."""
    vocabulary: int = 0
    """Not 0: token ids travel with the rows."""
    layers: int
    """Of the whole model."""
    parameters: int = 0
    """Of the whole model, for people."""
    chunk: int = 128
    """Tokens of a prompt in one unit."""
    ahead: int = 3
    """Chunks of a prompt that may be on their way while an earlier one is computed."""
    others: str = ""
    """Names of the machines that a driver waits for, for people."""
