"""Who is alive: pings, suspicion, the word of others, and coming back."""

from collections.abc import Callable, Iterable

from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_events import NEVER, STATUS_EVENTS, DeathFound, PeerState
from meshllm_core.membership.hearsay import Hearsay
from meshllm_core.membership.indirect import Indirect
from meshllm_core.membership.neighbours import SkipRing
from meshllm_core.membership.retries import Retries
from meshllm_core.membership.watch import FOREVER, Watch
from meshllm_core.state.mesh_events import PeerStatus
from meshllm_core.wire.announcement import Announcement
from meshllm_core.wire.gossip import HEARD, SILENT, Ping, Pong, Probe, Vouch

SWEEP_SECONDS = 1.0
PING_GAP = 0.3
"""Between two pings that somebody else caused."""


class Liveness:
    """Decides alive, suspect, down and left for every other member."""

    def __init__(
        self,
        desk: Desk,
        tombstone: Callable[[NodeId], int],
        greeting: Callable[[NodeId], tuple[bytes, int, bytes]],
    ) -> None:
        """`tombstone`: the incarnation that a stored DEATH or DEPARTURE ends, or -1.

        `greeting`: what a ping to a peer carries: summary, number of records, offers.
        """
        self.peers: dict[NodeId, PeerState] = {}
        self.present = SkipRing(desk.me, desk.config.full_mesh)
        """Alive and suspect."""
        self.known = SkipRing(desk.me, desk.config.full_mesh)
        """Those that are down, too."""
        self._desk = desk
        self._tombstone = tombstone
        self._greeting = greeting
        self._indirect = Indirect(desk, self.peers, self._ping_soon)
        self._retries = Retries(desk)
        self._watches: dict[NodeId, Watch] = {}
        self._verdicts: dict[NodeId, float] = {}
        """Of suspects that are not watched; in the order in which they fall due."""
        self._hearsay = Hearsay(desk, self.peers, self._ended)
        self._found: dict[NodeId, float] = {}
        """When this node found it dead …"""
        self._mistaken: dict[NodeId, float] = {}
        """… and when it was told that it was wrong."""
        self._sweep_at = NEVER
        self._stale = False
        """Whether the watches have to be chosen anew."""

    # What happens to links ------------------------------------------------------------------------

    def linked(self, node: NodeId) -> None:
        """There is a link now: direct proof of life, whatever was said before."""
        now = self._desk.now
        state = self.peers.get(node)
        state = state or self._new(node)
        state.linked = True
        watch = self._watches.setdefault(node, Watch(now, now, now))
        watch.next_ping = now
        self._heard(node, state)
        self._become(node, state, "alive")

    def unlinked(self, node: NodeId, said_goodbye: bool) -> None:
        """The last link is gone."""
        state = self.peers.get(node)
        if state is None:
            return
        state.linked = False
        self._stale = True
        if said_goodbye:
            self._become(node, state, "left")
        elif (watch := self._watches.get(node)) is not None:
            watch.next_ping = self._desk.now
            watch.open.clear()
            # The next link may take another way.
            watch.samples.clear()

    def heard(self, node: NodeId) -> None:
        """A frame came from that node, of whatever kind."""
        if (state := self.peers.get(node)) is not None and state.linked:
            self._heard(node, state)
            if state.status in ("suspect", "down"):
                self._become(node, state, "alive")

    def woke(self) -> None:
        """This node did not run for a while: what was silent meanwhile proves nothing."""
        now = self._desk.now
        for watch in self._watches.values():
            watch.afresh(now)
        for node in self._verdicts:
            self._verdicts[node] = now + self._desk.config.silence
        for node, state in self.peers.items():
            if state.status == "suspect" and node in self._watches:
                self._become(node, state, "alive")
        self._retries.hurry()

    def forget(self, node: NodeId) -> None:
        """It is no member any more, or nobody wants to see it."""
        self.peers.pop(node, None)
        for part in (self.present, self.known, self._retries):
            part.remove(node)
        self._hearsay.forget(node)
        for table in (self._watches, self._verdicts, self._found, self._mistaken):
            table.pop(node, None)
        self._stale = True

    # What messages say ----------------------------------------------------------------------------

    def ping(self, peer: NodeId, message: Ping) -> None:
        """Answers."""
        self._desk.send(peer, Pong(message.nonce, *self._greeting(peer)))
        self._exchanged(peer)

    def pong(self, peer: NodeId, message: Pong) -> None:
        """Measures."""
        if (watch := self._watches.get(peer)) is not None:
            watch.measured(self.peers[peer], message.nonce, self._desk.now)
            self._exchanged(peer)

    def probe(self, peer: NodeId, message: Probe) -> None:
        """Another member asks about a third one."""
        self._indirect.probed(peer, message)

    def vouch(self, peer: NodeId, message: Vouch) -> None:
        """Another member says whether it hears a third one."""
        node = NodeId(message.subject)
        watch, state = self._watches.get(node), self.peers.get(node)
        if not self._indirect.answered(peer, message) or watch is None or state is None:
            return
        watch.answers += 1
        watch.silent += message.answer == SILENT
        heard = self._desk.now - message.ago / 1000
        if message.answer != HEARD or self._desk.now - heard >= self._desk.config.silence:
            return
        watch.vouched = max(watch.vouched, heard)
        watch.unanswered = 0
        watch.next_ping = self._desk.now + self._interval()
        if not state.linked:
            state.heard_through = peer
        if state.status == "suspect" or (state.status == "down" and not self._ended(node, state)):
            self._become(node, state, "alive")

    # What records say -----------------------------------------------------------------------------

    def announced(self, node: NodeId, body: Announcement, through: NodeId) -> None:
        """A newer announcement of `node` was stored; it came from `through`."""
        now = self._desk.now
        self._hearsay.announced(node)
        state = self.peers.get(node)
        if state is None:
            state = self._new(node)
            state.incarnation, state.announcement = body.incarnation, body
            if through != node:
                state.heard_through = through
            self._become(node, state, "alive")
            return
        risen = body.incarnation > state.incarnation
        state.incarnation, state.announcement = max(state.incarnation, body.incarnation), body
        if through != node and not state.linked:
            state.heard_through = through
        unwatched = node not in self._watches and not self._ended(node, state)
        if risen or (unwatched and state.status == "down"):
            if (watch := self._watches.get(node)) is not None:
                watch.afresh(now)
            self._become(node, state, "alive")

    def died(self, node: NodeId, incarnation: int) -> None:
        """A DEATH was stored: a suspicion, unless this node itself heard the member a moment ago."""
        state, now = self.peers.get(node), self._desk.now
        if state is None or incarnation < state.incarnation or state.status in ("down", "left"):
            return
        self._ping_soon(node)
        if now - state.last_heard < self._desk.config.silence:
            return
        config, watch = self._desk.config, self._watches.get(node)
        if watch is not None:
            watch.verdict = min(watch.verdict, now + config.confirm)
        else:
            self._verdicts.setdefault(node, now + config.contradict)
        self._become(node, state, "suspect")

    def departed(self, node: NodeId, incarnation: int) -> None:
        """A DEPARTURE was stored: its own signed word, so it holds at once."""
        state = self.peers.get(node)
        if state is not None and incarnation >= state.incarnation:
            self._become(node, state, "left")

    def contradicted(self, node: NodeId) -> None:
        """A DEATH that this node signed was wrong: the same process still runs.

        When that comes at once, only the way from here is broken; later, it slept or was cut off.
        """
        now, config = self._desk.now, self._desk.config
        if now - self._found.pop(node, NEVER) <= config.mistaken_within:
            self._mistaken[node] = now

    # Time -----------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Does what is due."""
        now = self._desk.now
        if self._stale:
            self._choose_watches()
        for node, watch in list(self._watches.items()):
            if watch.may_be_due(now, self._desk.config):
                self._attend(node, watch, self.peers[node])
        while self._verdicts and next(iter(self._verdicts.values())) <= now:
            del self._verdicts[node := next(iter(self._verdicts))]
            state = self.peers[node]
            if state.status == "suspect" and node not in self._watches:
                self._become(node, state, "down" if self._ended(node, state) else "alive")
        self._indirect.tick()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            unwatched = self.peers.keys() - self._watches.keys()
            for node, status in self._hearsay.sweep(bool(self._linked_alive()), unwatched):
                self._become(node, self.peers[node], status)

    def deadline(self) -> float:
        """When `tick` has something to do."""
        if self._stale:
            return self._desk.now
        due = min(self._sweep_at, self._indirect.deadline())
        if self._verdicts:
            due = min(due, next(iter(self._verdicts.values())))
        for node, watch in self._watches.items():
            if watch.may_be_due(due, self._desk.config):
                due = min(due, watch.due(self.peers[node], self._desk.config))
        return due

    def wanted(self) -> list[NodeId]:
        """Neighbours, those who are here first; those who are down in turns."""
        now = self._desk.now
        here: list[NodeId] = []
        for node in self.present.neighbours():
            watch = self._watches.get(node)
            # Both sides would dial at once: the one with the higher id leaves the other half a second.
            if self.peers[node].linked or node > self._desk.me or (watch and now - watch.since >= 0.5):
                here.append(node)
        gone = (node for node in self.known.neighbours() if self.peers[node].status == "down")
        return here + self._retries.open((node, self.peers[node].since) for node in gone)

    # Inside ---------------------------------------------------------------------------------------

    def _new(self, node: NodeId) -> PeerState:
        """A member of whom nothing was known. It counts as left until something is."""
        state = self.peers[node] = PeerState("left", self._desk.now)
        return state

    def _become(self, node: NodeId, state: PeerState, status: PeerStatus) -> None:
        if state.status == status:
            return
        before, state.status, state.since = state.status, status, self._desk.now
        self._stale = True
        if status in ("alive", "suspect"):
            self.present.add(node)
            self.known.add(node)
        else:
            self.present.remove(node)
        if status == "left":
            self.known.remove(node)
        if status != "down":
            self._retries.remove(node)
            self._hearsay.settled(node)
        if status != "suspect" and (watch := self._watches.get(node)) is not None:
            watch.verdict = FOREVER
            if before in ("down", "left") and status == "alive":
                watch.afresh(self._desk.now)
        self._desk.tell(STATUS_EVENTS[status](node))

    def _heard(self, node: NodeId, state: PeerState) -> None:
        now = self._desk.now
        state.last_heard, state.heard_through = now, None
        if (watch := self._watches.get(node)) is not None:
            watch.unanswered = 0
            watch.next_ping = min(now + self._interval(), watch.exchanged + self._desk.config.exchange)
            self._hurry_young(watch)
        self._indirect.heard(node, state)

    def _ended(self, node: NodeId, state: PeerState) -> bool:
        """Whether a DEATH or DEPARTURE of what was announced last is stored."""
        return self._tombstone(node) >= state.incarnation

    def _interval(self) -> float:
        """Never quite the same on both sides, so that now one pings and now the other, and both measure."""
        return self._desk.config.ping * (0.9 + 0.2 * self._desk.random())

    def _exchanged(self, peer: NodeId) -> None:
        if (watch := self._watches.get(peer)) is not None:
            watch.exchanged = self._desk.now
            watch.next_ping = self._desk.now + self._interval()
            self._hurry_young(watch)

    def _hurry_young(self, watch: Watch) -> None:
        if watch.young:
            soon = max(self._desk.now, watch.pinged + self._desk.config.ping_young)
            watch.next_ping = min(watch.next_ping, soon)

    def _choose_watches(self) -> None:
        now = self._desk.now
        self._stale = False
        wanted = dict.fromkeys(self.present.neighbours())
        for node in self._watches.keys() - wanted.keys():
            state = self.peers[node]
            if state.linked or (state.status == "down" and node in self.known.neighbours()):
                continue
            del self._watches[node]
            if state.status == "alive" and self._ended(node, state):
                self._become(node, state, "suspect")
            if state.status == "suspect":
                self._verdicts[node] = now + self._desk.config.contradict
        for node in wanted.keys() - self._watches.keys():
            self._watches[node] = Watch(now, now + self._desk.config.ping * self._desk.random(), now)
            self._verdicts.pop(node, None)
            if self.peers[node].status == "suspect":
                self._watches[node].verdict = now + self._desk.config.confirm

    def _attend(self, node: NodeId, watch: Watch, state: PeerState) -> None:
        config, now = self._desk.config, self._desk.now
        if state.status == "left":
            return
        if state.status == "alive" and now >= watch.suspect_at(state, config):
            self._suspect(node, watch, state)
        if state.status == "suspect" and now >= watch.verdict:
            self._conclude(node, watch, state)
        if now >= watch.next_ping:
            self._ping(node, watch, state)

    def _ping(self, node: NodeId, watch: Watch, state: PeerState) -> None:
        config, now = self._desk.config, self._desk.now
        watch.next_ping = now + config.ping_again
        if state.linked:
            nonce = int(self._desk.random() * (1 << 32))
            watch.sent(nonce, now)
            self._desk.send(node, Ping(nonce, *self._greeting(node)))
        elif state.status != "down" or not self._ended(node, state):
            if watch.unanswered == 0:
                watch.next_ping = now + config.ping
            self._indirect.ask(node, self._helper(node, state))
        if state.status == "down":
            # Dialling is what brings it back; others are asked in case only the path from here is cut.
            watch.next_ping = now + config.exchange
        watch.unanswered += 1

    def _ping_soon(self, node: NodeId) -> None:
        watch = self._watches.get(node)
        if watch is not None and self.peers[node].linked and self._desk.now - watch.pinged >= PING_GAP:
            self._ping(node, watch, self.peers[node])

    def _suspect(self, node: NodeId, watch: Watch, state: PeerState) -> None:
        dead = self._ended(node, state)
        watch.verdict = self._desk.now + (0 if dead else self._desk.config.confirm)
        watch.answers = watch.silent = 0
        if not dead:
            self._indirect.ask(node, self._helpers(node))
        self._become(node, state, "suspect")

    def _conclude(self, node: NodeId, watch: Watch, state: PeerState) -> None:
        """Nobody contradicted. Whoever was answered by nobody may be cut off, and says nothing of others."""
        known_dead = self._ended(node, state)
        mistaken = self._desk.now - self._mistaken.get(node, NEVER) < self._desk.config.mistaken
        if not known_dead and mistaken and watch.answers and not watch.silent:
            watch.afresh(self._desk.now)
            self._become(node, state, "alive")
            return
        self._become(node, state, "down")
        self._hearsay.doubted(node)
        if not known_dead and watch.answers and state.announcement is not None:
            self._found[node] = self._desk.now
            self._desk.tell(DeathFound(node, state.incarnation))

    def _linked_alive(self) -> list[NodeId]:
        states = ((node, self.peers[node]) for node in self._watches)
        return [node for node, state in states if state.linked and state.status == "alive"]

    def _helper(self, node: NodeId, state: PeerState) -> Iterable[NodeId]:
        if state.heard_through in self._linked_alive():
            return (state.heard_through,)
        return self._helpers(node)[:1]

    def _helpers(self, subject: NodeId) -> list[NodeId]:
        """Linked members that probably have a link to `subject`."""
        able = [node for node in self._linked_alive() if node != subject]
        able.sort(key=lambda _: self._desk.random())
        if len(able) > self._desk.config.helpers and len(self.present) > self._desk.config.full_mesh:
            near = self.present.around(subject)
            able.sort(key=lambda node: node not in near)
        return able[: self._desk.config.helpers]
