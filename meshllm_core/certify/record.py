"""Certificates of codecs: the figures of a measurement with all that it takes to repeat it, signed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from meshllm_core.certify.verdict import Figures
from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal, unseal
from meshllm_core.ids import NodeId
from meshllm_core.wire import limits
from meshllm_core.wire.codecs import Dtype

PURPOSE = "certificate of codec"

Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Text = Annotated[str, msgspec.Meta(max_length=64)]
Cut = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


class Conditions(msgspec.Struct, frozen=True, array_like=True):
    """How it was measured: with the same values, the same figures come out on the same backend."""

    meshllm: Text
    llama_cpp: Text
    """Version of llama-cpp-python; it names the source of llama.cpp."""
    device: Text
    threads: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    kv_type: Text
    flash_attention: Text
    prompts: Digest
    """SHA-256 of the prompts' texts."""
    answer_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    """Tokens of the unsplit model's greedy answer to each prompt, at most."""
    noise: Annotated[float, msgspec.Meta(ge=0, le=1)]
    seeds: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=1 << 62)], ...], msgspec.Meta(max_length=64)]


class CodecCertificate(msgspec.Struct, frozen=True, array_like=True):
    """One codec, for one artifact, cut at these layers, on one backend. The figures give the verdict."""

    artifact: Digest
    """SHA-256 of the model's file, or of its files' hashes."""
    cuts: Annotated[tuple[Cut, ...], msgspec.Meta(min_length=1, max_length=64)]
    """First layers of the stages after the first, in order."""
    codec: Dtype
    backend: Text
    """See `backend_of`."""
    figures: Figures
    conditions: Conditions
    at: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    """When, by the measuring node's clock, in seconds since the epoch."""
    revision: Literal[1] = 1
    """Of the codecs' formats: a codec that is changed has to be measured again."""


@dataclass(frozen=True)
class Certified:
    """A certificate whose signature holds."""

    signer: NodeId
    certificate: CodecCertificate


def artifact_digest(hashes: Sequence[bytes]) -> bytes:
    """What names a model: its file's SHA-256; of a split set, the SHA-256 of the hashes in order."""
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(b"".join(hashes)).digest()


def backend_of(kinds: tuple[str, ...]) -> str:
    """The backend of a chain: the kinds of its stages' devices, each once, in order of the alphabet."""
    return "+".join(sorted(set(kinds)))


def seal_certificate(key: SigningKey, certificate: CodecCertificate) -> bytes:
    """The certificate, signed, as it is stored and passed on."""
    return seal(key, PURPOSE, certificate)


def open_certificate(raw: bytes) -> Certified:
    """Checks and reads. Whether the signer is to be believed is for the caller. Raises ProofInvalid."""
    signer, certificate = unseal(raw, PURPOSE, CodecCertificate, limit=limits.RECORD)
    figures, cuts = certificate.figures, certificate.cuts
    if figures.agreed > figures.positions or figures.floor_agreed > figures.positions:
        raise ProofInvalid("A certificate of a codec counts more agreement than positions.", reason="format")
    if list(cuts) != sorted(set(cuts)):
        raise ProofInvalid("A certificate of a codec whose cuts are not in order.", reason="format")
    if len(set(certificate.conditions.seeds)) != figures.floor_seeds:
        raise ProofInvalid(
            "A certificate of a codec whose noise seeds are not those it counts.", reason="format"
        )
    return Certified(signer, certificate)
