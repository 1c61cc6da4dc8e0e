"""The mesh of a node from outside: found, invite, join, leave, revoke, publish."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

from meshllm_core.discovery.token import Invite, encode, fitting
from meshllm_core.errors import AlreadyInMesh, InvalidRequest, MeshError, NodeError, NotInMesh, NotPermitted
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership.certificates import found
from meshllm_core.membership.gossip_records import departure_record
from meshllm_core.membership.records import Record
from meshllm_core.mesh.blocks import block, unblock
from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.greeting import Greeter, Me
from meshllm_core.mesh.join import Admitted
from meshllm_core.mesh.joiner import Joiner
from meshllm_core.mesh.nearby import Surroundings
from meshllm_core.mesh.permission import cannot_invite, cannot_revoke
from meshllm_core.mesh.public import PublicListing
from meshllm_core.mesh.session import Session
from meshllm_core.mesh.sockets import MeshSockets, open_sockets
from meshllm_core.mesh.storage import MeshState, Publication
from meshllm_core.mesh.tasks import Tasks
from meshllm_core.state.mesh_events import MeshLeft
from meshllm_core.transport.link import Link, OnLink
from meshllm_core.wire.announcement import Address, Role
from meshllm_core.wire.limits import HANDSHAKE_SECONDS

log = logging.getLogger(__name__)

INVITE_SECONDS = 3600.0
"""An invite lasts an hour unless told otherwise."""


class _Wishes(TypedDict):
    """What an invite allows."""

    uses: int
    expires_at: float
    role: Role
    may_invite: bool


OpenSockets = Callable[[OnLink], Awaitable[MeshSockets]]


@dataclass
class MeshService:
    """One per node. Its methods raise MeshError; all run on the node's loop."""

    environment: Environment
    open_sockets: OpenSockets | None = None
    """Tests listen in memory."""
    session: Session | None = None
    sockets: MeshSockets | None = None
    _listing: PublicListing | None = None
    _tasks: Tasks = field(default_factory=Tasks)
    _last_port: int = 0
    _stopped: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        env = self.environment
        me = Me(
            key=env.key,
            instance=env.instance,
            name=env.options.name,
            role=env.options.role,
            version=env.options.version,
            owner=env.owners.certificate(),
        )
        self.greeter = Greeter(me, env.clock)
        self.surroundings = Surroundings(env, self._found_nearby)
        self.joiner = Joiner(self)

    # Life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Enters the mesh that this node was in when it stopped, if any."""
        # Whom to trust decides who comes in: a file that cannot be read is told before anybody does.
        self.environment.owners.read_trust()
        await self.resume()

    async def resume(self) -> None:
        """Enters the mesh that this node is a member of, if it is in none now. Raises MeshError."""
        async with self.turn:
            if self._stopped or self.session is not None:
                return
            if (state := self.environment.store.load()) is not None:
                await self.enter(state)

    async def stop(self) -> None:
        """The node stops: the others are told, and the membership is kept."""
        self._stopped = True
        await self.joiner.stop()
        async with self.turn:
            if self.session is not None:
                await self._end(self.session)
            await self.close_sockets()
        await self._tasks.stop()

    async def enter(self, state: MeshState, admitted: Admitted | None = None) -> Session:
        self._last_port = state.port
        sockets = await self.listen()
        try:
            session = Session(
                self.environment,
                sockets,
                self.greeter,
                state,
                on_expelled=self._expelled,
                on_addresses=self._addresses_changed,
            )
            first = session.greeted(admitted) if admitted is not None else None
        except MeshError:
            # A membership that does not hold any more is not shown to others either.
            self.introduce_as_nobody()
            await self.close_sockets()
            raise
        self.session = session
        await session.start(first)
        session.save()
        await self.surroundings.set_mesh(state.mesh)
        if state.publication.on:
            self._publish(session, state.publication)
        return session

    async def listen(self) -> MeshSockets:
        if self.sockets is None:
            env = self.environment
            opening = self.open_sockets or partial(
                open_sockets, env.key, env.options, counted=env.refusals.count, last=self._last_port
            )
            self.sockets = await opening(self._link_came)
            addresses = [interface.address for interface in env.interfaces(env.options.bind_ip)[0]]
            await self.surroundings.start(mesh=None, port=self.sockets.transport.port, addresses=addresses)
            self._tasks.start(self.surroundings.check_multicast(addresses), "multicast")
        return self.sockets

    async def close_sockets(self) -> None:
        await self.surroundings.close()
        if self.sockets is not None:
            await self.sockets.close()
            self.sockets = None

    async def _end(self, session: Session) -> None:
        """Says goodbye and takes the listing down."""
        if self._listing is not None:
            listing, self._listing = self._listing, None
            await asyncio.gather(listing.stop(), session.stop(self._departure(session)))
        else:
            await session.stop(self._departure(session))
        self.session = None

    def _found_nearby(self, node: NodeId, addresses: Sequence[Address], ours: bool) -> None:
        if self.session is not None:
            self.session.mesh.seen_nearby(node, addresses, ours=ours)

    def _addresses_changed(self, addresses: Sequence[Address]) -> None:
        hosts = [address.host for address in addresses]
        self._tasks.start(self.surroundings.update(hosts), "nearby")

    def _expelled(self) -> None:
        self.environment.notice("error", "This node's membership was revoked by a member of the mesh.")
        self._tasks.start(self._leave("its membership was revoked"), "leave")

    async def _link_came(self, link: Link) -> None:
        if self.session is None:
            # The port is open a moment before the mesh is entered, and the others dial at once.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANDSHAKE_SECONDS), self.turn:
                    pass
        if self.session is None:
            self.environment.refusals.count("no mesh", f"{link.address} connected while this node is in none")
            link.close("this node is in no mesh")
            return
        await self.session.mesh.accept(link)

    def _departure(self, session: Session) -> Record:
        return departure_record(self.environment.key, session.state.mesh, session.mesh.announcer.incarnation)

    # Actions ------------------------------------------------------------------------------------

    async def found(self, name: str = "") -> Session:
        """The session; of a new mesh with this node as its first member where there was none.

        Whoever asks at the same time, or while this node joins or leaves, waits for the outcome.
        """
        async with self.turn:
            self.check_running()
            if self.session is not None:
                return self.session
            env = self.environment
            if (stored := env.store.load()) is not None:
                # Entering it failed when the node started, as when the port was taken; it is a member still.
                return await self.enter(stored)
            root = SigningKey(env.entropy(32))
            chain = found(root, env.key.public, wall=env.clock.time(), entropy=env.entropy)
            state = MeshState(
                mesh=MeshId(root.public), name=name or env.options.mesh_name, root_seed=root.seed, chain=chain
            )
            return await self.enter(state)

    def check_running(self) -> None:
        """Raises NodeError once the node stops: what is begun then would be left half done."""
        if self._stopped:
            raise NodeError("This node is stopping.", hint="Start it again first.")

    async def invite(
        self,
        *,
        uses: int = 1,
        expires_seconds: float = INVITE_SECONDS,
        role: Role = "host",
        may_invite: bool = False,
        approve: bool = False,
    ) -> dict[str, object]:
        """A new invite; founds a mesh where there is none. `expires_seconds` 0: never.

        With `approve` who comes waits until a person lets it in, by `decide`.
        Raises NotPermitted, InvalidRequest.
        """
        session = await self.found()
        env = self.environment
        now = env.clock.time()
        expires_at = now + expires_seconds if expires_seconds else 0.0
        secret = env.entropy(16)
        wishes: _Wishes = {"uses": uses, "expires_at": expires_at, "role": role, "may_invite": may_invite}
        try:
            if approve:
                identity = session.approvals.invite(secret, **wishes)
            else:
                record = session.roster.create_invite(env.key, secret=secret, wall=now, **wishes)
                identity = record.subject
                session.publish([record])
        except NotPermitted as error:
            raise cannot_invite(session, error) from None
        session.save()
        # An IPv6 address makes the code coarser to print and finer to read: only where there is no other.
        own = self.greeter.me.addresses
        told = [address for address in own if ":" not in address.host] or own
        addresses = fitting((address.host, address.port) for address in told)
        token = encode(
            Invite(
                node=env.key.public,
                secret=secret,
                mesh=session.state.mesh[:8],
                expires_at=int(expires_at),
                addresses=addresses,
                role=role,
            )
        )
        return {
            "token": token,
            "id": identity.hex()[:10],
            "role": role,
            "uses": uses,
            "may_invite": may_invite,
            "approve": approve,
            "expires_at": expires_at,
            "addresses": [str(address) for address in addresses],
        }

    async def leave(self) -> None:
        """Ends the membership; what was known of the mesh is forgotten. Raises NotInMesh, AlreadyInMesh."""
        if self.session is None and self.joiner.waiting:
            await self.joiner.give_up()
            return
        if self.session is None and self.joiner.running:
            raise AlreadyInMesh("This node is joining a mesh just now.", hint="Leave it once it has joined.")
        if self.session is None and self.environment.store.exists():
            # A file that cannot be read, or not by this version, is told of.
            self.environment.store.load()
            self.environment.store.clear()
            return
        self._session()
        await self._leave("asked to")

    def introduce_as_nobody(self) -> None:
        """This node is a member of nothing."""
        me = self.greeter.me
        me.mesh, me.chain, me.role = None, (), self.environment.options.role
        self.greeter.door = None

    async def _leave(self, reason: str) -> None:
        async with self.turn:
            if self.session is None:
                return
            await self._end(self.session)
            aside = self.environment.store.clear()
            if aside is not None:
                self.environment.notice("info", f"The root key of the mesh that was left is kept in {aside}.")
            self.introduce_as_nobody()
            await self.close_sockets()
            self.environment.append(MeshLeft(at=self.environment.clock.time(), reason=reason))

    async def public(
        self, on: bool, *, name: str | None = None, region: str | None = None, max_clients: int | None = None
    ) -> dict[str, object]:
        """Lists the mesh on public relays and lets strangers in as clients, or ends both.

        Founds a mesh where there is none. Raises NotPermitted, NotInMesh.
        """
        options = self.environment.options
        if not on:
            session = self._session()
            staying = [session.peers.name(node) for node in session.guests()]
            session.close_to_public()
            session.wish(Publication(on=False))
            listing, self._listing = self._listing, None
            if listing is not None:
                await listing.stop()
            return {"public": False, "staying": staying}
        session = await self.found(name or "")
        wish = Publication(
            on=True,
            name=session.state.name if name is None else name,
            region=options.region if region is None else region,
            max_clients=max_clients or options.max_clients,
        )
        session.open_to_public(max_clients=wish.max_clients)
        session.wish(wish)
        if self._listing is not None:
            await self._listing.stop()
        self._publish(session, wish)
        return {"public": True, "name": wish.name, "region": wish.region, "max_clients": wish.max_clients}

    def _publish(self, session: Session, wish: Publication) -> None:
        self._listing = PublicListing(self.environment, session, wish)
        self._listing.start()

    def revoke(self, target: str, *, confirm: bool) -> dict[str, object]:
        """Ends a membership (with everybody it let in) or an invite. Without `confirm` tells who would go.

        Raises NotInMesh, NotPermitted, InvalidRequest.
        """
        session, env = self._session(), self.environment
        if withdrawn := session.approvals.withdraw(target, confirm=confirm):
            return {"revoked": [withdrawn], "done": confirm}
        identity = session.roster.resolve(target)
        going = session.roster.would_revoke(identity, env.key.public)
        if identity == env.key.public:
            raise InvalidRequest("A node cannot revoke itself.", hint="Use `meshllm leave`.", param="target")
        if not going and session.roster.membership(NodeId(identity)) is not None:
            # Told before anybody is asked whether to go on.
            refusal = NotPermitted(f"{short(env.key.public)} may not revoke {short(identity)}.")
            raise cannot_revoke(session, refusal, identity)
        names = [session.peers.name(node) for node in going]
        if confirm:
            try:
                records = session.roster.revoke(env.key, identity, wall=env.clock.time())
            except NotPermitted as error:
                raise cannot_revoke(session, error, identity) from None
            session.publish(records)
            session.save()
        return {"revoked": names if going else [identity.hex()[:10]], "done": confirm}

    def forget(self, node: str) -> None:
        """Takes a member that is gone off the list; it comes back with its next word. Raises."""
        session = self._session()
        identity = NodeId(session.roster.resolve(node))
        state = session.mesh.peer(identity)
        if state is not None and state.status in ("alive", "suspect"):
            raise InvalidRequest(
                "That member is there.", hint="`meshllm revoke` ends its membership.", param="node"
            )
        session.peers.dismiss(identity)

    def block(self, node: str) -> str:
        """Neither links nor routes to a member any more; its name. Raises NotInMesh, InvalidRequest."""
        return block(self._session(), node)

    def decide(self, node: str, *, admit: bool) -> str:
        """Lets a machine in that waits, or not; its name. Raises NotInMesh, InvalidRequest."""
        return self._session().approvals.decide(node, admit=admit)

    def unblock(self, node: str) -> str:
        """Takes that back; its name. Raises NotInMesh, InvalidRequest."""
        return unblock(self._session(), node)

    def _session(self) -> Session:
        if self.session is None:
            raise NotInMesh(
                "This node is in no mesh.",
                hint="Found one with `meshllm invite`, or join one with `meshllm join TOKEN`.",
            )
        return self.session
