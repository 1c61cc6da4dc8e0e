"""What the process that measures codecs is told, and the lines of JSON that it answers with."""

import msgspec

from meshllm_core.certify.verdict import Figures
from meshllm_core.engine.protocol import LoadSpec


class CertifyJob(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement."""

    whole: LoadSpec
    """The model as it is."""
    chains: tuple[tuple[LoadSpec, ...], ...]
    """Its stages, for each set of cuts."""
    dtypes: tuple[str, ...]
    """Labels of the codecs."""
    seeds: tuple[int, ...]
    """Of the noise floor."""
    prompts: tuple[str, ...]
    answer_tokens: int
    """Tokens of the greedy answer to each prompt: the positions that are compared."""


class Doing(msgspec.Struct, frozen=True, kw_only=True, tag="doing"):
    """Progress: `done` of `total` prompts of a phase."""

    phase: str
    done: int
    total: int


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag="measured"):
    """The figures of one chain."""

    chain: int
    figures: dict[str, Figures]
    widened: dict[str, int]
    """Rows by codec that would have been sent as f32: a value was out of range."""


class Over(msgspec.Struct, frozen=True, kw_only=True, tag="over"):
    """Everything was measured."""

    llama_cpp: str
    backend: str
    """See `certify.record.backend_of`."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The measurement ended early."""

    message: str
    hint: str


Line = Doing | Measured | Over | Failed
line_decoder = msgspec.json.Decoder(Line)
job_decoder = msgspec.json.Decoder(CertifyJob)
LINE_LIMIT = 1 << 20
"""Bytes."""
