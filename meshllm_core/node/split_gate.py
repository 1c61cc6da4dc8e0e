"""Which number format may carry a model's rows between its stages: asked before anything is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meshllm_core.certify.gate import Artifact, Ruling, allowed, cheapest_exact
from meshllm_core.certify.priors import reviewed
from meshllm_core.certify.record import Certified
from meshllm_core.ids import NodeId
from meshllm_core.models.cache import Cache
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.split_model import DivisibleModel, artifact_of_files
from meshllm_core.paths import Paths
from meshllm_core.planner.wire import Wire
from meshllm_core.wire.codecs import dtype_named


@dataclass
class Gate:
    """For one model. Its identity is asked for, and a file hashed, only when a format is wanted that is not
    exact by itself."""

    paths: Paths
    model: ResolvedModel | DivisibleModel
    requested: str
    """auto, or a format's label."""
    backend: str
    """Of the machines that may take part: what was measured on other devices says nothing."""
    me: NodeId
    """Measurements that this node signed are believed, wherever they were kept; no others."""
    _records: tuple[Certified, ...] | None = field(default=None)
    _artifact: Artifact | None = field(default=None)

    def wire(self, cuts: Sequence[int]) -> Wire | str:
        """The format for these cuts, or a sentence why the one that was asked for may not be used."""
        records = self._known()
        if self.requested == "f32":
            return Wire("f32", "exact", "f32, which changes nothing")
        if self.requested == "auto" and not records:
            return Wire("f32", "exact", "f32, which changes nothing; no smaller format is certified")
        if self._artifact is None:
            self._artifact = self._named()
        artifact = self._artifact
        if self.requested == "auto":
            width = self.model.facts.width
            ruling, _ = cheapest_exact(artifact, cuts, width, self.backend, records, reviewed())
            return _wire(ruling)
        ruling = allowed(artifact, cuts, dtype_named(self.requested), self.backend, records, reviewed())
        return _wire(ruling) if ruling.allowed else ruling.words

    def _known(self) -> tuple[Certified, ...]:
        if self._records is None:
            found = CertificateStore(self.paths.certificates).load()
            carried = self.model.certificates if isinstance(self.model, DivisibleModel) else ()
            self._records = tuple(record for record in (*found, *carried) if record.signer == self.me)
        return self._records

    def _named(self) -> Artifact:
        if isinstance(self.model, DivisibleModel):
            return self.model.artifact()
        return artifact_of_files(self.model, Cache(self.paths.models))


def _wire(ruling: Ruling) -> Wire:
    return Wire(ruling.codec.label, str(ruling.verdict), f"{ruling.codec.label}: {ruling.words}")
