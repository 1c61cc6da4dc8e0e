"""The gate before a split is loaded: may this codec carry this artifact's rows, and why, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from meshllm_core.certify.priors import Priors
from meshllm_core.certify.record import Certified, CodecCertificate
from meshllm_core.certify.verdict import Verdict, judge, reason
from meshllm_core.ids import NodeId, short
from meshllm_core.wire.codecs import CODECS, Dtype

_WORST_FIRST = (Verdict.REJECTED, Verdict.VALIDATED, Verdict.EXACT)
_HINT = "Use `--wire-dtype f32`, or measure it: `meshllm certify`."


@dataclass(frozen=True)
class Artifact:
    """A model's files, by content."""

    sha256: bytes
    name: str = ""
    """owner/repo:QUANT where it came from the hub: reviewed records are found by it."""


@dataclass(frozen=True)
class Ruling:
    """The gate's answer."""

    codec: Dtype
    verdict: Verdict
    allowed: bool
    words: str
    """A sentence for whoever asked; shown wherever the plan is shown."""
    basis: Literal["construction", "measured", "reviewed", "nothing", "override"]
    signer: NodeId | None = None
    """Who measured, where that decided."""


def allowed(
    artifact: Artifact,
    cuts: Sequence[int],
    codec: Dtype,
    backend: str,
    records: Iterable[Certified],
    priors: Priors,
) -> Ruling:
    """Whether `codec` may be used. `records` are those of signers who are trusted, of any artifact.

    A measurement of exactly this artifact, these cuts, this codec and this backend decides; where trusted
    signers differ, the worst newest one. Without any: the reviewed record of this very artifact, for q8.
    """
    if codec is Dtype.F32:
        return Ruling(codec, Verdict.EXACT, True, "f32 carries every value as it is.", "construction")
    measured = _measured(artifact, tuple(cuts), codec, backend, records)
    if measured is not None:
        return _by_measurement(measured)
    prior = priors.get(artifact.name.lower()) if artifact.name else None
    if prior is not None and codec is Dtype.Q8 and prior.q8 != "untested":
        verdict = Verdict(prior.q8)
        if verdict is Verdict.VALIDATED:
            words = f"q8 was reviewed for {prior.model} and changed no token there; it was not measured here."
            return Ruling(codec, verdict, True, words, "reviewed")
        words = f"q8 was reviewed for {prior.model} and changed its tokens. {_HINT}"
        return Ruling(codec, verdict, False, words, "reviewed")
    at = ", ".join(str(cut) for cut in cuts)
    words = f"{codec.label} was not measured for this model cut at {at} on {backend}."
    if prior is not None and prior.wire == "f32":
        words += f" Its reviewers send {prior.model} as f32."
    return Ruling(codec, Verdict.UNTESTED, False, f"{words} {_HINT}", "nothing")


def overridden(ruling: Ruling) -> Ruling:
    """The same codec, allowed because the person insists; the words keep what speaks against it."""
    if ruling.allowed:
        return ruling
    return replace(
        ruling,
        allowed=True,
        words=f"{ruling.codec.label} was forced although it is {ruling.verdict}: answers may differ from "
        "those of the whole model.",
        basis="override",
    )


def cheapest_exact(
    artifact: Artifact,
    cuts: Sequence[int],
    width: int,
    backend: str,
    records: Iterable[Certified],
    priors: Priors,
) -> tuple[Ruling, tuple[Ruling, ...]]:
    """What `auto` uses: the fewest bytes per row of `width` values that are exact; and those passed over.

    Codecs that are only validated are used when somebody names them.
    """
    known = tuple(records)
    by_size = sorted(Dtype, key=lambda dtype: (CODECS[dtype].size_of(1, width), dtype))
    rulings = [allowed(artifact, cuts, codec, backend, known, priors) for codec in by_size]
    first = next(place for place, ruling in enumerate(rulings) if ruling.verdict is Verdict.EXACT)
    return rulings[first], tuple(rulings[:first])


def _measured(
    artifact: Artifact, cuts: tuple[int, ...], codec: Dtype, backend: str, records: Iterable[Certified]
) -> tuple[Verdict, Certified] | None:
    newest: dict[NodeId, Certified] = {}
    for record in records:
        if not _covers(record.certificate, artifact, cuts, codec, backend):
            continue
        if judge(record.certificate.figures) is Verdict.UNTESTED:
            continue
        other = newest.get(record.signer)
        if other is None or other.certificate.at < record.certificate.at:
            newest[record.signer] = record
    ruled = [(judge(record.certificate.figures), record) for record in newest.values()]
    return min(ruled, key=lambda one: _WORST_FIRST.index(one[0]), default=None)


def _covers(
    certificate: CodecCertificate, artifact: Artifact, cuts: tuple[int, ...], codec: Dtype, backend: str
) -> bool:
    return (
        certificate.artifact == artifact.sha256
        and certificate.cuts == cuts
        and certificate.codec is codec
        and certificate.backend == backend
    )


def _by_measurement(measured: tuple[Verdict, Certified]) -> Ruling:
    verdict, record = measured
    codec = record.certificate.codec
    words = (
        f"{codec.label} is {verdict} for this model and its cuts: {reason(record.certificate.figures)} "
        f"(node {short(record.signer)})."
    )
    fits = verdict in (Verdict.EXACT, Verdict.VALIDATED)
    return Ruling(codec, verdict, fits, words if fits else f"{words} {_HINT}", "measured", record.signer)
