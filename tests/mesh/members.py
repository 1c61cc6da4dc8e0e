"""Members of a mesh in this process: real sockets on loopback, a folder each, a clock that may be wrong."""

import asyncio
import contextlib
import ipaddress
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.mesh.announce import Local
from meshllm_core.mesh.counters import Refusals
from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.options import MeshOptions
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.mesh.service import MeshService
from meshllm_core.mesh.sockets import MeshSockets
from meshllm_core.mesh.storage import MeshStore
from meshllm_core.paths import default_paths
from meshllm_core.state.events import AnyEvent
from meshllm_core.state.mesh_events import PeerRow
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import JoinView, NodeSnapshot
from meshllm_core.transport.interfaces import Interface, LeftOut
from meshllm_core.transport.link import Channel, Clock, OnLink
from meshllm_core.transport.memory import MemoryNetwork
from meshllm_core.wire.announcement import ModelOffer

LOOPBACK = "127.0.0.1"


@dataclass
class SkewedClock:
    """The machine's clock, wrong by some seconds."""

    ahead: float = 0.0

    def monotonic(self) -> float:
        """As it is."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since the epoch, plus `ahead`."""
        return time.time() + self.ahead


@dataclass
class Member:
    """A node without HTTP: what its mesh told is folded into `snapshot`."""

    name: str
    folder: Path
    key: SigningKey = field(default_factory=SigningKey.generate)
    clock: Clock = field(default_factory=SkewedClock)
    options: dict[str, object] = field(default_factory=dict)
    models: tuple[ModelOffer, ...] = ()
    claims: tuple[bytes, ...] = ()
    """Hashes of certificates of codecs that it announces."""
    snapshot: NodeSnapshot = field(default_factory=NodeSnapshot)
    calls: list[tuple[NodeId, Channel]] = field(default_factory=list)
    incarnation: int = 0
    network: MemoryNetwork | None = None
    """None: real sockets."""

    def __post_init__(self) -> None:
        self.service = self.make()

    def make(self) -> MeshService:
        """A process of this node: a new start has a new instance and incarnation."""
        paths = default_paths({"MESHLLM_HOME": str(self.folder)})
        self.incarnation = max(self.incarnation + 1, int(time.time()))
        chosen: dict[str, object] = {"bind_ip": (LOOPBACK,), "discovery": "off", **self.options}
        environment = Environment(
            key=self.key,
            instance=os.urandom(8),
            incarnation=self.incarnation,
            options=MeshOptions(name=self.name, version="0.1.0", **chosen),  # type: ignore[arg-type]
            clock=self.clock,
            entropy=os.urandom,
            random=random.random,
            append=self._append,
            local=lambda: Local(
                memory_total=1 << 34,
                memory_free=1 << 33,
                devices=(),
                models=self.models,
                codec_certificates=self.claims,
            ),
            on_call=lambda node, channel: self.calls.append((node, channel)),
            store=MeshStore(paths),
            owners=OwnerStore(paths),
            refusals=Refusals(self.clock, self._append),
            nostr_key=paths.data / "nostr.key",
        )
        if self.network is not None:
            return self._in_memory(environment, self.network)
        return MeshService(environment)

    def _in_memory(self, environment: Environment, network: MemoryNetwork) -> MeshService:
        address: list[str] = []

        async def open_sockets(on_link: OnLink) -> MeshSockets:
            transport = network.transport(self.key, on_link)
            address[:] = [transport.address.host]
            transport.port = transport.address.port
            return MeshSockets(transport, None)

        def interfaces(_: object) -> tuple[list[Interface], list[LeftOut]]:
            network_of = ipaddress.ip_network("10.77.0.0/16")
            return [Interface("memory", host, network_of) for host in address], []

        async def tcp_answers(_: object) -> bool:
            return False

        return MeshService(
            replace(environment, interfaces=interfaces, tcp_answers=tcp_answers), open_sockets=open_sockets
        )

    def skew(self, seconds: float) -> None:
        """From now on its clock is ahead by so much."""
        assert isinstance(self.clock, SkewedClock)
        self.clock.ahead = seconds

    def _append(self, event: AnyEvent) -> None:
        self.snapshot = reduce(self.snapshot, event)

    async def invite(self, **wishes: object) -> str:
        """A token."""
        return str((await self.service.invite(**wishes))["token"])  # type: ignore[arg-type]

    async def join(self, token: str) -> JoinView:
        """Joins, or fails to; the checklist at its end."""
        before = self.snapshot.join.started_at if self.snapshot.join is not None else 0.0
        self.service.joiner.begin(token)
        await until(lambda: self._ended(before), 12)
        assert self.snapshot.join is not None
        return self.snapshot.join

    def _ended(self, before: float) -> bool:
        view = self.snapshot.join
        return view is not None and view.started_at != before and view.state != "running"

    def peer(self, other: "Member") -> PeerRow | None:
        """Its row of another member."""
        wanted = other.key.public.hex()
        return next((row for row in self.snapshot.peers if row.node == wanted), None)

    def sees(self, other: "Member", status: str = "alive") -> bool:
        """Whether that member has that status here."""
        row = self.peer(other)
        return row is not None and row.status == status

    def refused(self, kind: str) -> int:
        """How often something of that kind was refused."""
        return sum(view.count for view in self.snapshot.refusals if kind in view.kind)

    def log(self) -> str:
        """All notices."""
        return "\n".join(notice.text for notice in self.snapshot.notices)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits until `condition` holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it may depend on anything
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def members(folder: Path, *names: str, **options: object) -> AsyncIterator[list[Member]]:
    """Members that are in no mesh yet; ended with the block."""
    made = [Member(name, folder / name, options=dict(options)) for name in names]
    try:
        yield made
    finally:
        await asyncio.gather(*(member.service.stop() for member in made))


async def joined(founder: Member, *others: Member) -> None:
    """Puts all into one mesh."""
    for other in others:
        view = await other.join(await founder.invite())
        assert view.state == "joined", view
    for one in (founder, *others):
        for other in (founder, *others):
            if one is not other:
                await until(lambda one=one, other=other: one.sees(other))  # type: ignore[misc]
