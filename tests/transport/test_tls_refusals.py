"""Who gets no TLS connection: strangers, impostors, half-open ones. Real sockets, both event loops."""

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshllm_core.errors import LinkClosed, PeerUnreachable, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport import tls_context
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.tls_context import dialling_context, server_name
from meshllm_core.wire import limits
from tests.transport.tls_nodes import LOOPS, Node, call, echo, eventually, made_node, nodes, on_loop

CALL = bytes([ChannelKind.CALL])


async def dial(
    target: Node, context: ssl.SSLContext, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """TLS as somebody else might speak it."""
    raw = socket.create_connection(("127.0.0.1", target.plane.port))
    raw.sendall(CALL)
    raw.setblocking(False)
    return await asyncio.open_connection(sock=raw, ssl=context, server_hostname=name)


async def refused(target: Node, context: ssl.SSLContext, name: str) -> bool:
    """Whether the target says nothing to a client of this kind."""
    try:
        reader, writer = await dial(target, context, name)
    except (ssl.SSLError, ConnectionError):
        return True
    try:
        return not await reader.read(1)
    except (ssl.SSLError, ConnectionError):
        return True
    finally:
        writer.close()
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("loop", LOOPS)
def test_only_the_right_key_under_its_own_name_gets_in(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            stranger = made_node()
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
            right = dialling_context(a.key, a.certificate)
            wrong = dialling_context(stranger.key, stranger.certificate)
            cases = [
                (right, server_name(a.id), None),
                (wrong, server_name(a.id), "wrong key"),
                (bare, server_name(a.id), "no certificate"),
                (wrong, server_name(stranger.id), "unknown name"),
                (right, "localhost", "unknown name"),
            ]
            for context, name, reason in cases:
                b.counts.clear()
                assert await refused(b, context, name) == (reason is not None)
                await eventually(lambda reason=reason: b.counts == ([reason] if reason else []))  # type: ignore[misc]
            assert b.channels.empty()

    on_loop(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stolen_certificate_is_of_no_use(loop: str) -> None:
    """The thief has A's certificate and its own key: OpenSSL does not even take the pair."""
    thief, victim = made_node(), made_node()
    with pytest.raises(ssl.SSLError, match=r"(?i)mismatch"):
        dialling_context(thief.key, victim.certificate)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_older_protocol_is_refused(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            context = dialling_context(a.key, a.certificate)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            assert await refused(b, context, server_name(a.id))

    on_loop(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", [ChannelKind.CALL, ChannelKind.TRANSFER])
def test_nothing_is_sent_to_another_node_than_was_dialled(loop: str, kind: ChannelKind) -> None:
    async def scenario() -> None:
        async with nodes(3) as (a, b, other):
            with pytest.raises(PeerUnreachable, match="another node answered"):
                await a.plane.connect(b.id, b.certificate, [other.address], kind)
            await eventually(lambda: a.counts == ["wrong key"])
            assert other.channels.empty()
            # The right one behind a second address is still found.
            other.handler = b.handler = echo
            channel = await a.plane.connect(b.id, b.certificate, [other.address, b.address], kind)
            assert await call(channel, b"x") == b"x"

    on_loop(loop, scenario())


async def test_a_certificate_of_another_node_is_not_allowed() -> None:
    async with nodes() as (a, b):
        with pytest.raises(ProofInvalid):
            a.plane.allow(b.id, made_node().certificate)
        with pytest.raises(ProofInvalid):
            a.plane.allow(b.id, b"rubbish")


async def test_a_peer_with_a_new_certificate_loses_its_old_connections() -> None:
    async with nodes() as (a, b):
        channel = await a.connect(b)
        await channel.send(b"x")
        b.plane._trust._peers[b"an older one"] = b.plane._trust._peers.pop(a.certificate)
        b.plane.allow(a.id, a.certificate)
        with pytest.raises(LinkClosed):
            await channel.receive()


@pytest.mark.parametrize("loop", LOOPS)
def test_half_open_connections_are_dropped(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 0.3)

    async def scenario() -> None:
        async with nodes() as (_, b):
            address = ("127.0.0.1", b.plane.port)
            with socket.create_connection(address) as silent, socket.create_connection(address) as half:
                half.sendall(CALL + b"\x16\x03\x01")
                for waiting in (silent, half):
                    waiting.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        assert await asyncio.get_running_loop().sock_recv(waiting, 1) == b""
            await eventually(lambda: b.counts == ["half open", "half open"])
            assert not b.plane._half_open

    on_loop(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_flood_of_half_open_connections_shuts_nobody_out(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HANDSHAKES", 8)

    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            flood = [socket.create_connection(("127.0.0.1", b.plane.port)) for _ in range(50)]
            await eventually(lambda: len(b.counts) == 42)
            assert set(b.counts) == {"too many half open"}
            assert len(b.plane._half_open) == 8
            assert await call(await a.connect(b), b"x") == b"x"
            for connection in flood:
                connection.close()

    on_loop(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_trying_the_port_is_no_offence(loop: str) -> None:
    async def scenario() -> None:
        async with nodes() as (_, b):
            socket.create_connection(("127.0.0.1", b.plane.port)).close()
            await asyncio.sleep(0.1)
            assert b.counts == []
            assert not b.plane._half_open

    on_loop(loop, scenario())


@given(data=st.binary(min_size=1, max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rubbish_before_and_in_tls_is_counted(data: bytes) -> None:
    async def scenario() -> None:
        async with nodes() as (_, b):
            for prefix in (b"", CALL, bytes([ChannelKind.TRANSFER])):
                with socket.create_connection(("127.0.0.1", b.plane.port)) as rude:
                    rude.sendall(prefix + data)
                    rude.shutdown(socket.SHUT_WR)
                    rude.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        while await asyncio.get_running_loop().sock_recv(rude, 1000):
                            pass
            await eventually(lambda: not b.plane._half_open)
            assert set(b.counts) <= {"malformed"}
            assert b.channels.empty()

    on_loop("asyncio", scenario())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sent", [b"\x03", b"\x01", b"\xff", b"\x00\x00\x09"])
def test_a_member_that_breaks_the_order_is_cut_off(loop: str, sent: bytes) -> None:
    async def scenario() -> None:
        async with nodes() as (a, b):
            reader, writer = await dial(b, dialling_context(a.key, a.certificate), server_name(a.id))
            assert await reader.read(1) == b"\x01"
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                assert await reader.read(1) == b""
            await eventually(lambda: b.counts == ["malformed"])
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            assert not b.plane._calls._peers[a.id].connections

    on_loop(loop, scenario())


async def test_a_port_in_use_is_an_error_of_the_system() -> None:
    async with nodes() as (a, _):
        with pytest.raises(OSError, match="in use"):
            await type(a.plane).start(
                a.key, a.certificate, host="127.0.0.1", port=a.plane.port, counted=a.counted
            )


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
async def test_both_families_on_one_port() -> None:
    b, a = await made_node().start("::"), await made_node().start()
    try:
        b.handler = echo
        b.plane.allow(a.id, a.certificate)
        for host in ("127.0.0.1", "::1"):
            address = type(a.address)(host, b.plane.port)
            channel = await a.plane.connect(b.id, b.certificate, [address], ChannelKind.CALL)
            assert await call(channel, b"x") == b"x"
            a.plane.forbid(b.id)
    finally:
        await a.close()
        await b.close()


def test_keys_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    key = SigningKey.generate()
    certificate = make_certificate(key)
    dialling_context(key, certificate)
    assert list(tmp_path.iterdir()) == []

    written: list[bytes] = []
    really = os.write

    def watch(descriptor: int, content: bytes) -> int:
        written.append(content)
        return really(descriptor, content)

    monkeypatch.setattr(tls_context, "_in_memory", tls_context._on_disk)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "write", watch)
    dialling_context(key, certificate)
    assert list(tmp_path.iterdir()) == []
    assert len(written) == 1 and written[0].startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")


def test_a_server_name_is_one_label_and_a_suffix() -> None:
    label, suffix = server_name(SigningKey(bytes(range(32))).public).split(".")
    assert (len(label), suffix) == (52, "mesh")
    assert label == label.lower()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_a_stranger_by_ipv4_is_told_of_by_its_ipv4_address() -> None:
    """A socket for both families knows it as ::ffff:127.0.0.1, which no person does."""

    async def scenario() -> None:
        node = await made_node().start("::")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", node.plane.port)
            writer.write(b"\xff")
            await eventually(lambda: node.counts == ["malformed"])
            assert node.details[0].startswith("127.0.0.1:")
            writer.close()
        finally:
            await node.close()

    on_loop("asyncio", scenario())
