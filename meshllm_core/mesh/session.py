"""A membership while it lasts: the running mesh, what is told of it, and what is kept of it on disk."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from meshllm_core.errors import JoinRefused, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import Membership, read_chain
from meshllm_core.membership.gossip import Gossip
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.membership.register import Change, membership_record
from meshllm_core.membership.roster import Roster
from meshllm_core.membership.trust import judge
from meshllm_core.mesh import blocks
from meshllm_core.mesh.announce import Announcer
from meshllm_core.mesh.approvals import Approvals
from meshllm_core.mesh.blocks import Blocks
from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.greeting import Door, Greeted, Greeter, proof_refused
from meshllm_core.mesh.join import Admitted
from meshllm_core.mesh.peer_table import PeerTable
from meshllm_core.mesh.presence import Presence
from meshllm_core.mesh.runtime import Hooks, Mesh
from meshllm_core.mesh.sockets import MeshSockets
from meshllm_core.mesh.storage import MeshState, Publication
from meshllm_core.state.mesh_events import (
    InviteRow,
    InvitesChanged,
    MeshEntered,
)
from meshllm_core.transport.link import Channel
from meshllm_core.wire import handshake as hs
from meshllm_core.wire.announcement import Address

log = logging.getLogger(__name__)

TICK_SECONDS = 0.25
INTERFACES_SECONDS = 5.0
SAVE_SECONDS = 2.0


@dataclass
class Session:
    """Owned by the service; one at a time."""

    environment: Environment
    sockets: MeshSockets
    greeter: Greeter
    state: MeshState
    on_expelled: Callable[[], None]
    """This node's own membership was revoked."""
    on_addresses: Callable[[Sequence[Address]], None]
    """This machine has other addresses now."""
    mesh: Mesh = field(init=False)
    roster: Roster = field(init=False)
    peers: PeerTable = field(init=False)
    presence: Presence = field(init=False)
    blocks: Blocks = field(init=False)
    approvals: Approvals = field(init=False)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    _dirty: bool = False
    _invites: tuple[InviteRow, ...] | None = None

    def __post_init__(self) -> None:
        env, me = self.environment, self.greeter.me
        me.mesh, me.chain = self.state.mesh, self.state.chain
        self.roster = Roster(self.state.mesh, me.key.public)
        self._restore()
        gossip = Gossip(
            me.key.public,
            instance=env.instance,
            incarnation=env.incarnation,
            random=env.random,
            check=self.roster.check,
        )
        announcer = Announcer(
            me=me,
            clock=env.clock,
            incarnation=env.incarnation,
            local=env.local,
            round_trips=self._round_trips,
            members=lambda: len(gossip.peers) + 1,
        )
        self.mesh = Mesh(
            me=me,
            roster=self.roster,
            gossip=gossip,
            transport=self.sockets.transport,
            greeter=self.greeter,
            announcer=announcer,
            clock=env.clock,
            random=env.random,
            entropy=env.entropy,
            tcp_answers=env.tcp_answers,
            hooks=Hooks(
                on_change=self._changed,
                on_peer=lambda node: self.peers.touch(node),
                on_channel=self._channel_came,
                on_notice=env.notice,
                on_refuted=lambda _: None,
                counted=env.refusals.count,
            ),
        )
        for node, addresses in self.state.peers.items():
            self.mesh.book.learn(NodeId(node), addresses)
        self.peers = PeerTable(
            env, self.mesh, {NodeId(node): name for node, name in self.state.names.items()}
        )
        self.mesh.dialler.blocked = self.blocks = Blocks.of(self.state.blocked)
        self.approvals = Approvals(self)
        self.presence = Presence(env, self.mesh, self.on_addresses, self.sockets.takes)
        self.greeter.door = Door(
            judge=self._judge,
            admit=self._admit,
            alone=self.mesh.alone,
            mesh_name=lambda: self.state.name,
            counted=env.refusals.count,
        )

    # Life ---------------------------------------------------------------------------------------

    def _restore(self) -> None:
        """What was known when this node was last in the mesh, and its own membership."""
        env, state = self.environment, self.state
        wall = env.clock.time()
        for error in self.roster.restore(((RecordKind(kind), raw) for kind, raw in state.records), wall):
            log.info("a stored record no longer holds: %s", error.message)
        own = self.roster.verify_chain(state.chain, env.key.public, wall)
        for node in reversed(own.links[1:]):
            # Those above this node in its chain are members too, proved by the same certificates.
            depth = own.links.index(node)
            above = membership_record(read_chain(state.mesh, own.chain[depth:]))
            self.roster.learn(above, wall)
        self.roster.learn(membership_record(own), wall)
        if own.role == "client":
            self.greeter.me.role = "client"

    def greeted(self, admitted: Admitted) -> Greeted:
        """The link on which this node was admitted, as that of a member. Raises ProofInvalid."""
        hello = admitted.hello
        # Who admitted signed our certificate: the rest of our chain is its own.
        membership = self.roster.verify_chain(
            admitted.chain[1:], admitted.link.peer, self.environment.clock.time()
        )
        skew = hello.time - self.environment.clock.time()
        return Greeted(admitted.link, admitted.channel, hello, membership, skew)

    async def start(self, first: Greeted | None = None) -> None:
        """Begins to gossip. `first` is the link on which this node was admitted, if it just was."""
        env, me = self.environment, self.greeter.me
        own = self.roster.membership(me.key.public)
        env.append(
            MeshEntered(
                at=env.clock.time(),
                mesh=self.state.mesh.hex(),
                name=self.state.name,
                role=me.role,
                founder=bool(self.state.root_seed),
                may_invite=bool(own and own.may_invite),
                port=self.sockets.transport.port,
                discovery=env.options.discovery,
            )
        )
        self.presence.refresh()
        self.tell_invites()
        if self.blocks.nodes:
            blocks.tell(self)
        self._tasks = [
            asyncio.create_task(self.mesh.run(), name="mesh"),
            asyncio.create_task(self._keep(), name="mesh keeper"),
        ]
        if first is not None:
            await self.mesh.linked(first)

    async def stop(self, departure: Record | None) -> None:
        """Ends. With a departure the others are told at once."""
        self.presence.stop()
        for task in self._tasks[1:]:
            task.cancel()
        if departure is not None:
            await self.mesh.leave(departure)
        else:
            await self.mesh.close("the node stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.greeter.door = None
        self.save()

    @property
    def healthy(self) -> bool:
        """False when one of the mesh's own tasks has failed."""
        return not any(task.done() for task in self._tasks)

    async def _keep(self) -> None:
        """Everything that is done now and then."""
        looked = saved = float("-inf")
        while True:
            now = self.environment.clock.monotonic()
            if now - looked >= INTERFACES_SECONDS:
                looked = now
                self.presence.refresh()
                self._renew()
                # A member's name is known some time after it used an invite.
                self.tell_invites()
            self.peers.tell()
            self.environment.refusals.flush()
            if self._dirty and now - saved >= SAVE_SECONDS:
                saved = now
                self.save()
            self.presence.measure(now)
            self.approvals.tick()
            await asyncio.sleep(TICK_SECONDS)

    def _renew(self) -> None:
        """Drops what ended, renews what is about to, and takes up a certificate that somebody renewed."""
        env, me = self.environment, self.greeter.me
        wall = env.clock.time()
        self._changed(self.roster.prune(wall))
        me.owner = env.owners.certificate()
        signers = [env.key]
        if self.state.root_seed:
            signers.append(SigningKey(self.state.root_seed))
        for signer in signers:
            for node in self.roster.renewal_due(wall, signer.public):
                self.mesh.publish(self.roster.renew(signer, node, wall=wall, entropy=env.entropy))
                self._dirty = True
        own = self.roster.membership(me.key.public, wall)
        if own is not None and own.chain != me.chain:
            me.chain = own.chain
            self._dirty = True

    # Who comes in -------------------------------------------------------------------------------

    def _judge(self, peer: NodeId, hello: hs.Hello) -> Membership:
        self.blocks.check(peer)
        try:
            membership = self.roster.verify_chain(hello.chain, peer, self.environment.clock.time())
        except ProofInvalid as error:
            if error.reason == "stolen":
                self.environment.refusals.count("stolen certificate", error.message)
            proof = self._revocation(hello.chain) if error.reason == "revoked" else b""
            raise proof_refused(error, proof) from error
        self._check_owner(peer, hello.owner)
        return membership

    def _admit(self, peer: NodeId, hello: hs.Hello, join: hs.Join, address: str) -> Sequence[bytes]:
        self.blocks.check(peer)
        self._check_owner(peer, hello.owner)
        env = self.environment
        admission = self.roster.admit(
            env.key,
            self.approvals.secret_for(peer, hello, join, address),
            peer,
            join.role,
            wall=env.clock.time(),
            entropy=env.entropy,
            present=self.mesh.links,
        )
        self.mesh.publish(admission.records)
        self.approvals.admitted(peer)
        self._dirty = True
        self.tell_invites()
        return admission.chain

    def _check_owner(self, peer: NodeId, certificate: bytes) -> None:
        env = self.environment
        status = judge(env.options.trust_policy, env.owners.trust(), certificate, peer, env.clock.time())
        if not status.admits:
            raise JoinRefused(status.sentence, reason="policy")

    def _channel_came(self, peer: NodeId, channel: Channel) -> None:
        if self.greeter.me.role == "host":
            self.environment.on_call(peer, channel)
        else:
            # A client computes for nobody and has no files for others.
            channel.abort()

    # What is done by request ----------------------------------------------------------------------

    def open_to_public(self, *, max_clients: int) -> None:
        """Strangers are let in as clients from now on. Raises NotPermitted."""
        env = self.environment
        record = self.roster.open_admission(env.key, max_clients=max_clients, wall=env.clock.time())
        self.mesh.publish([record])
        self._dirty = True

    def wish(self, publication: Publication) -> None:
        """Keeps whether the mesh is to be listed, over restarts."""
        self.state = msgspec.structs.replace(self.state, publication=publication)
        self.save()

    def guests(self) -> list[NodeId]:
        """Members that came in without an invite and are there now."""
        admission = self.roster.admission(self.environment.clock.time())
        return [node for node in admission.used_by if node in self.mesh.links] if admission else []

    def is_guest(self, node: NodeId) -> bool:
        """Whether that member came in without an invite."""
        admission = self.roster.admission(self.environment.clock.time())
        return admission is not None and node in admission.used_by

    def close_to_public(self) -> None:
        """Nobody comes in without an invite any more. Raises NotPermitted."""
        env = self.environment
        self.mesh.publish(self.roster.close_admission(env.key, wall=env.clock.time()))
        self._dirty = True

    def publish(self, records: Sequence[Record]) -> None:
        """Spreads records that were signed here, and shows what they change."""
        self.mesh.publish(records)
        self._dirty = True
        self.tell_invites()
        for record in records:
            if record.kind is RecordKind.REVOCATION:
                self._expel(record.raw)

    def _expel(self, proof: bytes) -> None:
        """Links of those that are no members any more are closed."""
        wall = self.environment.clock.time()
        for node in list(self.mesh.links):
            if not self.roster.is_member(node, wall):
                self.mesh.expel(node, proof)
                self.peers.touch(node)

    def _revocation(self, chain: Sequence[bytes]) -> bytes:
        """The signed word that ended the membership of this chain, its own or that of one above it."""
        subjects = {link.subject for link in read_chain(self.state.mesh, chain).links}
        for record in self.roster.records():
            if record.kind is RecordKind.REVOCATION and record.subject in subjects:
                return record.raw
        return b""

    # What is told and kept --------------------------------------------------------------------------

    def _round_trips(self) -> dict[NodeId, float]:
        peers = self.mesh.gossip.peers
        return {
            node: peers[node].round_trip
            for node in self.mesh.links
            if node in peers and peers[node].round_trip
        }

    def _changed(self, change: Change) -> None:
        if change == Change():
            return
        self._dirty = True
        if change.invites:
            self.tell_invites()
        for node in (*change.admitted, *change.revoked, *change.ended):
            self.peers.touch(node)
        if self.greeter.me.key.public in change.revoked:
            self.on_expelled()

    def tell_invites(self) -> None:
        """All invites, as they stand."""
        env = self.environment
        rows = tuple(
            InviteRow(
                id=view.id.hex()[:10],
                role=view.role,
                uses=view.uses,
                used=view.used,
                used_by=tuple(self.peers.name(node) for node in view.used_by),
                created_at=view.created_at,
                expires_at=view.expires_at,
                created_by=view.created_by.hex(),
                state=view.state,
            )
            for view in self.roster.invites(env.clock.time())
        )
        rows = (*rows, *self.approvals.rows(env.clock.time()))
        if rows != self._invites:
            self._invites = rows
            env.append(InvitesChanged(at=env.clock.time(), invites=rows))

    def save(self) -> None:
        """Keeps on disk what a later start needs."""
        self._dirty = False
        others = [member.node for member in self.roster.members()]
        addresses = {node: tuple(self.mesh.book.candidates(node)) for node in others}
        names = {node: self.peers.name(node) for node in others}
        self.state = msgspec.structs.replace(
            self.state,
            chain=self.greeter.me.chain,
            port=self.sockets.transport.port,
            blocked=self.blocks.nodes,
            asking=self.approvals.kept,
            records=tuple((int(record.kind), record.raw) for record in self.roster.records()),
            peers=addresses,
            names={node: name for node, name in names.items() if name != short(node)},
        )
        self.environment.store.save(self.state)
