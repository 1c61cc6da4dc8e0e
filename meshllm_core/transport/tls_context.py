"""TLS contexts of the side channel: no authorities, only keys that were proved over QUIC before."""

import base64
import contextlib
import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.certificate import certificate_key

_SUFFIX = ".mesh"

Choose = Callable[[str], ssl.SSLContext | None]
"""The context that admits the peer of a server name; None for a name nobody has."""


def server_name(node: NodeId) -> str:
    """How a node names itself when it dials, so that the other side looks for this node's certificate."""
    return base64.b32encode(node).decode().rstrip("=").lower() + _SUFFIX


def dialling_context(key: SigningKey, certificate: bytes) -> ssl.SSLContext:
    """For connections that this node opens. The server's key is compared after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _prepared(context, key, certificate)


def listening_context(key: SigningKey, certificate: bytes, choose: Choose) -> ssl.SSLContext:
    """For the listener. It trusts nobody itself: `choose` says by the server name whose context goes on."""
    context = _server_context(key, certificate)

    def named(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        chosen = choose(name or "")
        if chosen is None:
            return int(ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)
        connection.context = chosen
        return None

    context.sni_callback = named
    return context


def peer_context(key: SigningKey, certificate: bytes, peer_certificate: bytes) -> ssl.SSLContext:
    """For the connections of one peer: its certificate (DER) is the only one that is taken."""
    context = _server_context(key, certificate)
    context.load_verify_locations(cadata=peer_certificate)
    return context


def _server_context(key: SigningKey, certificate: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session would skip the certificates.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return _prepared(context, key, certificate)


def _prepared(context: ssl.SSLContext, key: SigningKey, certificate: bytes) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    chain = ssl.DER_cert_to_PEM_cert(certificate).encode()
    password = ""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), _in_memory(_pem(key, NoEncryption()) + chain) as path:
            context.load_cert_chain(path)
            return context
    password = secrets.token_hex(16)
    with _on_disk(_pem(key, BestAvailableEncryption(password.encode())) + chain) as path:
        context.load_cert_chain(path, password=password)
    return context


def _pem(key: SigningKey, encryption: KeySerializationEncryption) -> bytes:
    return key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[Path]:
    """A file that only this process sees. OpenSSL takes keys from files alone."""
    if sys.platform != "linux":
        raise OSError("only Linux has such files")
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _on_disk(content: bytes) -> Iterator[Path]:
    """A file only this user can read, gone at once; the key in it is encrypted."""
    descriptor, name = tempfile.mkstemp()
    try:
        os.write(descriptor, content)
        os.close(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink()


class Trust:
    """This node's key, and the peers whose certificates it takes. Read by several threads, changed by one."""

    def __init__(self, key: SigningKey, certificate: bytes) -> None:
        self.name = server_name(key.public)
        self.dialling = dialling_context(key, certificate)
        self.listening = listening_context(key, certificate, self._choose)
        self._key, self._certificate = key, certificate
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._peers: dict[bytes, NodeId] = {}

    def allow(self, peer: NodeId, certificate: bytes) -> bool:
        """Takes connections of `peer`. True when it had another certificate before. Raises ProofInvalid."""
        if self._peers.get(certificate) == peer:
            return False
        if certificate_key(certificate) != peer:
            raise ProofInvalid(f"The certificate is not node {short(peer)}'s.", reason="wrong key")
        changed = self.forbid(peer)
        self._contexts[server_name(peer)] = peer_context(self._key, self._certificate, certificate)
        self._peers[certificate] = peer
        return changed

    def forbid(self, peer: NodeId) -> bool:
        """Takes no connections of `peer` any more. Whether it did."""
        for certificate in [known for known, owner in self._peers.items() if owner == peer]:
            del self._peers[certificate]
        return self._contexts.pop(server_name(peer), None) is not None

    def owner(self, certificate: bytes | None) -> NodeId | None:
        """The allowed peer of a certificate that a handshake has proved."""
        return self._peers.get(certificate or b"")

    def _choose(self, name: str) -> ssl.SSLContext | None:
        return self._contexts.get(name)
