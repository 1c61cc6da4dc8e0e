"""Bytes that nobody should send: mutations, and packets of QUIC that are well sealed and wrong inside."""

from collections.abc import Sequence
from random import Random

from aioquic import tls
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicProtocolVersion

from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.quic.private import MeshConnection, configuration

LENGTHS = (0, 1, 3, 0x3F, 0x40, 0x3FFF, 0x4000, 0x3FFFFFFF, 0x40000000, (1 << 62) - 1)
PACKET_NUMBER = bytes(4)


def mutated(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """`data` with one to four things done to it."""
    result = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(result) + 1)
        change = random.randrange(7)
        if change == 0 and result:
            result[at % len(result)] ^= 1 << random.randrange(8)
        elif change == 1:
            del result[at:]
        elif change == 2:
            del result[at : at + random.randint(1, 16)]
        elif change == 3:
            result[at:at] = random.randbytes(random.randint(1, 16))
        elif change == 4:
            result[at : at + 4] = random.choice(LENGTHS).to_bytes(8, "big")[-4:]
        elif change == 5:
            result[at:at] = result[: random.randint(0, 64)]
        elif others:
            result[at:] = random.choice(others)[at:]
    return bytes(result)


def varint(value: int) -> bytes:
    """A number as QUIC writes it."""
    for size, mark in ((1, 0), (2, 1), (4, 2), (8, 3)):
        if value < 1 << (8 * size - 2):
            return (value | mark << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(value)


def number(random: Random) -> int:
    """Mostly small, sometimes at an edge."""
    return random.choice(LENGTHS) if random.random() < 0.3 else random.randrange(300)


def quic_frames(random: Random) -> bytes:
    """Frames of QUIC that may each be written correctly, with numbers that make no sense."""
    result = b""
    for _ in range(random.randint(1, 4)):
        kind = random.randrange(0x40) if random.random() < 0.1 else random.choice(_KINDS)
        result += varint(kind) + b"".join(varint(number(random)) for _ in range(_FIELDS.get(kind, 3)))
        if random.random() < 0.5:
            result += random.randbytes(random.randrange(40))
    return result[:1100]


_FIELDS = {0x04: 3, 0x05: 2, 0x06: 2, 0x0A: 2, 0x0E: 3, 0x0F: 3, 0x10: 1, 0x11: 2, 0x12: 1, 0x14: 1, 0x15: 2}
_KINDS = (*range(0x02, 0x08), 0x0A, *range(0x0E, 0x1F), 0x30, 0x31)


def dialling() -> MeshConnection:
    """A node that dials."""
    key = SigningKey.generate()
    quic = MeshConnection(configuration(key, make_certificate(key), is_client=True))
    quic.connect(("192.0.2.1", 1), now=0.0)
    return quic


def client_hello() -> tuple[bytes, bytes]:
    """The first message of a node that dials, and the connection id that stands in it."""
    quic = dialling()
    return bytes(quic._crypto_streams[tls.Epoch.INITIAL].sender._buffer), quic.host_cid


def initial(payload: bytes, source: bytes, destination: bytes, token: bytes) -> bytes:
    """A first packet, sealed as anybody can, with `payload` inside."""
    pair = CryptoPair()
    pair.setup_initial(cid=destination, is_client=True, version=QuicProtocolVersion.VERSION_1)
    payload = payload[:1400].ljust(1160, b"\0")
    length = len(PACKET_NUMBER) + len(payload) + 16
    header = b"\xc3" + QuicProtocolVersion.VERSION_1.to_bytes(4, "big")
    header += b"\x08" + destination + b"\x08" + source + varint(len(token)) + token
    header += (length | 0x4000).to_bytes(2, "big") + PACKET_NUMBER
    return pair.encrypt_packet(header, payload, 0)


def crypto(message: bytes, offset: int = 0) -> bytes:
    """A CRYPTO frame."""
    return b"\x06" + varint(offset) + varint(len(message)) + message


def sealed(quic: MeshConnection, payload: bytes) -> bytes:
    """A packet of a connection that is up, with `payload` inside."""
    packet = quic._packet_number
    quic._packet_number += 1
    pair = quic._cryptos[tls.Epoch.ONE_RTT]
    header = bytes([0x43 | pair.key_phase << 2]) + quic._peer_cid.cid + packet.to_bytes(4, "big")
    return pair.encrypt_packet(header, payload.ljust(4, b"\0"), packet)
