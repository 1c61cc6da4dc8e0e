"""That a TLS connection notices when the other machine is gone without a word."""

import socket

import pytest

from meshllm_core.transport.link import ChannelKind
from tests.transport.tls_nodes import LOOPS, echo, nodes, on_loop

KINDS = [ChannelKind.CALL, ChannelKind.TRANSFER]
pytestmark = pytest.mark.parametrize("loop", LOOPS)


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this system names it otherwise")
@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_ask_whether_the_other_machine_is_still_there(loop: str, kind: ChannelKind) -> None:
    """A machine that changes its address leaves a connection on which nothing ever comes again."""

    def seconds(end: socket.socket) -> int:
        probes = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        between = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) + probes * between

    async def scenario() -> None:
        async with nodes() as (a, b):
            b.handler = echo
            channel = await a.connect(b, kind)
            await channel.send(b"hello")
            await channel.receive()
            for node, peer in ((a, b), (b, a)):
                endpoint = node.plane._calls if kind is ChannelKind.CALL else node.plane._files
                for connection in endpoint._peers[peer.id].connections:
                    transport = connection._transport
                    assert transport is not None
                    assert 0 < seconds(transport.get_extra_info("socket")) <= 10

    on_loop(loop, scenario())
