"""Which number format may carry a model's rows between its stages: asked before anything is loaded."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshllm_core.certify.gate import Artifact, Ruling, allowed, cheapest_exact
from meshllm_core.certify.priors import reviewed
from meshllm_core.certify.record import Certified
from meshllm_core.certify.verdict import judge
from meshllm_core.ids import NodeId, short
from meshllm_core.models.cache import Cache
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.believed import Known, known_records
from meshllm_core.node.split_model import DivisibleModel, artifact_of_files
from meshllm_core.paths import Paths
from meshllm_core.planner.wire import Wire
from meshllm_core.wire.codecs import Dtype, dtype_named

_LOSSLESS = "f32, which changes nothing"
HASHED_TO_SHOW = 2 << 30
"""Bytes of a model that are hashed only to say what others measured of it: a moment's work."""
SHOWN = 3
"""Measurements of others that one sentence tells."""


@dataclass
class Gate:
    """For one model. Its identity is asked for, and a file hashed, only when a format is wanted that is not
    exact by itself, or when others measured some for just these cuts."""

    paths: Paths
    model: ResolvedModel | DivisibleModel
    requested: str
    """auto, or a format's label."""
    backend: str
    """Of the machines that may take part: what was measured on other devices says nothing."""
    me: NodeId
    """Measurements that this node signed are believed, wherever they were kept, and those of nodes of its
    owner; no others."""
    names: Mapping[NodeId, str] = field(default_factory=dict)
    """What nodes are called, for a person; cleaned."""
    _records: Known | None = field(default=None)
    _artifact: Artifact | None = field(default=None)
    _by_cuts: dict[tuple[int, ...], list[Certified]] | None = field(default=None)

    def wire(self, cuts: Sequence[int]) -> Wire | str:
        """The format for these cuts, or a sentence why the one that was asked for may not be used."""
        if self.requested == "f32":
            return Wire("f32", "exact", _LOSSLESS)
        known = self._known()
        if self.requested == "auto" and not known.believed:
            told = self._told(cuts, tuple(Dtype))
            return Wire("f32", "exact", f"{_LOSSLESS}; no smaller format is certified{told and f'. {told}'}")
        artifact = self._named()
        if self.requested == "auto":
            width = self.model.facts.width
            ruling, passed = cheapest_exact(artifact, cuts, width, self.backend, known.believed, reviewed())
            return _wire(self._signed(ruling, cuts, tuple(one.codec for one in passed)))
        codec = dtype_named(self.requested)
        ruling = allowed(artifact, cuts, codec, self.backend, known.believed, reviewed())
        ruling = self._signed(ruling, cuts, (codec,))
        return _wire(ruling) if ruling.allowed else ruling.words

    def _known(self) -> Known:
        if self._records is None:
            carried = self.model.certificates if isinstance(self.model, DivisibleModel) else ()
            self._records = known_records(self.paths, self.me, time.time(), carried)
        return self._records

    def _named(self) -> Artifact:
        if self._artifact is None:
            if isinstance(self.model, DivisibleModel):
                self._artifact = self.model.artifact()
            else:
                self._artifact = artifact_of_files(self.model, Cache(self.paths.models))
        return self._artifact

    # What others measured -----------------------------------------------------------------------------

    def _signed(self, ruling: Ruling, cuts: Sequence[int], codecs: Sequence[Dtype]) -> Ruling:
        """The same ruling; its words say who else measured: it where that decided, or `codecs` where not."""
        if ruling.signer is None:
            told = self._told(cuts, codecs)
        elif ruling.signer == self.me:
            told = ""
        else:
            told = f"It was measured by {self._name(ruling.signer)}, a node of your owner."
        return replace(ruling, words=f"{ruling.words} {told}".rstrip())

    def _told(self, cuts: Sequence[int], codecs: Sequence[Dtype]) -> str:
        """What strangers measured of `codecs` for this very artifact; nothing is decided by it."""
        known = self._strangers()
        near = [one for one in known.get(tuple(cuts), ()) if one.certificate.codec in codecs]
        if not near or not self._cheap_to_name():
            return ""
        digest = self._named().sha256
        newest: dict[tuple[NodeId, Dtype], Certified] = {}
        for record in sorted(near, key=lambda one: one.certificate.at):
            if record.certificate.artifact == digest:
                newest[record.signer, record.certificate.codec] = record
        said = [
            f"{codec.label} is {judge(record.certificate.figures)}, measured by {self._name(signer)} "
            "(not trusted here)"
            for (signer, codec), record in newest.items()
        ]
        more = f"; {len(said) - SHOWN} more" if len(said) > SHOWN else ""
        return f"{'; '.join(said[:SHOWN])}{more}." if said else ""

    def _strangers(self) -> Mapping[tuple[int, ...], Sequence[Certified]]:
        """Theirs for this backend, by cuts: a planner asks for many."""
        if self._by_cuts is None:
            self._by_cuts = {}
            for record in self._known().strangers:
                if record.certificate.backend == self.backend:
                    self._by_cuts.setdefault(record.certificate.cuts, []).append(record)
        return self._by_cuts

    def _name(self, node: NodeId) -> str:
        return self.names.get(node) or f"node {short(node)}"

    def _cheap_to_name(self) -> bool:
        """Others must not make this node read a large file for nothing."""
        packaged = isinstance(self.model, DivisibleModel) and bool(self.model.package)
        return self._artifact is not None or packaged or self.model.facts.file_bytes <= HASHED_TO_SHOW


def _wire(ruling: Ruling) -> Wire:
    return Wire(ruling.codec.label, str(ruling.verdict), f"{ruling.codec.label}: {ruling.words}")
