"""Measurements of codecs that other members announce: fetched once each, checked, and kept apart.

What a member measured is taken from that member alone, so that none can flood others with signers.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_core.errors import DownloadFailed, MeshError, ProofInvalid, WireError
from meshllm_core.ids import NodeId, short
from meshllm_core.models.foreign_certificates import ForeignCertificates
from meshllm_core.node.believed import kin_of
from meshllm_core.node.certificate_claims import file_id
from meshllm_core.paths import Paths
from meshllm_core.transport.link import ChannelKind
from meshllm_core.transport.transfer import fetch_file
from meshllm_core.wire import limits

if TYPE_CHECKING:
    from meshllm_core.mesh.session import Session

log = logging.getLogger(__name__)

ROUND = 64
"""Certificates that are fetched at one time; the rest the next time."""
AT_ONCE = 4
GATHER_SECONDS = 5.0
"""So long all of it may take. What a slow member did not give by then is not asked for again."""
PAUSE_SECONDS = 5.0
"""Between two looks at what others announce."""
TRIED = 4096
"""Certificates that were asked for in vain and are remembered; the oldest is forgotten."""
REFUSED = "certificate refused"
"""Under which what does not hold is counted."""

Wanted = tuple[NodeId, bytes]
"""A member, and the hash of a certificate that it announces."""


@dataclass
class CertificateFetcher:
    """One per node; `session` is None while it is in no mesh."""

    paths: Paths
    session: "Callable[[], Session | None]"
    me: Callable[[], NodeId]
    _tried: dict[Wanted, None] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _looked: float = float("-inf")

    async def gather(self) -> None:
        """Fetches what is new and keeps it. Raises nothing but cancellation: without it all goes on."""
        async with self._lock:
            session = self.session()
            if session is None or time.monotonic() - self._looked < PAUSE_SECONDS:
                return
            try:
                await self._gather(session)
            except MeshError as error:
                log.warning("measurements of other members are not kept: %s", error)
            self._looked = time.monotonic()

    async def _gather(self, session: "Session") -> None:
        store = ForeignCertificates(self.paths.certificates)
        here = await asyncio.to_thread(store.hashes)
        wanted = list(islice(self._wanted(session, here), ROUND))
        places = asyncio.Semaphore(AT_ONCE)
        tasks = [asyncio.create_task(self._fetch(session, store, one, places)) for one in wanted]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=GATHER_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if wanted or here:
            signers = await asyncio.to_thread(store.signers)
            unwanted = {node for node in signers if _expelled(session, node)}
            await asyncio.to_thread(self._tidy, store, _owners(session), unwanted)

    def _wanted(self, session: "Session", here: frozenset[bytes]) -> Iterator[Wanted]:
        """One of each member in turn, so that nobody's come before everybody else's."""
        offers: list[list[Wanted]] = []
        for node in session.mesh.links:
            state = session.mesh.peer(node)
            said = state.announcement if state is not None else None
            if said is not None and said.role == "host" and not _expelled(session, node):
                offers.append([(node, digest) for digest in dict.fromkeys(said.codec_certificates)])
        for turn in zip_longest(*offers):
            for one in turn:
                if one is not None and one[1] not in here and one not in self._tried:
                    yield one

    async def _fetch(
        self, session: "Session", store: ForeignCertificates, wanted: Wanted, places: asyncio.Semaphore
    ) -> None:
        node, digest = wanted
        async with places:
            self._remember(wanted)
            try:
                raw = await _asked_for(session, node, digest)
                await asyncio.to_thread(store.add, raw, digest, node)
            except (ProofInvalid, WireError) as error:
                session.environment.refusals.count(
                    REFUSED, f"{session.peers.name(node)} (node {short(node)}): {error.message}"
                )
            except DownloadFailed as error:
                log.info("node %s did not give a certificate that it announces: %s", short(node), error)
            except MeshError as error:
                # The way there or the disk, not the certificate: it is asked for again.
                self._tried.pop(wanted, None)
                log.info("a certificate of node %s was not fetched: %s", short(node), error)

    def _remember(self, wanted: Wanted) -> None:
        self._tried[wanted] = None
        while len(self._tried) > TRIED:
            del self._tried[next(iter(self._tried))]

    def _tidy(self, store: ForeignCertificates, shown: Mapping[NodeId, bytes], unwanted: set[NodeId]) -> None:
        store.show_owners(shown)
        kin = kin_of(self.paths, self.me(), time.time())
        owners = store.owners()
        store.trim({node for node in owners if kin.includes(node, owners[node])}, unwanted)


async def _asked_for(session: "Session", node: NodeId, digest: bytes) -> bytes:
    """The certificate as it came. Raises MeshError."""
    channel = await session.mesh.link_to(node).greeted.link.open(ChannelKind.TRANSFER)
    with tempfile.TemporaryDirectory(prefix="meshllm-certificate-") as folder:
        target = Path(folder) / "certificate"
        await fetch_file(channel, file_id(digest), target, largest=limits.RECORD)
        return await asyncio.to_thread(target.read_bytes)


def _owners(session: "Session") -> dict[NodeId, bytes]:
    """What members that are heard of show of their owners."""
    return {
        node: state.announcement.owner
        for node, state in session.mesh.gossip.peers.items()
        if state.announcement is not None and state.status in ("alive", "suspect")
    }


def _expelled(session: "Session", node: NodeId) -> bool:
    """Blocked here, or revoked and not let in again."""
    roster, wall = session.roster, session.environment.clock.time()
    return node in session.blocks or (roster.revoked_at(node) > 0 and not roster.is_member(node, wall))
