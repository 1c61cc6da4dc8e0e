"""Measurements of codecs between members: announced by hash, given to who asks, fetched from who announces.

What this needs is imported at its first use: a node in no mesh spends neither time nor memory on it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_core.errors import MeshError
from meshllm_core.ids import NodeId
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths

if TYPE_CHECKING:
    from meshllm_core.mesh.session import Session
    from meshllm_core.node.certificate_claims import Claims
    from meshllm_core.node.certificate_fetch import CertificateFetcher

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""So often this node looks whether it measured something new."""


@dataclass
class CertificateExchange:
    """One per node; all but `lookup` runs in its loop."""

    paths: Paths
    store: EventStore
    session: "Callable[[], Session | None]"
    me: Callable[[], NodeId]
    _claims: "Claims | None" = None
    _fetcher: "CertificateFetcher | None" = None

    @property
    def claims(self) -> tuple[bytes, ...]:
        """Hashes of what this node announces."""
        return self._claims.hashes if self._claims is not None else ()

    def lookup(self, asked: str) -> Path | None:
        """The file of a certificate that this node announces. Blocks: it is called in a thread."""
        return self._claims.lookup(asked) if self._claims is not None else None

    async def keep(self) -> None:
        """Keeps `claims` true for as long as the node runs."""
        told = ""
        while True:
            try:
                await self._look()
                told = ""
            except MeshError as error:
                if told != (told := error.message):
                    log.warning("what was measured here is not announced: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        if self.session() is None or not self.paths.certificates.is_dir():
            return
        if self._claims is None:
            self._claims = await asyncio.to_thread(_new_claims, self.paths.certificates)
        self._claims.note(self.store.snapshot.models)
        await asyncio.to_thread(self._claims.refresh, self.me())

    async def gather(self) -> None:
        """Fetches what others announce and this node has not. Raises nothing but cancellation."""
        if self.session() is None:
            return
        if self._fetcher is None:
            from meshllm_core.node.certificate_fetch import CertificateFetcher

            self._fetcher = CertificateFetcher(self.paths, self.session, self.me)
        await self._fetcher.gather()


def _new_claims(folder: Path) -> "Claims":
    from meshllm_core.node.certificate_claims import Claims

    return Claims(folder)
