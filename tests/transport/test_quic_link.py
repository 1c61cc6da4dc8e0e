"""Who may talk: proof of keys, admission, refusals, and how links end."""

import asyncio
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import LinkClosed, PeerUnreachable, PortTaken, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.transport.certificate import make_certificate
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.quic import QuicTransport, endpoint
from meshllm_core.transport.quic.retry import RetryTokens
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address
from tests.transport.fuzz_packets import dialling
from tests.transport.quic_nodes import SECONDS, channel, linked, node


async def test_both_ends_know_each_other() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        assert (near.peer, far.peer) == (b.key.public, a.key.public)
        assert (near.dialled, far.dialled) == (True, False)
        assert (near.certificate, far.certificate) == (make_certificate(b.key), make_certificate(a.key))
        assert near.address == b.address
        assert far.address == a.address
        assert 0 < near.round_trip < 1
        assert near.tls is False


async def test_one_port_listens_and_dials() -> None:
    async with node() as a, node() as b:
        there, back = await linked(a, b), await linked(b, a)
        assert there[1].address == back[0].address == a.address
        near, far = await channel(*back)
        await near.send(b"x")
        assert await far.receive() == b"x"


async def test_ipv6_and_ipv4_on_one_socket() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    async with node("::") as a, node("127.0.0.1") as b, node("::1") as c:
        near, far = await linked(a, b)
        assert (str(near.address.host), far.address.host) == ("127.0.0.1", "127.0.0.1")
        assert near.address == b.address
        near, far = await linked(a, c)
        assert far.address == Address("::1", a.transport.port)
        with pytest.raises(PeerUnreachable, match="listens on IPv4 only"):
            await b.transport.dial(c.key.public, c.address, timeout=SECONDS)


async def test_another_key_than_the_dialled_one() -> None:
    async with node() as a, node() as b:
        with pytest.raises(ProofInvalid, match=r"another node answers.*this is") as caught:
            await a.transport.dial(SigningKey.generate().public, b.address, timeout=SECONDS)
        assert caught.value.reason == "wrong key"
        assert a.refused["wrong key"] == 1
        assert b.links.empty()


async def test_nobody_answers() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", silent.getsockname()[1])
        async with node() as a:
            before = time.monotonic()
            with pytest.raises(PeerUnreachable, match=f"did not answer at {address} within 0.3 s"):
                await a.transport.dial(NodeId(bytes(32)), address, timeout=0.3)
            assert time.monotonic() - before < 1


async def test_no_route_is_said_at_once() -> None:
    async with node() as a:
        before = time.monotonic()
        with pytest.raises(
            PeerUnreachable, match=r"cannot be reached at 255.255.255.255:9: Permission denied"
        ):
            await a.transport.dial(NodeId(bytes(32)), Address("255.255.255.255", 9), timeout=SECONDS)
        assert time.monotonic() - before < 1
        assert not a.transport._links


async def test_a_loop_that_cannot_watch_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*args: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", unable)
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        sending = asyncio.create_task(one.send(bytes(500_000)))
        assert await asyncio.wait_for(other.receive(), SECONDS) == bytes(500_000)
        await sending
        near.close("done")
        assert await asyncio.wait_for(far.wait_closed(), 1) == "done"


async def test_a_name_is_not_looked_up() -> None:
    async with node() as a:
        with pytest.raises(PeerUnreachable, match="not an IP address"):
            await a.transport.dial(NodeId(bytes(32)), Address("example.org", 1), timeout=SECONDS)


async def test_a_taken_port_is_named() -> None:
    async with node() as a:
        with pytest.raises(PortTaken, match=str(a.transport.port)):
            async with node(port=a.transport.port):
                pass


async def test_a_stranger_gets_one_control_channel() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b, admit=False)
        control, taken = await channel(near, far, ChannelKind.CONTROL)
        assert taken.limit == limits.STRANGER_FRAME
        call = await near.open(ChannelKind.CALL)
        second = await near.open(ChannelKind.CONTROL)
        for refused in (call, second):
            with pytest.raises(LinkClosed):
                await asyncio.wait_for(refused.receive(), SECONDS)
        assert b.refused == {"not admitted": 1, "second control channel": 1}
        far.admit()
        assert taken.limit == limits.CONTROL_FRAME
        assert control.limit == limits.STRANGER_FRAME
        near_call, far_call = await channel(near, far)
        await near_call.send(b"now")
        assert await far_call.receive() == b"now"


async def test_a_flood_of_channels_is_refused() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        kept = [await near.open(ChannelKind.CALL) for _ in range(limits.CHANNELS)]
        with pytest.raises(LinkClosed, match="64 channels"):
            await near.open(ChannelKind.CALL)
        for _ in kept:
            await asyncio.wait_for(far.accept(), SECONDS)
        kept.pop().abort()
        await near.open(ChannelKind.CALL)
        await asyncio.wait_for(far.accept(), SECONDS)
        assert not b.refused


async def test_the_reason_of_a_close_arrives() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        one, other = await channel(near, far)
        await other.send(b"last words")
        far.close("the disk is full")
        assert await asyncio.wait_for(near.wait_closed(), 1) == "the disk is full"
        assert await far.wait_closed() == "the disk is full"
        assert await one.receive() == b"last words"
        for work in (one.receive(), one.send(b"x"), near.open(ChannelKind.CALL), near.accept()):
            with pytest.raises(LinkClosed, match="the disk is full"):
                await work


async def test_closing_the_transport_tells_the_peers() -> None:
    async with node() as b:
        async with node() as a:
            _, far = await linked(a, b)
        assert await asyncio.wait_for(far.wait_closed(), 1) == "the node stops"


