"""Where a model may be cut, and what the stage between two cuts looks like. Pure.

What is not in the table is refused by name; a cut that would be wrong is refused with the nearest one that
is right. A stage that needs its neighbours gets them as layers of zeros, and says how many.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Literal

import msgspec

from meshllm_core.errors import CutRefused
from meshllm_core.models.architectures import BINDING, HYBRID, KNOWN, RECURRENT
from meshllm_core.models.ggml_types import UNPACKED
from meshllm_core.models.keys import MAX_LAYERS
from meshllm_core.models.layers import recurrent_layers, windowed_layers
from meshllm_core.models.stage_source import StageSource
from meshllm_core.models.stage_table import RULES, SNAPSHOTS, Rule, Tokens

MAX_STREAMS = 64
"""Hidden vectors in a row at most; four are known."""

Mechanism = Literal["file", "hook", "pad", "tokens"]
"""file: keys and tensors rewritten only. hook: a tensor is overwritten. pad: layers of zeros around.
tokens: the token ids travel with the rows."""


class StageShape(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: the layers it computes, and how rows get in and out. It is stored in the stage's file."""

    architecture: str
    layers: int
    """Of the whole model."""
    start: int
    end: int
    """Layers [start, end) are computed."""
    window_start: int
    window_end: int
    """Layers [window_start, window_end) are in the file; those outside [start, end) are zeros."""
    width: int
    """Elements of a hidden vector."""
    streams: int = 1
    """Hidden vectors in a row: a row has width × streams elements."""
    streams_outside: bool = False
    tokens: Tokens = "true"
    hook: str = ""
    """Tensor that is overwritten with the rows; empty: they, or the tokens, are llama.cpp's input."""
    restore: str = ""
    leaves: str = ""
    """Tensor that holds the rows for the next stage; empty: this is the last stage."""
    rollback: bool = True
    """Whether positions can be taken back one by one. If not, a sequence stays with its stage."""
    looked_up: bool = False
    """Whether the first stage gets rows of the token embedding instead of tokens: its file then holds no
    vocabulary, and hands out nothing as wide as one."""
    snapshots: bool = False
    """Whether the tail of the last batch can be taken back although `rollback` is False."""

    @property
    def possible(self) -> bool:
        """Whether its numbers fit each other."""
        window = 0 <= self.window_start <= self.start < self.end <= self.window_end <= self.layers
        return window and self.layers <= MAX_LAYERS and self.width > 0 and 0 < self.streams <= MAX_STREAMS

    @property
    def first(self) -> bool:
        """Whether it begins with tokens."""
        return self.start == 0

    @property
    def last(self) -> bool:
        """Whether it ends with logits."""
        return self.end == self.layers

    @property
    def padding(self) -> int:
        """Layers of zeros: they cost KV cache, and those in front compute time."""
        return self.window_end - self.window_start - (self.end - self.start)

    @property
    def sideband(self) -> bool:
        """Whether the ids of the tokens must come with the rows."""
        return not self.first and self.tokens == "true"

    @property
    def mechanism(self) -> Mechanism:
        """The most demanding of the means that this stage needs."""
        if self.sideband:
            return "tokens"
        if self.padding:
            return "pad"
        return "hook" if self.hook else "file"


