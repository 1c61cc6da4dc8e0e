"""A node's certificate: self-signed, and the same bytes every time, so that a peer can pin it."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId

CERTIFICATE_BYTES = 1024
"""More than a certificate of ours ever has; longer ones are not looked at."""

_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


def make_certificate(key: SigningKey) -> bytes:
    """The certificate of `key` (DER).

    Its dates say nothing: what a peer checks is the key, so that a wrong clock refuses nobody.
    """
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, key.public.hex())])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.private.public_key())
        .serial_number(1)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
    )
    return builder.sign(key.private, None).public_bytes(Encoding.DER)


def certificate_node(certificate: bytes) -> NodeId:
    """Whose certificate (DER) it is. That the sender holds the key is for the handshake to prove.

    Raises ProofInvalid with reason `certificate` for bytes that are no certificate of an Ed25519 key.
    """
    try:
        if len(certificate) > CERTIFICATE_BYTES:
            raise ValueError(f"{len(certificate)} bytes")
        public = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError as error:
        raise ProofInvalid(f"A certificate that cannot be read: {error}.", reason="certificate") from None
    if not isinstance(public, Ed25519PublicKey):
        raise ProofInvalid("A certificate of another kind of key.", reason="certificate")
    return NodeId(public.public_bytes_raw())
