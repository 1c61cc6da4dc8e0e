"""Channels that members open: calls of inference and of stages, files of stages, certificates of codecs."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_core.errors import LinkClosed, StorageError, WireError
from meshllm_core.serve.answering import ASK_SECONDS, Asker, CallLimits, answer
from meshllm_core.serve.service import InferenceService
from meshllm_core.transport.link import Channel, ChannelKind

if TYPE_CHECKING:
    from meshllm_core.node.stage_desk import StageDesk

log = logging.getLogger(__name__)

STAGE_MARK = b"\xc1STG"
"""See serve.stage_calls; repeated here so that a node without splits need not import them."""


@dataclass
class MeshCalls:
    """One per node."""

    inference: Callable[[], InferenceService]
    desk: "Callable[[], StageDesk]"
    """Made at its first use."""
    limits: CallLimits = field(default_factory=CallLimits)
    certificates: Callable[[str], Path | None] = lambda _: None
    """The file of a certificate of a codec that this node announces; called in a thread."""

    async def take(self, asker: Asker, channel: Channel) -> None:
        """One channel, from its first frame to its end."""
        if channel.kind is ChannelKind.TRANSFER:
            await self._serve_file(asker, channel)
            return
        first = await self._first(channel)
        if first is None:
            channel.abort()
        elif first.startswith(STAGE_MARK):
            if asker.public:
                log.info("a guest, %s, asked about a stage and was not answered", asker.name)
                channel.abort()
                return
            await self.desk().answer(asker.node, asker.name, channel, first)
        else:
            await answer(channel, asker, self.inference(), self.limits, first)

    async def _first(self, channel: Channel) -> bytes | None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await channel.receive()
        except (TimeoutError, LinkClosed, WireError):
            return None

    async def _serve_file(self, asker: Asker, channel: Channel) -> None:
        from meshllm_core.transport.transfer import serve_file

        stages = self.desk().lookup(asker.node)

        def lookup(file_id: str) -> Path | None:
            # Guests are given nothing that was measured here: it tells of this machine.
            return stages(file_id) or (None if asker.public else self.certificates(file_id))

        try:
            await serve_file(channel, lookup)
        except (LinkClosed, WireError, StorageError) as error:
            log.info("a file was not sent to its end: %s", error.message)
        finally:
            channel.abort()
