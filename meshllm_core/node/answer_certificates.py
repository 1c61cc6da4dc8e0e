"""What is known of codecs here: signed measurements on this disk, and records that others reviewed."""

import asyncio
import time
from collections.abc import Mapping

from meshllm_core.api.schema_certify import (
    MEASURED_SHOWN,
    Certificates,
    CertificatesArguments,
    MeasuredRow,
    ReviewedRow,
)
from meshllm_core.certify.priors import reviewed
from meshllm_core.certify.record import Certified
from meshllm_core.certify.verdict import judge, reason
from meshllm_core.ids import NodeId, short
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.node.answers import NodeParts
from meshllm_core.node.believed import known_records
from meshllm_core.paths import Paths


async def certificates(parts: NodeParts, _: CertificatesArguments) -> Certificates:
    """All of them, the newest first, after a look at what others announce. Raises StorageError."""
    await parts.mesh.exchange.gather()
    snapshot = parts.store.snapshot
    names = {peer.node: peer.name for peer in snapshot.peers}
    return await asyncio.to_thread(list_certificates, parts.paths, snapshot.node, names)


def list_certificates(paths: Paths, me: str, people: Mapping[str, str]) -> Certificates:
    """The answer; `me` is this node's id, hexadecimal, and `people` are names by such ids. Blocks.

    Raises StorageError.
    """
    store = CertificateStore(paths.certificates)
    known, names = known_records(paths, NodeId(bytes.fromhex(me)), time.time()), store.names()
    everything = (*known.own, *known.kin, *known.strangers)
    # What strangers give never pushes out what decides.
    shown = sorted(known.believed, key=_newest)[:MEASURED_SHOWN]
    shown += sorted(known.strangers, key=_newest)[: MEASURED_SHOWN - len(shown)]
    kin = {record.signer for record in known.kin}
    return Certificates(
        measured=tuple(_measured(record, names, me, kin, people) for record in sorted(shown, key=_newest)),
        left_out=len(everything) - len(shown),
        reviewed=tuple(
            ReviewedRow(model=one.model, family=one.family, wire=one.wire, q8=one.q8)
            for one in reviewed().values()
        ),
        folder=str(store.folder),
    )


def _newest(record: Certified) -> float:
    return -record.certificate.at


def _by(signer: NodeId, own: bool, same_owner: bool, people: Mapping[str, str]) -> str:
    if own:
        return "measured by this node"
    who = people.get(signer.hex()) or f"node {short(signer)}"
    return (
        f"measured by {who}, a node of your owner" if same_owner else f"measured by {who} (not trusted here)"
    )


def _measured(
    record: Certified, names: Mapping[bytes, str], me: str, kin: set[NodeId], people: Mapping[str, str]
) -> MeasuredRow:
    own, same_owner = record.signer.hex() == me, record.signer in kin
    one = record.certificate
    figures, made = one.figures, one.conditions
    return MeasuredRow(
        artifact=one.artifact.hex(),
        name=names.get(one.artifact, ""),
        cuts=one.cuts,
        codec=one.codec.label,
        backend=one.backend,
        verdict=judge(figures).value,
        reason=reason(figures),
        positions=figures.positions,
        agreed=figures.agreed,
        mean_kl=figures.mean_kl,
        max_kl=figures.max_kl,
        floor_agreed=figures.floor_agreed,
        floor_mean_kl=figures.floor_mean_kl,
        floor_seeds=figures.floor_seeds,
        shortfall=figures.shortfall,
        noise=made.noise,
        signer=record.signer.hex(),
        own=own,
        same_owner=same_owner,
        measured_by=_by(record.signer, own, same_owner, people),
        at=one.at,
        meshllm=made.meshllm,
        llama_cpp=made.llama_cpp,
        device=made.device,
        threads=made.threads,
        kv_type=made.kv_type,
        answer_tokens=made.answer_tokens,
    )
