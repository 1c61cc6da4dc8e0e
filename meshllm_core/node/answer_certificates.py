"""What is known of codecs here: signed measurements on this disk, and records that others reviewed."""

import asyncio
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
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.node.answers import NodeParts


async def certificates(parts: NodeParts, _: CertificatesArguments) -> Certificates:
    """All of them, the newest measurement first. Raises StorageError."""
    me = parts.store.snapshot.node
    return await asyncio.to_thread(list_certificates, CertificateStore(parts.paths.certificates), me)


def list_certificates(store: CertificateStore, me: str) -> Certificates:
    """The answer; `me` is this node's id, hexadecimal. Blocks. Raises StorageError."""
    known, names = store.load(), store.names()
    newest = sorted(known, key=lambda record: -record.certificate.at)[:MEASURED_SHOWN]
    return Certificates(
        measured=tuple(_measured(record, names, me) for record in newest),
        left_out=len(known) - len(newest),
        reviewed=tuple(
            ReviewedRow(model=one.model, family=one.family, wire=one.wire, q8=one.q8)
            for one in reviewed().values()
        ),
        folder=str(store.folder),
    )


def _measured(record: Certified, names: Mapping[bytes, str], me: str) -> MeasuredRow:
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
        own=record.signer.hex() == me,
        at=one.at,
        meshllm=made.meshllm,
        llama_cpp=made.llama_cpp,
        device=made.device,
        threads=made.threads,
        kv_type=made.kv_type,
        answer_tokens=made.answer_tokens,
    )
