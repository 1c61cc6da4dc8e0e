"""The support table: which cuts of which architectures a test has proved, with which llama.cpp.

`python -m tests.stages.support --all` writes it; nothing in it is written by hand.
"""

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from meshllm_core.models.stage_rules import Mechanism

FILE_NAME = "stage_support.json"

Result = Literal["exact", "refused", "wrong"]
"""exact: every logit of every position is that of the whole model. refused: by name, before anything is
loaded. wrong: called legal, and differs or fails; no released table holds one."""


class CutRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cut of one model into two stages."""

    cut: int
    result: Result
    mechanism: Mechanism | Literal[""] = ""
    """The more demanding of those of the two stages."""
    padding: int = 0
    """Layers of zeros in both stages together."""
    words: str = ""
    """What a person is told, where it is not exact."""


class ModelRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One small random model."""

    architecture: str
    variant: str = ""
    """What is special about it, beside the plain one of its architecture."""
    layers: int = 0
    cuts: tuple[CutRecord, ...] = ()
    rollback: Literal["", "exact", "refused", "wrong"] = ""
    """Whether positions can be taken back, in two stages."""
    first_stage: Literal["", "rows", "tokens"] = ""
    """Whether the first stage looks rows up itself, or must be a model with a vocabulary."""
    refusal: str = ""
    """Why the architecture is never cut."""


class SupportTable(msgspec.Struct, frozen=True):
    """All of them."""

    llama_cpp: str
    """The binding that computed: its release names the source."""
    prefill: int
    """Positions of the first chunk that were compared."""
    decode: int
    """Positions after it, one by one."""
    models: tuple[ModelRecord, ...]


class Summary(msgspec.Struct, frozen=True):
    """One architecture: all its models together."""

    architecture: str
    models: int
    exact: int
    """Cuts that were exact."""
    refused: int
    wrong: int
    mechanisms: tuple[str, ...]
    rollback: str
    words: str
    """Why cuts are refused, if any are."""


@cache
def support_table() -> SupportTable:
    """The table that comes with this version."""
    text = files("meshllm_core.models").joinpath(FILE_NAME).read_bytes()
    return msgspec.json.decode(text, type=SupportTable)


def summaries(table: SupportTable) -> tuple[Summary, ...]:
    """One row for each architecture, by name."""
    by_name: dict[str, list[ModelRecord]] = {}
    for model in table.models:
        by_name.setdefault(model.architecture, []).append(model)
    return tuple(_summary(name, by_name[name]) for name in sorted(by_name))


def _summary(name: str, models: list[ModelRecord]) -> Summary:
    cuts = [cut for model in models for cut in model.cuts]
    results = [cut.result for cut in cuts]
    refusals = [model.refusal for model in models if model.refusal]
    words = refusals or [cut.words for cut in cuts if cut.words]
    return Summary(
        architecture=name,
        models=len(models),
        exact=results.count("exact"),
        refused=results.count("refused"),
        wrong=results.count("wrong"),
        mechanisms=tuple(dict.fromkeys(cut.mechanism for cut in cuts if cut.mechanism)),
        rollback=next((model.rollback for model in models if model.rollback), ""),
        words=words[0] if words else "",
    )
