"""Whether multicast gets through on this machine: an mDNS question is sent and listened for."""

import asyncio
import contextlib
import ipaddress
import os
import socket
import time
from collections.abc import Sequence

GROUP = "224.0.0.251"
PORT = 5353
TRIES = 3
"""Questions for each interface: one packet may be lost."""
DATAGRAM = 9000
"""Largest packet that is taken, in bytes."""


async def probe_multicast(interfaces: Sequence[str], *, timeout: float = 1.0) -> bool | None:
    """Whether a packet that is sent to all on one of `interfaces` (IPv4 addresses) comes back within seconds.

    False: a firewall or a missing permission of this machine holds it back; no neighbour will be found by
    mDNS. True does not promise that a switch or an access point passes it on. None: there is nothing to
    try it on, or no socket for it.
    """
    addresses = [address for address in interfaces if ipaddress.ip_address(address).version == 4]
    # In threads: uvloop has no datagrams on plain sockets.
    asked = [asyncio.to_thread(_comes_back, address, timeout) for address in addresses]
    answers = await asyncio.gather(*asked)
    if True in answers:
        return True
    return False if False in answers else None


def _comes_back(address: str, seconds: float) -> bool | None:
    nonce = os.urandom(4).hex().encode()
    question = _question(nonce)
    try:
        listening, sending = _listener(address), _sender(address)
    except OSError:
        return None
    with listening, sending:
        try:
            for _ in range(TRIES):
                # Refused by a firewall or for want of a permission: that it will not be heard is the answer.
                with contextlib.suppress(PermissionError):
                    sending.sendto(question, (GROUP, PORT))
                if _hears(listening, question, seconds / TRIES):
                    return True
            return False
        except OSError:
            return None


def _hears(listening: socket.socket, wanted: bytes, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        listening.settimeout(left)
        try:
            if listening.recv(DATAGRAM) == wanted:
                return True
        except TimeoutError:
            return False
    return False


def _listener(address: str) -> socket.socket:
    listening = _socket()
    try:
        listening.bind(("", PORT))
        membership = socket.inet_aton(GROUP) + socket.inet_aton(address)
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError:
        listening.close()
        raise
    return listening


def _sender(address: str) -> socket.socket:
    sending = _socket()
    try:
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        sending.bind((address, 0))
    except OSError:
        sending.close()
        raise
    return sending


def _socket() -> socket.socket:
    """Shares the port with the machine's own responder."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return made


def _question(nonce: bytes) -> bytes:
    """A DNS question for a name that nobody has: who gets it has nothing to answer."""
    header = bytes.fromhex("000000000001000000000000")
    labels = (nonce, b"meshllm-probe", b"local")
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return header + name + bytes.fromhex("000c0001")
