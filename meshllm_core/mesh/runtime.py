"""A mesh as one member runs it: drives the gossip machine, keeps the links, tells what changed."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from meshllm_core.errors import JoinRefused, MeshNetworkError, PeerUnreachable, ProofInvalid, WireError
from meshllm_core.ids import NodeId, short
from meshllm_core.membership import gossip_events as go
from meshllm_core.membership.gossip import Gossip
from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.membership.gossip_records import announcement_record, death_record
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.membership.register import Change, membership_record
from meshllm_core.membership.roster import Roster
from meshllm_core.mesh import control
from meshllm_core.mesh.absent import Absent
from meshllm_core.mesh.addresses import AddressBook
from meshllm_core.mesh.announce import Announcer
from meshllm_core.mesh.dialler import Dialler
from meshllm_core.mesh.greeting import Greeted, Greeter, Me
from meshllm_core.mesh.peer_link import Handlers, PeerLink
from meshllm_core.mesh.reach import ReachTest, TcpAnswers
from meshllm_core.mesh.refusals import COPIED
from meshllm_core.mesh.tasks import Tasks
from meshllm_core.state.event import NoticeLevel
from meshllm_core.transport.link import Channel, Clock, Link, Transport
from meshllm_core.wire import gossip as wire
from meshllm_core.wire import handshake as hs
from meshllm_core.wire.announcement import Address

log = logging.getLogger(__name__)

PROBE_SECONDS = 1.0
"""So long an old link may take to prove that its process still lives, when a new one claims its key."""
SIMULTANEOUS_SECONDS = 3.0
"""Two links made within this time were dialled by both sides at once."""
HOUSEKEEPING_SECONDS = 0.25
EXPEL_SECONDS = 0.3
GOODBYE_SECONDS, GOODBYE_TRIES = 0.5, 10
"""So long the last words may take to leave."""


@dataclass(frozen=True)
class Hooks:
    """What the mesh tells to those above. Called on the loop; none may wait."""

    on_change: Callable[[Change], None]
    """Members, invites or revocations changed."""
    on_peer: Callable[[NodeId], None]
    """Something about a peer changed."""
    on_channel: Callable[[NodeId, Channel], None]
    """A member opened a CALL or TRANSFER channel."""
    on_notice: Callable[[NoticeLevel, str], None]
    """(level, text) for a person."""
    on_refuted: Callable[[int], None]
    """This node had to take a new incarnation."""
    counted: Callable[[str, str], None]


@dataclass
class Mesh:
    """Made when the node becomes a member; `run` lasts until it leaves."""

    me: Me
    roster: Roster
    gossip: Gossip
    transport: Transport
    greeter: Greeter
    announcer: Announcer
    clock: Clock
    random: Callable[[], float]
    entropy: Callable[[int], bytes]
    hooks: Hooks
    tcp_answers: TcpAnswers
    book: AddressBook = field(default_factory=AddressBook)
    links: dict[NodeId, PeerLink] = field(default_factory=dict)
    failures: dict[NodeId, MeshNetworkError] = field(default_factory=dict)
    """Why the last dial of a node failed."""
    _tasks: Tasks = field(default_factory=Tasks)
    _probes: dict[bytes, "asyncio.Future[None]"] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _flushing: bool = False
    _closed: bool = False

    def __post_init__(self) -> None:
        self.absent = Absent(self.random)
        self.reach = ReachTest(self.transport, self.clock, self.entropy, self.tcp_answers)
        self.transport.on_knock = self.reach.knocked
        self.dialler = Dialler(
            transport=self.transport,
            greeter=self.greeter,
            book=self.book,
            clock=self.clock,
            random=self.random,
            on_greeted=self.linked,
            on_failure=self._dial_failed,
        )
        self._handlers = Handlers(
            on_gossip=self._gossip_came,
            on_handshake=self._handshake_came,
            on_channel=lambda link, channel: self.hooks.on_channel(link.peer, channel),
            counted=self.hooks.counted,
        )

    # Life ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Drives gossip and dialling until `close`."""
        for record in self.roster.records():
            self.gossip.publish(record, self.clock.monotonic())
        housekeeping = self.clock.monotonic()
        while not self._closed:
            now = self.clock.monotonic()
            self.gossip.tick(now, self.clock.time())
            if now >= housekeeping:
                housekeeping = now + HOUSEKEEPING_SECONDS
                self._keep_house()
            self._hand_out()
            pause = max(0.0, min(self.gossip.deadline(), housekeeping) - self.clock.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            self._woken.clear()

    def _keep_house(self) -> None:
        self.announce()
        wall = self.clock.time()
        members = {member.node for member in self.roster.members(wall)} - {self.me.key.public}
        wanted = [node for node in self.gossip.wanted_links() if node in members]
        if not self.links:
            # After a restart nobody has announced anything yet: everybody who may be here is asked.
            wanted += members
        cared_for = {node for node, state in self.gossip.peers.items() if state.status != "left"}
        silent = members - cared_for - self.links.keys()
        wanted = list(dict.fromkeys([*wanted, *self.absent.wanted(silent, self.clock.monotonic())]))
        self.dialler.want([node for node in wanted if node not in self.links])

    def announce(self) -> None:
        """Says what is new of this node, if it is time."""
        announcement = self.announcer.due()
        if announcement is not None:
            self.gossip.publish(announcement_record(self.me.key, announcement), self.clock.monotonic())
            self.flush()

    def publish(self, records: Iterable[Record]) -> None:
        """Spreads records that were made here."""
        for record in records:
            self.gossip.publish(record, self.clock.monotonic())
        self.flush()

    async def leave(self, departure: Record) -> None:
        """Says goodbye, gives it a moment to travel, and closes."""
        # Those who heard it close their links: a link made anew would say that this node is still here.
        self._closed = True
        self._woken.set()
        await self.dialler.close()
        self.gossip.leave(departure, self.clock.monotonic())
        self.flush()
        for _ in range(GOODBYE_TRIES):
            await asyncio.sleep(GOODBYE_SECONDS / GOODBYE_TRIES)
            if not any(link.waiting for link in self.links.values()):
                break
        await self.close("left the mesh")

    async def close(self, reason: str) -> None:
        """Ends links and dials; the transport stays."""
        self._closed = True
        self._woken.set()
        await self.dialler.close()
        await self.reach.close()
        for link in list(self.links.values()):
            link.close(reason)
        await self._tasks.stop()

    # Links --------------------------------------------------------------------------------------

    async def accept(self, link: Link) -> None:
        """A connection came in: greet it, and keep it if it is a member's."""
        if self._closed:
            link.close("this node is leaving")
            return
        greeted = await self.greeter.welcome(link)
        if greeted is not None:
            await self.linked(greeted)

    async def linked(self, greeted: Greeted) -> None:
        """A member is at the far end: from now on gossip and calls travel here."""
        peer, now = greeted.link.peer, self.clock.monotonic()
        if self._closed:
            greeted.link.close("this node is leaving")
            return
        before = self.links.get(peer)
        link = PeerLink(greeted, now, self._handlers)
        if before is not None and not self._replaces(link, before):
            greeted.link.close("there is a link already")
            return
        if before is not None:
            before.close("replaced by a newer link")
        self.links[peer] = link
        self.failures.pop(peer, None)
        self.absent.found(peer)
        self.book.learn(peer, greeted.hello.addresses)
        self.book.worked(peer, greeted.link.address)
        self._tasks.start(self._hold(link), f"link {short(peer)}")
        # It may have been let in while this node was away: nobody else may be there to tell.
        membership = membership_record(greeted.membership)
        self.gossip.publish(membership, now)
        self._learn(membership)
        self.gossip.linked(peer, now)
        self.hooks.on_peer(peer)
        self.flush()

    def _replaces(self, new: PeerLink, old: PeerLink) -> bool:
        """Of two links to one process both sides keep the same one, and a link that is lost is replaced."""
        if new.instance != old.instance or new.since - old.since > SIMULTANEOUS_SECONDS:
            return True
        ours = self.me.key.public < new.peer
        return new.greeted.link.dialled == ours or old.greeted.link.dialled == new.greeted.link.dialled

    async def _hold(self, link: PeerLink) -> None:
        await link.run()
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            log.info("link to %s ended: %s", short(link.peer), link.reason)
            self.gossip.unlinked(link.peer, self.clock.monotonic(), said_goodbye=False)
            self.hooks.on_peer(link.peer)
            self.flush()

    async def alone(self, peer: NodeId, instance: bytes) -> None:
        """Raises JoinRefused when another process with the key of `peer` answers now."""
        if peer == self.me.key.public:
            self.hooks.on_notice("error", COPIED)
            raise JoinRefused("It has this very node's key.", reason="duplicate_identity")
        old = self.links.get(peer)
        if old is None or old.instance == instance:
            return
        nonce = self.entropy(8)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._probes[nonce] = answer
        old.push(control.HANDSHAKE + hs.encoder.encode(hs.Probe(nonce=nonce)))
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await answer
        except TimeoutError:
            return
        finally:
            self._probes.pop(nonce, None)
        raise JoinRefused("Another machine with the same key is linked.", reason="duplicate_identity")

    def _refused_by(self, peer: NodeId, proof: bytes) -> None:
        """A member says that this node is none any more: that counts if it is signed by who may say so."""
        try:
            record = self.roster.check(RecordKind.REVOCATION, proof, self.clock.time())
        except ProofInvalid as error:
            self.hooks.counted("refused revocation", f"from node {short(peer)}: {error.message}")
            return
        self._learn(record)

    def _dial_failed(self, node: NodeId, error: MeshNetworkError) -> None:
        self.failures[node] = error
        if isinstance(error, JoinRefused) and error.proof:
            self._refused_by(node, error.proof)
        if isinstance(error, ProofInvalid):
            self.hooks.counted("wrong key", error.message)
        if isinstance(error, JoinRefused) and error.reason == "duplicate_identity":
            self.hooks.on_notice("error", COPIED)
        self.hooks.on_peer(node)

    def link_to(self, node: NodeId) -> PeerLink:
        """The live link to a member. Raises PeerUnreachable."""
        link = self.links.get(node)
        if link is None:
            raise PeerUnreachable(
                f"There is no link to node {short(node)} now.", hint="`meshllm members` shows who is there."
            )
        return link

    # What comes in -------------------------------------------------------------------------------

    def _gossip_came(self, peer: NodeId, body: bytes) -> None:
        message = wire.decode(body)
        self.gossip.receive(peer, message, self.clock.monotonic(), self.clock.time())
        self._flush_soon()

    def _handshake_came(self, link: PeerLink, body: bytes) -> None:
        message = control.decode(body)
        match message:
            case hs.Probe(nonce=nonce):
                link.push(control.HANDSHAKE + hs.encoder.encode(hs.ProbeAnswer(nonce=nonce)))
            case hs.ProbeAnswer(nonce=nonce):
                waiting = self._probes.get(nonce)
                if waiting is not None and not waiting.done():
                    waiting.set_result(None)
            case hs.DialBack():
                self.reach.asked(link, message)
            case hs.DialedBack():
                self.reach.answered(message)
            case hs.Refusal(proof=proof):
                self._refused_by(link.peer, proof)
            case _:
                raise WireError("A member sent a message that only a stranger may send.")

    # What goes out -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hands out what gossip wants to send and to tell, and looks at its deadline anew."""
        self._flushing = False
        self._hand_out()
        self._woken.set()

    def _hand_out(self) -> None:
        for event in self.gossip.events():
            self._happened(event)
        for peer, message in self.gossip.outgoing():
            link = self.links.get(peer)
            if link is not None:
                link.push(control.GOSSIP + wire.encode(message))

    def _flush_soon(self) -> None:
        """Once for all frames that came in one turn of the loop."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def _happened(self, event: go.GossipEvent) -> None:
        match event:
            case go.RecordStored(record=record):
                self._learn(record)
            case go.PeerAlive(node=node) | go.PeerSuspect(node=node):
                self.hooks.on_peer(node)
            case go.PeerDown(node=node) | go.PeerLeft(node=node):
                if (link := self.links.get(node)) is not None:
                    link.close("it is gone")
                self.hooks.on_peer(node)
            case go.RecordRefused(kind=kind, reason=reason, peer=peer):
                words = f"{kind.name.lower().replace('_', ' ')}: {reason.replace('_', ' ')}"
                self.hooks.counted(f"refused {words}", f"from node {short(peer)}")
            case go.DeathFound(node=node, incarnation=incarnation):
                record = death_record(self.me.key, self.roster.mesh, node, incarnation, self.clock.time())
                self.gossip.publish(record, self.clock.monotonic())
            case go.DuplicateIdentity():
                self.hooks.on_notice("error", COPIED)
            case go.ClockJumped(seconds=seconds):
                self.hooks.on_notice("info", f"this machine slept for {seconds:.0f} s; its links are renewed")
                self.dialler.hurry()
            case go.Refuted(incarnation=incarnation):
                self.announcer.restart(incarnation)
                self.hooks.on_refuted(incarnation)
                self.announce()

    def _learn(self, record: Record) -> None:
        change = self.roster.learn(record, self.clock.time())
        if record.kind is RecordKind.ANNOUNCEMENT:
            state = self.peer(NodeId(record.subject))
            if state is not None and state.announcement is not None:
                if self.book.learn(NodeId(record.subject), state.announcement.addresses):
                    self.dialler.hurry(NodeId(record.subject))
                if (link := self.links.get(NodeId(record.subject))) is not None:
                    link.greeted.link.offer_tls(state.announcement.addresses)
            self.hooks.on_peer(NodeId(record.subject))
        else:
            self.hooks.on_change(change)
        for node in change.revoked:
            self.expel(node, record.raw if record.kind is RecordKind.REVOCATION else b"")
            self.hooks.on_peer(node)

    def expel(self, node: NodeId, proof: bytes = b"") -> None:
        """Ends the link to a node that is a member no more; it is told why."""
        link = self.links.get(node)
        if link is not None:
            refusal = hs.Refusal(code="revoked", proof=proof)
            link.push(control.HANDSHAKE + hs.encoder.encode(refusal))
            self._tasks.start(_close_later(link), "expel")

    def peer(self, node: NodeId) -> PeerState | None:
        """What gossip knows of a member."""
        return self.gossip.peers.get(node)

    def seen_nearby(self, node: NodeId, addresses: Sequence[Address], *, ours: bool = False) -> None:
        """A record on the local network says that `node` is here, and, with `ours`, in this mesh.

        That proves nothing; a member that was let in while this node was away is found by it all the same.
        """
        if ours or self.roster.membership(node) is not None:
            if self.book.learn(node, addresses):
                self.dialler.hurry(node)
            if node not in self.links:
                self.absent.seen(node, self.clock.monotonic())
            self._woken.set()


async def _close_later(link: PeerLink) -> None:
    """Gives the last words a moment to leave."""
    await asyncio.sleep(EXPEL_SECONDS)
    link.close("its membership was revoked")
