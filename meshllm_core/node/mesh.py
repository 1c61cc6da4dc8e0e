"""The mesh as part of a node: made when it is first needed, fed with the node's state, asked by routing."""

import asyncio
import logging
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from meshllm_core import __version__
from meshllm_core.config import Settings
from meshllm_core.errors import (
    IdentityError,
    JoinFailed,
    MeshError,
    MeshNetworkError,
    NodeError,
    PeerUnreachable,
    describe,
)
from meshllm_core.ids import NodeId
from meshllm_core.mesh.tasks import Tasks
from meshllm_core.node.certificate_exchange import CertificateExchange
from meshllm_core.node.lending import Lending
from meshllm_core.node.mesh_calls import MeshCalls
from meshllm_core.node.mesh_local import local_of
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths
from meshllm_core.serve.answering import Asker, CallLimits
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import NoticeLogged
from meshllm_core.state.mesh_events import IdentityLoaded
from meshllm_core.state.pace import pace_of
from meshllm_core.transport.link import Channel

if TYPE_CHECKING:
    from meshllm_core.identity.keys import SigningKey
    from meshllm_core.identity.storage import StoredKey
    from meshllm_core.mesh.service import MeshService
    from meshllm_core.mesh.session import Session
    from meshllm_core.node.hosts import Hosts
    from meshllm_core.node.split_mesh import MeshOfSplits
    from meshllm_core.node.stage_desk import StageDesk

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""Between two tries of a join that was asked for at the start and found nobody."""


class SystemClock:
    """The machine's own time."""

    def monotonic(self) -> float:
        """Seconds; on Linux it stands still while the machine sleeps, so sleep is seen as no time at all."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()


@dataclass
class NodeMesh:
    """Implements serve.peers.Peers. Everything of the mesh is imported at its first use: a node by itself
    spends neither time nor memory on it."""

    settings: Settings
    paths: Paths
    store: EventStore
    name: str
    inference: InferenceService = field(init=False)
    hosts: "Hosts" = field(init=False)
    _key: "asyncio.Task[StoredKey] | None" = None
    _service: "MeshService | None" = None
    _desk: "StageDesk | None" = None
    _tasks: Tasks = field(default_factory=Tasks)
    _starting: Tasks = field(default_factory=Tasks)

    def __post_init__(self) -> None:
        self.lending = Lending(self.store, self.name, self.settings.client)
        limits = CallLimits(closed=self.lending.closed)
        self.exchange = CertificateExchange(self.paths, self.store, self.session, lambda: self.inference.node)
        self._calls = MeshCalls(lambda: self.inference, self.desk, limits, self.exchange.lookup)

    # Splits -----------------------------------------------------------------------------------------

    def session(self) -> "Session | None":
        """The membership, while there is one."""
        return self._service.session if self._service is not None else None

    def desk(self) -> "StageDesk":
        """Where calls about stages arrive; made at its first use."""
        if self._desk is None:
            from meshllm_core.node.stage_desk import StageDesk
            from meshllm_core.node.stage_host import Surroundings

            splits = self.splits
            around = Surroundings(
                settings=self.settings,
                paths=self.paths,
                append=self.store.append,
                memory_usable=self.memory_lent,
                open_transfer=lambda node: splits().open_transfer(node),
                open_call=lambda node: splits().open_call(node),
                closed=self.lending.closed,
            )
            self._desk = StageDesk(around, self._counted)
        return self._desk

    def splits(self) -> "MeshOfSplits":
        """The mesh as a model sees it that is to be spread over machines."""
        from meshllm_core.node.split_mesh import MeshOfSplits

        return MeshOfSplits(
            name=self.name,
            session=self.session,
            memory_usable=self.memory_lent,
            pace=lambda: pace_of(self.store.snapshot),
            kind=self._device_kind,
            node=lambda: self.inference.node,
            desk=self.desk(),
            gather_certificates=self.exchange.gather,
        )

    def memory_lent(self) -> int:
        """Bytes that a stage may take here now."""
        return self.hosts.memory_usable(self._desk.memory_held if self._desk is not None else 0)

    def _device_kind(self) -> str:
        kinds = (device.kind for device in self.store.snapshot.devices if device.kind != "cpu")
        return "cpu" if self.settings.device == "CPU" else next(kinds, "cpu")

    def _counted(self, kind: str, detail: str) -> None:
        if self._service is not None:
            self._service.environment.refusals.count(kind, detail)

    # Routing --------------------------------------------------------------------------------------

    def replicas(self) -> Sequence[Replica]:
        """Every model of every other node that is alive and linked."""
        session = self._service.session if self._service is not None else None
        if session is None:
            return ()
        now = time.monotonic()
        found = []
        for node in session.mesh.links:
            state = session.mesh.peer(node)
            if state is None or state.status != "alive" or state.announcement is None:
                continue
            if state.announcement.role != "host":
                continue
            name = session.peers.name(node)
            trip, since = state.round_trip, now - state.last_heard
            found += [Replica(node, name, offer, trip, since) for offer in state.announcement.models]
        return found

    async def open_call(self, node: NodeId) -> Channel:
        """A CALL channel to that node. Raises PeerUnreachable, LinkClosed."""
        session = self._service.session if self._service is not None else None
        if session is None:
            raise PeerUnreachable("This node is in no mesh any more.")
        from meshllm_core.transport.link import ChannelKind

        return await session.mesh.link_to(node).greeted.link.open(ChannelKind.CALL)

    def _call_came(self, node: NodeId, channel: Channel) -> None:
        assert self._service is not None
        session = self._service.session
        if session is None:
            channel.abort()
            return
        asker = Asker(session.peers.name(node), node, session.is_guest(node))
        self._tasks.start(self._calls.take(asker, channel), "call")

    # Life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Loads the key in the background, then enters the mesh that was asked for or that it was in."""
        self._key = asyncio.create_task(self._load_key(), name="identity")
        self._starting.start(self._begin(), "mesh start")
        if not self.settings.client:
            self._tasks.start(self._keep_pace(), "pace")
            self._tasks.start(self.exchange.keep(), "certificates")

    async def stop(self) -> None:
        """Says goodbye to the others. A join that was asked for at the start is given up."""
        await self._starting.stop()
        if self._service is not None:
            await self._service.stop()
        await self._tasks.stop()
        if self._key is not None:
            await asyncio.gather(self._key, return_exceptions=True)

    async def _keep_pace(self) -> None:
        """How fast this machine computes, for whoever plans with it."""
        from meshllm_core.node.calibrate import PaceKeeper

        keeper = PaceKeeper(self.settings, self.paths, self.store.append, lambda: self.store.snapshot)
        await keeper.run(await asyncio.shield(self.hosts.hardware))

    async def _load_key(self) -> "StoredKey":
        from meshllm_core.identity.storage import load_or_create

        stored = await asyncio.to_thread(load_or_create, self.paths)
        node = stored.key.public
        self.inference.node = node
        self.store.append(IdentityLoaded(at=time.time(), node=node.hex(), storage=stored.storage))
        if stored.copied:
            self._notice(
                "warning",
                "This home folder came from another machine. If that one runs too, make a new key here: "
                "`meshllm id --new`. If it moved here, say so: `meshllm id --keep`.",
            )
        return stored

    async def _begin(self) -> None:
        settings = self.settings
        try:
            from meshllm_core.mesh.storage import MeshStore

            stored = MeshStore(self.paths).exists()
            if not (stored or settings.join or settings.auto or settings.publish or settings.mesh_name):
                if settings.client:
                    self._notice(
                        "warning",
                        "This client is in no mesh, so no model answers. Join one: `meshllm join TOKEN`.",
                    )
                return
            service = await self._resumed()
            if service.session is None and settings.join:
                await self._join_until_done(service)
            elif service.session is None and settings.auto:
                await self._auto(service)
            elif service.session is None and (settings.mesh_name or settings.publish):
                await service.found()
            if settings.publish and service.session is not None:
                await service.public(True)
        except MeshError as error:
            self._notice("error", describe(error))

    async def _resumed(self) -> "MeshService":
        """The service, in the mesh that this node is a member of, if it is of any.

        A port that is taken or an address that is away may be a matter of seconds: of a node that is just
        ending, or of a network that comes up later than this program.
        """
        told = ""
        while True:
            try:
                service = await self.service()
                await service.resume()
                return service
            except IdentityError:
                raise
            except NodeError as error:
                if told != (told := describe(error)):
                    self._notice("error", f"{told} It is tried again every {RETRY_SECONDS:.0f} s.")
                await asyncio.sleep(RETRY_SECONDS)

    async def _join_until_done(self, service: "MeshService") -> None:
        """An invite given at the start: somebody may not be there yet. A clear no ends it."""
        from meshllm_core.discovery.token import decode
        from meshllm_core.mesh.joiner import wanted_of

        wanted = wanted_of(decode(self.settings.join), service.environment.options.role)
        while service.session is None:
            try:
                await service.joiner.by_invite(wanted, "by the invite given at the start")
            except JoinFailed as error:
                log.info("joining failed and is tried again: %s", describe(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _auto(self, service: "MeshService") -> None:
        from meshllm_core.discovery.score import Wants

        wants = Wants(region=self.settings.region, model="auto" if self.settings.client else "")
        while service.session is None:
            try:
                await service.joiner.public(wants)
            except MeshNetworkError as error:
                # A no, too: another mesh may be listed the next time.
                log.info("no public mesh was joined: %s", describe(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def signing_key(self) -> "SigningKey":
        """This node's key. Raises IdentityError."""
        assert self._key is not None
        return (await asyncio.shield(self._key)).key

    async def service(self) -> "MeshService":
        """The service, made and started at the first call. Raises MeshError."""
        assert self._key is not None
        stored = await asyncio.shield(self._key)
        if self._service is None:
            await asyncio.to_thread(_import_mesh)
        if self._service is None:
            self._service = service = self._make(stored)
            await service.start()
        return self._service

    def _make(self, stored: "StoredKey") -> "MeshService":
        from meshllm_core.mesh.counters import Refusals
        from meshllm_core.mesh.environment import Environment
        from meshllm_core.mesh.options import MeshOptions
        from meshllm_core.mesh.owner_store import OwnerStore
        from meshllm_core.mesh.service import MeshService
        from meshllm_core.mesh.storage import MeshStore

        settings, clock = self.settings, SystemClock()
        options = MeshOptions(
            name=self.name,
            version=__version__,
            role="client" if settings.client else "host",
            mesh_name=settings.mesh_name,
            discovery=settings.mesh_discovery_mode,
            bind_ip=settings.bind_ip,
            bind_port=settings.bind_port,
            region=settings.region,
            max_clients=settings.max_clients,
            relays=settings.nostr_relays,
            trust_policy=settings.trust_policy,
        )
        environment = Environment(
            key=stored.key,
            instance=os.urandom(8),
            incarnation=stored.incarnation,
            options=options,
            clock=clock,
            entropy=os.urandom,
            random=random.random,
            append=self.store.append,
            local=lambda: local_of(
                self.store.snapshot,
                serves=not settings.client,
                memory_lent=self.memory_lent(),
                claims=self.exchange.claims,
            ),
            on_call=self._call_came,
            store=MeshStore(self.paths),
            owners=OwnerStore(self.paths),
            refusals=Refusals(clock, self.store.append),
            nostr_key=self.paths.data / "nostr.key",
        )
        return MeshService(environment)

    # Actions --------------------------------------------------------------------------------------

    async def act(self, name: str, arguments: dict[str, Any]) -> dict[str, object]:
        """One of the mesh's actions, with checked arguments. Raises MeshError."""
        if name == "lending":
            return self.lending.set(**arguments)
        service = await self.service()
        match name:
            case "invite":
                return await service.invite(**arguments)
            case "join":
                service.joiner.begin(arguments["token"])
                return {"status": "joining"}
            case "leave":
                await service.leave()
                return {"status": "left"}
            case "revoke":
                return service.revoke(arguments["target"], confirm=arguments.get("confirm", False))
            case "public":
                return await service.public(**arguments)
            case "approve" | "refuse":
                told = service.decide(arguments["node"], admit=name == "approve")
                return {"name": told, "status": "approved" if name == "approve" else "refused"}
            case "block":
                return {"name": service.block(**arguments), "status": "blocked"}
            case "unblock":
                return {"name": service.unblock(**arguments), "status": "unblocked"}
            case "forget":
                service.forget(arguments["node"])
                return {"status": "forgotten"}
            case _:
                raise AssertionError(f"action {name} is in the table and not in act()")

    def _notice(self, level: Any, text: str) -> None:
        self.store.append(NoticeLogged(at=time.time(), level=level, source="mesh", text=text))


def _import_mesh() -> None:
    """In a thread: reading these modules from disk takes longer than requests should have to wait."""
    import meshllm_core.mesh.service  # noqa: F401
