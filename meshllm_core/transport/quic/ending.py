"""How a connection ended, in words, and as the error that a dial raises."""

from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import MeshNetworkError, PeerUnreachable, ProofInvalid
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.quic.private import IDLE_SECONDS, MeshConnection
from meshllm_core.wire.announcement import Address

REASON = 200
"""Bytes of a reason that is sent, characters of one that came."""
MALFORMED = 0xA
"""PROTOCOL_VIOLATION: also stands for what aioquic could not make sense of."""
REFUSED = 0x2
"""CONNECTION_REFUSED."""
_TLS = 0x100
_BAD_CERTIFICATE, _BAD_SIGNATURE, _NO_CERTIFICATE = _TLS + 42, _TLS + 51, _TLS + 116
_PROOF = {
    _BAD_CERTIFICATE: "certificate",
    _BAD_SIGNATURE: "wrong key",
    _NO_CERTIFICATE: "no certificate",
}


def words(code: int, by_application: bool, reason: str) -> str:
    """Why a link ended. What the peer wrote is cleaned and cut."""
    if reason == "Idle timeout":
        return f"No packet came for {IDLE_SECONDS:g} s."
    text = clean_text(reason, REASON)
    if text:
        return text
    return (
        "The link was closed." if by_application or not code else f"The link failed (QUIC error 0x{code:x})."
    )


def refusal(quic: MeshConnection, code: int, by_application: bool) -> str:
    """What this side counts the end as; empty when it was not this side that refused."""
    if quic.refusal:
        return quic.refusal
    if not quic.closed_here or by_application or code in (0, REFUSED):
        return ""
    return "wrong key" if code == _BAD_SIGNATURE else "malformed"


def dial_error(quic: MeshConnection, address: Address, code: int, why: str) -> MeshNetworkError:
    """What a dial raises that ended in this way."""
    peer = short(quic.expected or b"")
    if quic.refusal == "wrong key":
        return ProofInvalid(
            f"At {address} another node answers than {peer}: {why}.",
            reason="wrong key",
            hint="Its key was renewed, or another machine has its address now; ask for a new invite.",
        )
    if quic.refusal or code in _PROOF:
        kind = quic.refusal or _PROOF[code]
        return ProofInvalid(f"The proof between this node and {peer} at {address} failed: {why}", reason=kind)
    return PeerUnreachable(f"Node {peer} at {address} refused the connection: {why}")


def no_route(peer: NodeId, address: Address, trouble: str) -> PeerUnreachable:
    """The system did not take the first packet; `trouble` is what it said."""
    return PeerUnreachable(
        f"Node {short(peer)} cannot be reached at {address}: {trouble}.",
        hint="Is this machine connected to that network?",
    )


def no_answer(peer: NodeId, address: Address, seconds: float) -> PeerUnreachable:
    """Nobody answered a dial."""
    return PeerUnreachable(
        f"Node {short(peer)} did not answer at {address} within {seconds:g} s.",
        hint=f"Is meshllm running there, and does its firewall let UDP port {address.port} through?",
    )
