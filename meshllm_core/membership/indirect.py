"""Asking others whether they hear a member, and answering when others ask."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from meshllm_core.ids import NodeId
from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.wire.gossip import HEARD, SILENT, UNKNOWN, Probe, Vouch

ASKED = 1024
"""Questions of ours that are open; the oldest is forgotten."""
ASKED_SECONDS = 5.0
WAITING = 64
"""Questions of others that wait for an answer of the node they are about; more are not answered."""
AGO_LIMIT = 60_000


@dataclass(frozen=True, slots=True)
class _Asker:
    peer: NodeId
    nonce: int
    until: float


class Indirect:
    """Probes and what vouches for whom."""

    def __init__(self, desk: Desk, peers: Mapping[NodeId, PeerState], ping: Callable[[NodeId], None]) -> None:
        """`ping` pings a linked peer now, unless that was done a moment ago."""
        self._desk = desk
        self._peers = peers
        self._ping = ping
        self._asked: dict[int, tuple[NodeId, NodeId, float]] = {}
        self._waiting: dict[NodeId, list[_Asker]] = {}

    def ask(self, subject: NodeId, helpers: Iterable[NodeId]) -> None:
        """Do you hear `subject`? The answers come to `answered`."""
        for helper in helpers:
            nonce = int(self._desk.random() * (1 << 32))
            if len(self._asked) >= ASKED:
                del self._asked[next(iter(self._asked))]
            self._asked[nonce] = (subject, helper, self._desk.now)
            self._desk.send(helper, Probe(nonce, subject))

    def answered(self, peer: NodeId, message: Vouch) -> bool:
        """Whether that is the answer to a question of ours which is still open."""
        asked = self._asked.get(message.nonce)
        if asked is None or asked[:2] != (message.subject, peer):
            return False
        del self._asked[message.nonce]
        return self._desk.now - asked[2] <= ASKED_SECONDS

    def probed(self, peer: NodeId, message: Probe) -> None:
        """Answers at once what is known, else pings the subject first."""
        subject, desk = NodeId(message.subject), self._desk
        state = self._peers.get(subject)
        if subject == desk.me:
            desk.send(peer, Vouch(message.nonce, subject, HEARD, 0))
        elif state is None or not state.linked:
            gone = state is not None and state.status in ("down", "left")
            desk.send(peer, Vouch(message.nonce, subject, SILENT if gone else UNKNOWN, 0))
        elif desk.now - state.last_heard <= desk.config.fresh:
            self._vouch(peer, message.nonce, subject, state)
        elif sum(map(len, self._waiting.values())) < WAITING:
            asker = _Asker(peer, message.nonce, desk.now + desk.config.help_wait)
            self._waiting.setdefault(subject, []).append(asker)
            self._ping(subject)

    def heard(self, subject: NodeId, state: PeerState) -> None:
        """A frame came from `subject`: those who asked are told."""
        for asker in self._waiting.pop(subject, ()):
            self._vouch(asker.peer, asker.nonce, subject, state)

    def tick(self) -> None:
        """Answers those who waited for nothing."""
        now = self._desk.now
        for subject, askers in list(self._waiting.items()):
            for asker in [asker for asker in askers if asker.until <= now]:
                askers.remove(asker)
                self._desk.send(asker.peer, Vouch(asker.nonce, subject, SILENT, 0))
            if not askers:
                del self._waiting[subject]

    def deadline(self) -> float:
        """When `tick` has something to do."""
        return min(
            (asker.until for askers in self._waiting.values() for asker in askers), default=float("inf")
        )

    def _vouch(self, peer: NodeId, nonce: int, subject: NodeId, state: PeerState) -> None:
        ago = int((self._desk.now - state.last_heard) * 1000)
        self._desk.send(peer, Vouch(nonce, subject, HEARD, max(0, min(ago, AGO_LIMIT))))
