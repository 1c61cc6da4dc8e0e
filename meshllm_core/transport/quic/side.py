"""Calls and files go by pinned TLS where the peer takes TCP, and by QUIC elsewhere."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from meshllm_core.errors import MeshNetworkError
from meshllm_core.ids import NodeId, short
from meshllm_core.transport.link import Channel, ChannelKind
from meshllm_core.wire.announcement import Address

RETRY_SECONDS = (0.2, 1.0, 5.0, 30.0)
"""Between tries; the last one again and again. The first are short: the peer may be about to admit us."""


class SideChannels(Protocol):
    """TLS channels to peers whose certificates are known from their links. `transport.tls` implements it."""

    on_channel: Callable[[NodeId, Channel], None]
    """Called with every channel that an allowed peer opens."""

    async def connect(
        self, peer: NodeId, certificate: bytes, addresses: Sequence[Address], kind: ChannelKind
    ) -> Channel:
        """A channel to `peer` at the first address that answers. Raises PeerUnreachable."""

    def allow(self, peer: NodeId, certificate: bytes) -> None:
        """The peer may open channels; `certificate` (DER) is the one it must show."""

    def forbid(self, peer: NodeId) -> None:
        """The peer may open none any more, and those that it has are closed."""


class SideRoute:
    """Whether one peer can be reached by TLS, tried in the background."""

    def __init__(self, channels: SideChannels | None, peer: NodeId, certificate: bytes) -> None:
        self.works: bool | None = None if channels else False
        """None while that is being tried."""
        self._channels = channels
        self._peer = peer
        self._certificate = certificate
        self._addresses: tuple[Address, ...] = ()
        self._trying: asyncio.Task[None] | None = None

    def offer(self, addresses: Sequence[Address]) -> None:
        """Try these, at once."""
        if self._channels is None or tuple(addresses) == self._addresses:
            return
        self._addresses = tuple(addresses)
        if self._addresses:
            self._start()
        else:
            self.close()

    async def open(self, kind: ChannelKind) -> Channel | None:
        """A channel; None when there is no way by TLS, now or as far as is known."""
        if self._channels is None or not self.works:
            return None
        try:
            return await self._channels.connect(self._peer, self._certificate, self._addresses, kind)
        except MeshNetworkError:
            self.works = False
            self._start()
            return None

    def close(self) -> None:
        """Stops trying."""
        self.works = False
        if self._trying is not None:
            self._trying.cancel()

    def _start(self) -> None:
        if self._trying is not None:
            self._trying.cancel()
        self._trying = asyncio.create_task(self._try(), name=f"tls to {short(self._peer)}")

    async def _try(self) -> None:
        assert self._channels is not None
        tries = 0
        while True:
            try:
                channel = await self._channels.connect(
                    self._peer, self._certificate, self._addresses, ChannelKind.CALL
                )
            except MeshNetworkError:
                self.works = False
                await asyncio.sleep(RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)])
                tries += 1
            else:
                channel.abort()
                self.works = True
                return
