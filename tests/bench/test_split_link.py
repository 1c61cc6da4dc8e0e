"""The delayed link: the forwarder by itself on sockets, and the real thing in namespaces."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.bench import split_forward
from meshllm_core.bench.split_forward import TCP, Forwarder, protocol
from meshllm_core.bench.split_link import ADDRESS_A, ADDRESS_B, Link, delayed_link
from meshllm_core.errors import NodeError


def packet(number: int, kind: int = 17) -> bytes:
    """An IPv4 packet of that protocol with a number in it."""
    return bytes([0x45, 0, 0, 24, 0, 0, 0, 0, 64, kind]) + bytes(10) + number.to_bytes(4, "big")


@contextlib.contextmanager
def two_ends() -> Iterator[tuple[Forwarder, socket.socket, socket.socket]]:
    """A forwarder between two datagram sockets, which take whole packets as TUN devices do."""
    with contextlib.ExitStack() as stack:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        for one in (one for pair in pairs for one in pair):
            stack.callback(one.close)
            one.setblocking(False)
        (a, inner_a), (b, inner_b) = pairs
        yield Forwarder((inner_a.fileno(), inner_b.fileno())), a, b


def test_packets_wait_and_keep_their_order() -> None:
    with two_ends() as (forwarder, a, b):
        forwarder.obey("30000 all")
        began = time.monotonic()
        for number in range(3):
            a.send(packet(number))
        forwarder.take(0)
        wait = forwarder.hand_over()
        assert wait is not None and wait <= 0.03
        with pytest.raises(BlockingIOError):
            b.recv(100)
        while (wait := forwarder.hand_over()) is not None:
            time.sleep(wait)
        assert time.monotonic() - began >= 0.03
        assert [b.recv(100) for _ in range(3)] == [packet(number) for number in range(3)]


def test_without_tcp_the_rest_passes() -> None:
    with two_ends() as (forwarder, a, b):
        forwarder.obey("0 no-tcp")
        a.send(packet(1, TCP))
        a.send(packet(2))
        forwarder.take(0)
        forwarder.hand_over()
        assert b.recv(100) == packet(2)
        assert forwarder.datagrams == 1


def test_a_full_queue_drops_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_forward, "QUEUE_PACKETS", 2)
    with two_ends() as (forwarder, a, _):
        forwarder.obey("1000000 all")
        for number in range(5):
            a.send(packet(number))
        forwarder.take(0)
        assert forwarder.dropped == 3


@pytest.mark.parametrize("line", ["", "5", "x all", "5 udp", "5 all more"])
def test_orders_that_make_no_sense_are_refused(line: str) -> None:
    with two_ends() as (forwarder, _, _), pytest.raises(ValueError):
        forwarder.obey(line)


@given(st.binary(max_size=60))
def test_any_bytes_have_a_protocol(data: bytes) -> None:
    assert 0 <= protocol(data) <= 255


def test_ipv6_has_its_protocol_elsewhere() -> None:
    assert protocol(bytes([0x60, 0, 0, 0, 0, 0, TCP]) + bytes(40)) == TCP


@contextlib.contextmanager
def link() -> Iterator[Link]:
    """A real one, or the test is left out where the system does not allow it.

    Without root rights the whole process would stay in a user namespace.
    """
    if os.geteuid():
        pytest.skip("needs root rights")
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(delayed_link())
        except NodeError as error:
            pytest.skip(str(error))
        yield made


def connected() -> bool:
    """Whether B reaches a TCP port on A, when called on B's side."""
    try:
        with socket.create_connection((ADDRESS_A, 7000), timeout=0.5):
            return True
    except OSError:
        return False


def namespace() -> str:
    """Of this thread."""
    return str(Path("/proc/thread-self/ns/net").readlink())


def test_a_link_delays_loses_tcp_when_told_and_leaves_nothing_behind() -> None:
    before = namespace()
    with link() as made:
        assert namespace() != before
        fast = made.one_way_ms()
        made.set(20)
        assert 20 <= made.one_way_ms() < 20 + 20
        assert fast < 20
        made.set(0)
        with socket.create_server((ADDRESS_A, 7000)):
            with made.inside_b():
                assert connected()
            made.set(0, tcp=False)
            with made.inside_b():
                assert not connected()
            before_echoes = made.datagrams()
            assert made.one_way_ms() < 20
            assert made.datagrams() - before_echoes >= 50
    assert namespace() == before


def test_both_machines_have_their_own_loopback_and_address() -> None:
    with link() as made, socket.create_server(("127.0.0.1", 7001)), made.inside_b():
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", 7001), timeout=1)
        with socket.socket() as own:
            own.bind((ADDRESS_B, 0))
            with pytest.raises(OSError, match="assign"), socket.socket() as other:
                other.bind((ADDRESS_A, 0))


def test_a_link_that_died_is_told() -> None:
    with link() as made:
        made.forwarder.kill()
        made.forwarder.wait()
        with pytest.raises(NodeError, match="ended by itself"):
            made.set(5)


def test_no_right_to_make_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread: the namespace that it enters is gone with it."""
    told: list[NodeError] = []

    def attempt() -> None:
        try:
            with delayed_link():
                pass
        except NodeError as error:
            told.append(error)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("meshllm_core.bench.split_link._libc", refuse)
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "Operation not permitted" in str(told[0]) and "user namespaces" in told[0].hint
