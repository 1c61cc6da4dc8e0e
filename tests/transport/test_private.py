"""Fails, and says why, when a new aioquic lacks what `transport.quic.private` takes from inside it."""

import asyncio
import inspect
from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from aioquic import tls
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState
from aioquic.quic.stream import QuicStream
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meshllm_core.errors import ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.quic import windows
from meshllm_core.transport.quic.link import QuicLink
from meshllm_core.transport.quic.private import MeshConnection, configuration
from tests.transport.quic_nodes import SECONDS, channel, linked, node

ADVICE = "aioquic changed: read its new source and adapt meshllm_core/transport/quic/private.py. Missing: "


def connection() -> QuicConnection:
    """A client that has begun its handshake."""
    key = SigningKey.generate()
    quic = QuicConnection(configuration=configuration(key, make_certificate(key), is_client=True))
    quic.connect(("192.0.2.1", 1), now=0.0)
    return quic


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("aioquic") == "1.7.2", ADVICE + "nothing yet, but compare the sources first."


@pytest.mark.parametrize(
    "name",
    [
        "_initialize",
        "_write_stream_limits",
        "_write_connection_limits",
        "_local_max_data",
        "_local_max_streams_uni",
        "_streams",
        "_state",
        "_close_event",
        "_loss",
        "tls",
    ],
)
def test_the_connection_has(name: str) -> None:
    assert hasattr(connection(), name), ADVICE + f"QuicConnection.{name}"


@pytest.mark.parametrize(
    "name",
    ["_set_peer_certificate", "_server_expect_finished", "_request_client_certificate", "handle_message"],
)
def test_the_tls_context_has(name: str) -> None:
    assert hasattr(tls.Context(is_client=False), name), ADVICE + f"tls.Context.{name}"


def test_streams_and_limits_have_their_parts() -> None:
    stream = QuicStream(stream_id=0, max_stream_data_local=1, max_stream_data_remote=1)
    found = (stream.sender._buffer, stream.receiver.highest_offset, stream.max_stream_data_local_sent)
    assert found == (bytearray(), 0, 1), ADVICE + "the parts of QuicStream"
    limit = connection()._local_max_data
    assert limit.value == limit.sent == windows.LINK_UNREAD_STRANGER, ADVICE + "Limit.value, Limit.sent"
    assert limit.used == 0, ADVICE + "Limit.used"
    assert connection()._loss._rtt_smoothed == 0.0, ADVICE + "QuicPacketRecovery._rtt_smoothed"
    assert QuicConnectionState.FIRSTFLIGHT is connection()._state, ADVICE + "QuicConnectionState"


@pytest.mark.parametrize(
    "method", [QuicConnection._write_stream_limits, QuicConnection._write_connection_limits]
)
def test_windows_are_doubled_where_we_hold_them(method: object) -> None:
    """Both methods double a window by what was received, and only by that; we set it to 0 for the call."""
    source = inspect.getsource(method)  # type: ignore[arg-type]
    assert "*= 2" in source, ADVICE + "the doubling of windows"
    assert ("highest_offset * 2" in source) or ("used * 2" in source), ADVICE + "the doubling of windows"


async def test_a_window_follows_the_reader_and_nothing_else() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        assert isinstance(near, QuicLink)
        assert isinstance(far, QuicLink)
        one, other = await channel(near, far)
        pushing = asyncio.create_task(one.send(bytes(6 << 20)))
        await asyncio.sleep(0.3)
        stream, link = far._driver.quic._streams[0], far._driver.quic._local_max_data
        assert stream.max_stream_data_local == windows.UNREAD + 1, ADVICE + "QuicStream.max_stream_data_local"
        before = link.value
        assert await asyncio.wait_for(other.receive(), SECONDS) == bytes(6 << 20)
        await pushing
        assert stream.max_stream_data_local >= 6 << 20
        assert before <= link.value <= windows.LINK_UNREAD + (7 << 20)


async def test_a_client_without_a_certificate() -> None:
    async with node() as a, node() as b:
        a.transport._dialling.certificate = a.transport._dialling.private_key = None
        with pytest.raises(ProofInvalid) as caught:
            await a.transport.dial(b.key.public, b.address, timeout=SECONDS)
        assert caught.value.reason == "no certificate"
        assert b.refused == {"no certificate": 1}, ADVICE + "the request for a client's certificate"
        assert b.links.empty()


async def test_a_client_with_the_certificate_of_another() -> None:
    async with node() as a, node() as b, node() as victim:
        a.transport._dialling.certificate = victim.transport._dialling.certificate
        with pytest.raises(ProofInvalid) as caught:
            await a.transport.dial(b.key.public, b.address, timeout=SECONDS)
        assert caught.value.reason == "wrong key"
        assert b.refused == {"wrong key": 1}
        assert b.links.empty()


async def test_a_server_with_the_certificate_of_another() -> None:
    async with node() as a, node() as b, node() as victim:
        b.transport._listening.certificate = victim.transport._listening.certificate
        with pytest.raises(ProofInvalid) as caught:
            await a.transport.dial(victim.key.public, b.address, timeout=SECONDS)
        assert caught.value.reason == "wrong key"
        assert a.refused == {"wrong key": 1}


async def test_a_key_of_another_kind() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    async with node() as a, node() as b:
        a.transport._dialling.certificate, a.transport._dialling.private_key = certificate, key
        with pytest.raises(ProofInvalid) as caught:
            await a.transport.dial(b.key.public, b.address, timeout=SECONDS)
        assert caught.value.reason == "certificate"
        assert b.refused == {"malformed": 1}


def test_a_long_handshake_is_refused_before_it_is_kept() -> None:
    key = SigningKey.generate()
    config: QuicConfiguration = configuration(key, make_certificate(key), is_client=True)
    quic = MeshConnection(config)
    quic.connect(("192.0.2.1", 1), now=0.0)
    with pytest.raises(tls.AlertDecodeError):
        for _ in range(100):
            quic.tls.handle_message(b"\x02\xff\xff\xff" + bytes(1000), {})
    assert quic.refusal == "too large"
    assert len(quic.tls._receive_buffer) <= windows.HANDSHAKE_BYTES


async def test_there_are_no_streams_in_one_direction() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        assert isinstance(near, QuicLink)
        quic = near._driver.quic
        quic._remote_max_streams_uni = 10
        quic.send_stream_data(quic.get_next_available_stream_id(is_unidirectional=True), b"x")
        near._driver.transmit()
        assert "Too many streams" in await asyncio.wait_for(far.wait_closed(), SECONDS)
        assert b.refused == {"malformed": 1}