async def test_a_reason_is_cleaned() -> None:
    async with node() as a, node() as b:
        near, far = await linked(a, b)
        near.close("\x1b[31mred\nline\ud800" + "ä" * 1000)
        reason = await asyncio.wait_for(far.wait_closed(), 1)
        assert "\x1b" not in reason
        assert "\n" not in reason
        assert len(reason) <= 200


async def test_a_dial_that_is_cancelled_leaves_nothing() -> None:
    async with node() as a, node() as b:
        task = asyncio.create_task(a.transport.dial(b.key.public, b.address, timeout=SECONDS))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not a.transport._links


async def test_all_links_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINKS", 1)
    async with node() as a, node() as b, node() as c:
        await linked(a, b)
        with pytest.raises(PeerUnreachable, match=r"refused the connection.*all the links"):
            await c.transport.dial(b.key.public, b.address, timeout=SECONDS)
        with pytest.raises(PeerUnreachable, match="has 1 links"):
            await a.transport.dial(c.key.public, c.address, timeout=SECONDS)
        assert b.refused == {"too many links": 1}


async def test_links_of_silent_strangers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 0.3)
    async with node() as a, node() as b:
        silent, _ = await linked(a, b, admit=False)
        talking, far = await linked(a, b, admit=False)
        await channel(talking, far, ChannelKind.CONTROL)
        assert "no control channel" in await asyncio.wait_for(silent.wait_closed(), 2)
        await asyncio.sleep(0.4)
        assert b.transport.half_open == 1
        assert b.refused == {"half open": 1}
        talking.close()


async def test_the_oldest_stranger_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKES", 2)
    async with node() as a, node() as b:
        links = [await linked(a, b, admit=False) for _ in range(3)]
        assert "too many others" in await asyncio.wait_for(links[0][0].wait_closed(), 1)
        assert b.transport.half_open == 2
        links[1][1].admit()
        assert b.transport.half_open == 1
        await linked(a, b)
        second = await channel(*links[1])
        await second[0].send(b"alive")
        assert await second[1].receive() == b"alive"


async def test_a_crowd_has_to_prove_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKES", 4)
    async with node() as a, node() as b:
        for _ in range(2):
            await linked(a, b, admit=False)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
            nobody.bind(("127.0.0.1", 0))
            nobody.settimeout(1)
            for _ in range(20):
                first, _ = dialling().datagrams_to_send(now=0.0)[0]
                nobody.sendto(first, ("127.0.0.1", b.transport.port))
            await asyncio.sleep(0.1)
            answer = nobody.recv(2000)
            assert answer[0] & 0xF0 == 0xF0, "a Retry packet"
            assert len(answer) < 200
        assert b.transport.half_open == 2
        near, _ = await linked(a, b, admit=False)
        assert near.peer == b.key.public
        assert b.transport.half_open == 3
        assert not b.refused


@given(st.binary(max_size=60), st.integers(0, 24), st.integers(1, 255))
def test_a_token_is_for_one_address_one_id_and_some_seconds(noise: bytes, at: int, flip: int) -> None:
    tokens = RetryTokens(bytes(32))
    here, given_id = ("192.0.2.1", 5), b"87654321"
    token = tokens.make(here, b"12345678", given_id, 100.0)
    assert tokens.original(token, here, given_id, 101.0) == b"12345678"
    assert tokens.original(token, ("192.0.2.1", 6), given_id, 101.0) is None
    assert tokens.original(token, here, b"8765432x", 101.0) is None
    assert tokens.original(token, here, given_id, 111.0) is None
    assert tokens.original(token, here, given_id, 99.0) is None
    forged = token[:at] + bytes([token[at] ^ flip]) + token[at + 1 :]
    assert tokens.original(forged, here, given_id, 101.0) is None
    assert tokens.original(noise, here, given_id, 101.0) is None


async def test_ended_connections_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ENDING", 3)
    async with node() as a, node() as b:
        for _ in range(8):
            near, far = await linked(a, b)
            near.close("enough")
            await asyncio.wait_for(far.wait_closed(), SECONDS)
        assert len(a.transport._endpoint.drivers) <= 3
        assert len(b.transport._endpoint.drivers) <= 3


async def test_an_error_of_the_listener_ends_the_link(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(link: object) -> None:
        raise ZeroDivisionError

    key = SigningKey.generate()
    listener = await QuicTransport.start(
        key, host="127.0.0.1", on_link=fail, counted=lambda kind, detail: None
    )
    async with node() as a:
        link = await a.transport.dial(key.public, Address("127.0.0.1", listener.port), timeout=SECONDS)
        assert await asyncio.wait_for(link.wait_closed(), 1) == "an error on the other side"
    await listener.close()
    assert "ZeroDivisionError" in caplog.text


async def test_knocks_arrive_and_are_limited() -> None:
    heard: list[bytes] = []
    first = asyncio.Event()

    def on_knock(nonce: bytes) -> None:
        heard.append(nonce)
        first.set()

    async with node() as a, node() as b:
        b.transport.on_knock = on_knock
        await a.transport.knock(b.address, b"8 bytes!")
        await asyncio.wait_for(first.wait(), 1)
        assert heard == [b"8 bytes!"]
        for _ in range(100):
            await a.transport.knock(b.address, b"12345678")
        await asyncio.sleep(0.1)
        assert len(heard) <= 41
        assert b.refused["too many knocks"] >= 60


def test_it_works_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def talk() -> None:
        async with node() as a, node() as b:
            near, far = await linked(a, b)
            one, other = await channel(near, far)
            for size in (0, 1, 5_000, 3_000_000):
                sending = asyncio.create_task(one.send(bytes(size)))
                assert await asyncio.wait_for(other.receive(), 20) == bytes(size)
                await sending
            near.close("enough")
            assert await asyncio.wait_for(far.wait_closed(), 1) == "enough"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())
