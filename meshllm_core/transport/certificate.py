"""The certificate that a node shows in TLS: its key, signed by itself. Only the key in it means anything."""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId

# Fixed, and far apart: machines whose clocks are wrong still accept each other's certificates.
_NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(2120, 1, 1, tzinfo=UTC)

CERTIFICATE_BYTES = 1024
"""Largest certificate (DER) that is looked at; ours have about 320."""


def make_certificate(key: SigningKey) -> bytes:
    """The node's self-signed X.509 certificate (DER). The same key always gives the same bytes."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, key.public.hex())])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.private.public_key())
        .serial_number(1)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
    )
    return builder.sign(key.private, None).public_bytes(Encoding.DER)


def certificate_key(certificate: bytes) -> NodeId:
    """The Ed25519 key in a certificate (DER). That its owner is there is for the handshake to prove.

    Raises ProofInvalid with reason "certificate".
    """
    if len(certificate) > CERTIFICATE_BYTES:
        raise ProofInvalid(
            f"A certificate of {len(certificate)} bytes; the limit is {CERTIFICATE_BYTES}.",
            reason="certificate",
        )
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ProofInvalid(f"A certificate that cannot be read: {error}.", reason="certificate") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ProofInvalid("A certificate whose key is not an Ed25519 key.", reason="certificate")
    return NodeId(key.public_bytes_raw())
