"""A model in the planner's terms: what each layer weighs, what the two ends weigh, what it caches."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from meshllm_core.models.facts import GgufFacts

STUB_ROWS = 8
"""Rows of the zero embedding (and output) that stand in a stage which does not read out."""


Readers = Literal["none", "first", "every"]
"""Which stages before the last read tokens, and so hold the vocabulary; elsewhere rows are looked up."""


@dataclass(frozen=True)
class SplitModel:
    """A model that may be cut between layers. Sizes in bytes."""

    name: str
    facts: GgufFacts
    layer_bytes: tuple[int, ...]
    """One per layer that can be placed."""
    active_bytes: tuple[int, ...]
    """What one token reads of each layer: less than the layer where only some experts are used."""
    first_bytes: int
    """What the first stage keeps beside its layers: the vocabulary's tables, where it reads tokens itself."""
    last_bytes: int
    """The head over the vocabulary, kept by the last stage; the embedding table where both are one."""
    shared_bytes: int
    """Tensors of no layer that every stage keeps: norms, rope factors; the tables, where all read tokens."""
    stub_bytes: int
    """The stand-ins in a stage that does not read out."""
    row_width: int
    """Values of a hidden state that crosses: the width, times the residual streams."""
    fingerprint: str
    """SHA-256 (hex) of what describes the model; a topology lock is bound to it."""
    readers: Readers = "none"
    notes: tuple[str, ...] = ()
    """What had to be assumed, for a person."""

    @property
    def layers(self) -> int:
        """Layers that can be placed."""
        return len(self.layer_bytes)

    def reads(self, first: int) -> bool:
        """Whether a stage that begins with layer `first` reads tokens."""
        return self.readers == "every" or (self.readers == "first" and first == 0)

    def stage_facts(self, first: int, end: int, window: tuple[int, int] | None = None) -> GgufFacts:
        """The facts of the file that a stage with layers [first, end) loads.

        `window` are the layers in that file, where neighbours have to be there too as zeros of their size.
        """
        if (first, end) == (0, self.layers):
            return self.facts
        inside = slice(*(window or (first, end)))
        facts = self.facts
        weights = sum(self.layer_bytes[inside]) + self.shared_bytes
        weights += self.first_bytes if first == 0 else 0
        weights += self.last_bytes if end == self.layers else self.stub_bytes
        return replace(
            facts,
            layers=inside.stop - inside.start,
            heads=facts.heads[inside],
            kv_heads=facts.kv_heads[inside],
            caches=facts.caches[inside],
            vocabulary=facts.vocabulary if end == self.layers or self.reads(first) else STUB_ROWS,
            tensor_bytes=weights,
        )


def from_tensors(
    facts: GgufFacts,
    tensors: Iterable[tuple[str, int]],
    *,
    fingerprint: str,
    trunk: int = 0,
    experts_used: float = 1.0,
    streams: int = 1,
    readers: Readers = "none",
) -> SplitModel:
    """The model whose tensors (name, bytes) are listed.

    `trunk` is how many layers can be placed (0: all; extra blocks for predicting further tokens cannot),
    `experts_used` the share of the experts that one token uses, `streams` the residual streams,
    `readers` the stages that read tokens.
    """
    layers = trunk or facts.layers
    weights, active = [0] * layers, [0] * layers
    ends = {"token_embd.weight": 0, "output": 0}
    shared = 0
    for name, size in tensors:
        top, _, rest = name.partition(".")
        number = rest.partition(".")[0]
        if top == "blk" and number.isdecimal():
            if int(number) < layers:
                weights[int(number)] += size
                active[int(number)] += int(size * experts_used) if "_exps" in rest else size
        elif name == "token_embd.weight" or top == "output":
            ends["output" if top == "output" else name] += size
        else:
            shared += size
    table, output = ends["token_embd.weight"], ends["output"]
    # A stage that reads tokens without reading out holds both tables, the second as zeros.
    both = table + output
    return SplitModel(
        name=str(facts.model_id),
        facts=facts,
        layer_bytes=tuple(weights),
        active_bytes=tuple(active),
        first_bytes=both if readers == "first" else 0,
        last_bytes=0 if readers == "every" else output or table,
        shared_bytes=shared + (both if readers == "every" else 0),
        stub_bytes=STUB_ROWS * both // max(STUB_ROWS, facts.vocabulary),
        readers=readers,
        row_width=facts.width * streams,
        fingerprint=fingerprint,
    )
