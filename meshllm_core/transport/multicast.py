"""Whether multicast gets through on this machine: an mDNS question is sent and listened for."""

import asyncio
import contextlib
import ipaddress
import os
import socket
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
    asked = [asyncio.ensure_future(_comes_back(address, timeout)) for address in addresses]
    try:
        for answer in asyncio.as_completed(asked):
            if await answer:
                return True
    finally:
        for task in asked:
            task.cancel()
        results = await asyncio.gather(*asked, return_exceptions=True)
    return False if False in results else None


async def _comes_back(address: str, seconds: float) -> bool | None:
    nonce = os.urandom(4).hex().encode()
    question = _question(nonce)
    loop = asyncio.get_running_loop()
    try:
        listening, sending = _listener(address), _sender(address)
    except OSError:
        return None
    with listening, sending:
        hearing = asyncio.ensure_future(_hear(listening, question))
        try:
            for _ in range(TRIES):
                # Refused by a firewall or for want of a permission: that it will not be heard is the answer.
                with contextlib.suppress(PermissionError):
                    await loop.sock_sendto(sending, question, (GROUP, PORT))
                if await asyncio.wait([hearing], timeout=seconds / TRIES) and hearing.done():
                    return True
            return False
        except OSError:
            return None
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)


async def _hear(listening: socket.socket, wanted: bytes) -> None:
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(listening, DATAGRAM) != wanted:
        pass


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
    made.setblocking(False)
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
