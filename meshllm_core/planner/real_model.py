"""A real model as the planner sees it: bytes by layer, and the ranges that give the model's own answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from meshllm_core.errors import CutRefused
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import StageSource
from meshllm_core.planner.memory import Window, Windows, every_range
from meshllm_core.planner.model import Readers, SplitModel, from_tensors


@dataclass(frozen=True)
class PlannedModel:
    """A model with where it may be cut."""

    model: SplitModel
    windows: Windows
    indivisible: str
    """Why it cannot be cut at all; empty if it can."""


def planned_model(
    facts: GgufFacts,
    source: StageSource,
    *,
    tensors: Iterable[tuple[str, int]] | None = None,
    fingerprint: str = "",
) -> PlannedModel:
    """A real model in the planner's terms. Raises ModelFileInvalid.

    `tensors` (name, bytes) and `fingerprint` where `source` is only a part of the model: a package has both
    in its manifest.
    """
    indivisible, streams = "", 1
    windows: Windows = every_range
    readers: Readers = "none"
    try:
        rules = StageRules(source)
        windows, streams = _windows_of(rules), rules.rule.streams
        if rules.lookup_scale is None:
            readers = "every" if rules.sideband else "first"
    except CutRefused as error:
        indivisible = error.message.rstrip(".")
    experts = source.keys.number("expert_count", 0)
    used = source.keys.number("expert_used_count", 0)
    model = from_tensors(
        facts,
        tensors or ((name, found.tensor.nbytes) for name, found in source.tensors.items()),
        fingerprint=fingerprint or _fingerprint(source),
        trunk=source.layers,
        experts_used=min(1.0, used / experts) if experts and used else 1.0,
        streams=streams,
        readers=readers,
    )
    return PlannedModel(model, windows, indivisible)


def _windows_of(rules: StageRules) -> Windows:
    def window(first: int, end: int) -> Window | None:
        try:
            shape = rules.shape(first, end)
        except CutRefused:
            return None
        return shape.window_start, shape.window_end

    return window


def _fingerprint(source: StageSource) -> str:
    """SHA-256 over the beginning of each file up to its first weight: key/values and tensor table."""
    digest = sha256()
    for file in source.files:
        begin = min((t.offset for t in source.tensors.values() if t.file is file), default=0)
        digest.update(file.read(0, begin))
    return digest.hexdigest()
