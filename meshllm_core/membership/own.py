"""This node's own incarnation: contradicting the news of its death, and seeing a second one of itself."""

from meshllm_core.membership.desk import Desk
from meshllm_core.membership.gossip_events import NEVER, DuplicateIdentity, Refuted
from meshllm_core.membership.intake import incarnation_of
from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire.announcement import Announcement

INCARNATIONS = 1 << 40
RESTARTED_SECONDS = 10.0
"""So long after the start another process's announcement may be this node's former life."""
FOREIGN_KEPT = 16


class Own:
    """What others say of this node."""

    def __init__(self, desk: Desk, instance: bytes, incarnation: int) -> None:
        self.incarnation = incarnation
        self._desk = desk
        self._instance = instance
        self._started: float | None = None
        self._foreign: dict[bytes, int] = {}
        """Other processes with this key, and the highest incarnation that each announced."""
        self._warned = NEVER
        self._refuted = NEVER
        self._pending: int | None = None

    def announced(self, incarnation: int) -> None:
        """The shell announced this node."""
        if self._started is None:
            self._started = self._desk.now
        self.incarnation = max(self.incarnation, incarnation)

    def woke(self) -> None:
        """This node did not run: the others think that it is dead, and will be told otherwise at once."""
        self._refute(self.incarnation)

    def concerns(self, record: Record) -> bool:
        """Deals with a record about this node. False: it is like any other, a membership for example."""
        match record.kind:
            case RecordKind.ANNOUNCEMENT:
                self._announcement(record)
            case RecordKind.DEATH | RecordKind.DEPARTURE:
                self._contradict(record.version)
            case _:
                return False
        return True

    def tick(self) -> None:
        """Contradicts what had to wait."""
        if self._pending is not None and self._desk.now >= self._earliest():
            self._refute(self._pending)

    def deadline(self) -> float:
        """When `tick` has something to do."""
        return float("inf") if self._pending is None else self._earliest()

    def _announcement(self, record: Record) -> None:
        incarnation, body, now = incarnation_of(record), record.body, self._desk.now
        if incarnation < self.incarnation or not isinstance(body, Announcement):
            return
        if body.instance != self._instance:
            settled = self._started is not None and now - self._started > RESTARTED_SECONDS
            outbid = self._foreign.get(body.instance, incarnation) < incarnation
            if len(self._foreign) >= FOREIGN_KEPT:
                del self._foreign[next(iter(self._foreign))]
            self._foreign[body.instance] = incarnation
            if (settled or outbid) and now - self._warned >= self._desk.config.duplicate:
                self._warned = now
                self._desk.tell(DuplicateIdentity(body.instance))
        self._contradict(incarnation)

    def _contradict(self, incarnation: int) -> None:
        if incarnation < self.incarnation:
            return
        if self._desk.now >= self._earliest():
            self._refute(incarnation)
        else:
            self._pending = max(incarnation, self._pending or 0)

    def _earliest(self) -> float:
        """Two processes with one key would outbid each other without end: then only once a minute."""
        config = self._desk.config
        doubled = self._refuted >= self._warned > NEVER and self._desk.now - self._warned < config.duplicate
        return self._refuted + (config.duplicate if doubled else config.refute)

    def _refute(self, incarnation: int) -> None:
        self._pending = None
        if max(incarnation, self.incarnation) >= INCARNATIONS:
            return
        self.incarnation = max(incarnation, self.incarnation) + 1
        self._refuted = self._desk.now
        self._desk.tell(Refuted(self.incarnation))