class StageRules:
    """What the table says of one model."""

    def __init__(self, source: StageSource) -> None:
        """Raises CutRefused when the architecture is not in the table, or is known to be indivisible."""
        self.source = source
        self.architecture = source.architecture
        self.layers = source.layers
        known = RULES.get(self.architecture)
        reason = known.refusal if known else _unknown(self.architecture)
        if known is None or reason or (reason := self._indivisible()):
            raise CutRefused(
                f"{source.name} ({self.architecture}) cannot be divided into stages: {reason}.",
                hint="Load it whole, on one machine that has the memory.",
            )
        self.rule = self._adapted(known)
        self.rollback = self.architecture not in RECURRENT | HYBRID

    @cached_property
    def forbidden_cuts(self) -> dict[int, str]:
        """Cut -> why not. A cut c parts the layers [0, c) from [c, layers)."""
        found = {cut: self._forbidden(cut) for cut in range(1, self.layers)}
        return {cut: reason for cut, reason in found.items() if reason}

    @property
    def legal_cuts(self) -> tuple[int, ...]:
        """All cuts that are allowed, by themselves and with each other."""
        return tuple(cut for cut in range(1, self.layers) if cut not in self.forbidden_cuts)

    @property
    def sideband(self) -> bool:
        """Whether token ids travel with the rows."""
        return self.rule.tokens == "true"

    @property
    def lookup_scale(self) -> float | None:
        """What llama.cpp multiplies the embeddings of tokens by, and rows that come in not; None where
        tokens do more than to choose a row, or rows cannot be unpacked here: only tokens will do then."""
        table = self.source.tensors.get("token_embd.weight")
        if self.rule.tokens != "rows" or (table and table.tensor.type.name not in UNPACKED):
            return None
        return self.source.width**0.5 if self.architecture in ("gemma3", "gemma4") else 1.0

    def shape(self, start: int, end: int) -> StageShape:
        """The stage of layers [start, end). Raises CutRefused naming the nearest legal cut."""
        if not 0 <= start < end <= self.layers:
            raise CutRefused(
                f"{self.source.name} has {self.layers} layers: there is no stage [{start}, {end}).",
                hint=f"A stage begins at 0 or later, ends at {self.layers} or before, and holds a layer.",
            )
        for cut in (start, end):
            if cut in self.forbidden_cuts:
                raise self._refused(cut)
        first, last = self._window(start, end)
        rule, enters = self.rule, start > 0
        looked_up = not enters and end < self.layers and self.lookup_scale is not None
        leaves = "" if end == self.layers else self._leaves(end - 1 - first, last - first)
        front = start - first
        return StageShape(
            architecture=self.architecture,
            layers=self.layers,
            start=start,
            end=end,
            window_start=first,
            window_end=last,
            width=self.source.width,
            streams=rule.streams,
            streams_outside=rule.streams_outside,
            tokens=rule.tokens if enters else "rows" if looked_up else "true",
            hook="" if not enters else self._leaves(front - 1, last - first) if front else rule.hook,
            restore="" if not enters or front else rule.restore,
            leaves=leaves,
            rollback=self.rollback,
            looked_up=looked_up,
            snapshots=self.architecture in SNAPSHOTS,
        )

    def boundary(self, layer: int) -> str:
        """Name of the tensor, in the undivided model's graph, with the rows that enter `layer`, not 0."""
        return self._leaves(layer - 1, self.layers)

    def _leaves(self, layer: int, count: int) -> str:
        """Name of the tensor with a local layer's result, in a window of `count` layers."""
        rule = self.rule
        name = rule.leaves_last if rule.leaves_last and layer == count - 1 else rule.leaves
        return name.format(layer=layer, next=layer + 1)

    # What the file says beyond the architecture ---------------------------------------------

    def _indivisible(self) -> str:
        keys = self.source.keys
        if self.architecture == "nanbeige" and keys.number("num_loops", 1) > 1:
            return RULES["hrm_text"].refusal
        if self.architecture == "llama4" and keys.number("attention.sliding_window", 1) == 0:
            return "without its sliding window llama.cpp itself fails on it"
        return ""

    def _adapted(self, rule: Rule) -> Rule:
        """The row of the table with what the file's own keys change."""
        keys = self.source.keys
        if self.architecture == "gemma4" and keys.number("embedding_length_per_layer_input", 0):
            return replace(rule, hook="inp_scaled", tokens="true", restore="pe_in-0")
        if self.architecture in ("glm4", "glm4moe") and keys.present("rope.dimension_sections"):
            return replace(rule, hook="", tokens="rows")
        if self.architecture == "deepseek4" and keys.number("hash_layer_count", 0):
            return replace(rule, tokens="true")
        if self.architecture == "deepseek2":
            also = frozenset((48,)) if self.source.vocabulary == 128256 else frozenset[int]()
            return replace(rule, bad_lengths=frozenset[int]() if self.lite else rule.bad_lengths | also)
        return rule

    @property
    def lite(self) -> bool:
        """Whether llama.cpp takes the model for a DeepSeek-V2 Lite, by its size alone."""
        size = (self.layers, self.source.vocabulary)
        return self.architecture == "deepseek2" and (size[0] in (26, 27) or size == (48, 128256))

    @cached_property
    def shared_from(self) -> int:
        """First layer that uses another's KV cache; `layers` when none does."""
        if self.architecture != "gemma4":
            return self.layers
        return self.layers - self.source.keys.number("attention.shared_kv_layers", 0, most=self.layers)

    @cached_property
    def windowed(self) -> tuple[bool, ...]:
        """For each layer whether it keeps only a sliding window."""
        return windowed_layers(self.source.keys, self.architecture, self.layers)

    @cached_property
    def recurrent(self) -> tuple[bool, ...]:
        """For each layer whether it keeps a recurrent state."""
        return recurrent_layers(self.source.keys, self.architecture, self.layers, self._kv_heads)

    @cached_property
    def _kv_heads(self) -> tuple[int, ...]:
        keys = self.source.keys
        heads = keys.per_layer("attention.head_count", self.layers, (0,) * self.layers)
        return keys.per_layer("attention.head_count_kv", self.layers, heads)

    # Cuts and windows -----------------------------------------------------------------------

    def _forbidden(self, cut: int) -> str:
        rule = self.rule
        if rule.last_start and cut > rule.last_start:
            return f"the layers behind {rule.last_start} share the KV cache of those before"
        if self.shared_from < self.layers and cut > self.shared_from - 2:
            return f"the layers from {self.shared_from} on use the KV cache of the two before them"
        if rule.starts and not self._starts(rule.starts, cut):
            return f"layer {cut} uses what layer {cut - 1} selected, which does not travel along"
        return ""

    def _starts(self, key: str, layer: int) -> bool:
        types = self.source.keys.flags(key, self.layers)
        return types is not None and types[layer]

    def _refused(self, cut: int) -> CutRefused:
        near = min(self.legal_cuts, key=lambda legal: abs(legal - cut), default=0)
        return CutRefused(
            f"{self.source.name} ({self.architecture}) cannot be cut at layer {cut}: "
            f"{self.forbidden_cuts[cut]}.",
            hint=f"The nearest cut that is exact is {near}." if near else "Load it whole, on one machine.",
        )

    def _window(self, start: int, end: int) -> tuple[int, int]:
        """The smallest window around a stage that satisfies the rule; layers behind are cheaper."""
        rule = self.rule
        if self.architecture == "gemma3n":
            return 0, end
        if rule.whole or self.layers in rule.whole_at:
            return 0, self.layers
        limit = self.layers if end > self.shared_from or end == self.layers else self.shared_from
        for extra in range(self.layers - (end - start) + 1):
            for front in range(extra + 1):
                first, last = start - front, end + extra - front
                if first >= 0 and last <= limit and all(fits(first, last) for fits in self._demands):
                    return first, last
        raise CutRefused(
            f"{self.source.name} ({self.architecture}) has no exact stage [{start}, {end}).",
            hint="Give the stage more layers.",
        )

    @cached_property
    def _demands(self) -> tuple[Callable[[int, int], bool], ...]:
        """What (first, last) of a window must satisfy."""
        rule, keys = self.rule, self.source.keys
        period = max(1, keys.number(rule.period_key, 0)) if rule.period_key else rule.period
        found: list[Callable[[int, int], bool]] = [
            lambda first, last: first % period == 0,
            lambda first, last: rule.shortest <= last - first and last - first not in rule.bad_lengths,
        ]
        if any(self.windowed):
            found.append(lambda first, last: any(self.windowed[first:last]))
        if rule.mixed and any(self.recurrent):
            attention = [not r and h > 0 for r, h in zip(self.recurrent, self._kv_heads, strict=True)]
            found.append(lambda first, last: any(self.recurrent[first:last]) and any(attention[first:last]))
        if rule.beyond_dense:
            lead = keys.number("leading_dense_block_count", 0)
            found.append(lambda first, last: last > lead)
        if rule.every_ratio:
            ratios = keys.per_layer("attention.compress_ratios", self.layers, (0,) * self.layers)
            found.append(lambda first, last: set(ratios) - {0} <= set(ratios[first:last]))
        if self.architecture == "llama4":
            # It looks for the layers without rotary positions, each fourth one, and needs to find one.
            found.append(lambda first, last: any(layer % 4 == 3 for layer in range(first, last)))
        return tuple(found)


def _unknown(architecture: str) -> str:
    if architecture in KNOWN:
        return f"no cut of this architecture has been proved with {BINDING}"
    return f"{BINDING} does not know this architecture"


def leaves_last(architecture: str, layers: int) -> str:
    """Name of the tensor with the rows that leave the last of a file's `layers` layers, before the head."""
    rule = RULES[architecture]
    return (rule.leaves_last or rule.leaves).format(layer=layers - 1, next=layers)
