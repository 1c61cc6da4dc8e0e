"""The models of other nodes as this one knows them, and what it learnt by asking for them.

One for the whole node. Everything that is remembered is bounded.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from meshllm_core.engine.types import ModelFacts
from meshllm_core.errors import MeshError, ModelNotReady, Overloaded
from meshllm_core.serve.affinity import Affinity
from meshllm_core.serve.health import Health, Key
from meshllm_core.serve.peers import Peers, Replica
from meshllm_core.serve.ranking import rank
from meshllm_core.serve.remote import RemoteEngine
from meshllm_core.serve.router import AUTO, Choice

FACTS_KEPT = 64
"""A template may have half a million characters."""
NAMES_KEPT = 1024
"""Models that are remembered when the last node that served them is gone."""
NAMES_SECONDS = 600.0

FactsKey = tuple[bytes, str, bytes]
OnMove = Callable[[str], None]
"""Told, in a sentence for a person, that a request left a place that failed."""


class Replicas:
    """Who has what, how it went there last, and how much of ours is there now."""

    def __init__(self, peers: Peers, now: Callable[[], float] = time.monotonic) -> None:
        self.peers = peers
        self.now = now
        self.health = Health()
        self.affinity = Affinity()
        self.busy: Counter[Key] = Counter()
        """Requests of this node that are being computed, by place; this node itself has the id b""."""
        self._facts: OrderedDict[FactsKey, ModelFacts] = OrderedDict()
        self._fetching: dict[FactsKey, asyncio.Lock] = {}
        self._seen: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def all(self) -> list[Replica]:
        """Every replica once, ready or loading, but for names that cannot be shown or mean something else."""
        found: dict[Key, Replica] = {}
        for replica in self.peers.replicas():
            if replica.offer.name.isprintable() and replica.offer.name != AUTO:
                found.setdefault(key_of(replica), replica)
        self._remember(found.values())
        return list(found.values())

    def usable(self, replicas: Sequence[Replica]) -> list[Replica]:
        """Those that a request may go to now."""
        now = self.now()
        return [replica for replica in replicas if self.health.usable(key_of(replica), now)]

    def ours(self, replica: Replica) -> int:
        """How many requests of this node are there now."""
        return self.busy[key_of(replica)]

    @contextmanager
    def counted(self, key: Key) -> Iterator[None]:
        """Around a request that is computed at a place."""
        self.busy[key] += 1
        try:
            yield
        finally:
            self.busy[key] -= 1
            if not self.busy[key]:
                del self.busy[key]

    def gone(self, name: str) -> str:
        """Name of the node that served `name` not long ago; empty if none did."""
        node, at = self._seen.get(name, ("", 0.0))
        return node if node and self.now() - at <= NAMES_SECONDS else ""

    def known_facts(self, replica: Replica) -> ModelFacts | None:
        """The facts of a replica, if they were fetched already."""
        return self._facts.get(_facts_key(replica))

    async def facts(self, replica: Replica) -> ModelFacts:
        """The facts of a replica, fetched once for each load of the model. Raises MeshError."""
        key = _facts_key(replica)
        if key not in self._facts:
            lock = self._fetching.setdefault(key, asyncio.Lock())
            try:
                async with lock:
                    if key not in self._facts:
                        self._facts[key] = await RemoteEngine(self.peers, replica).fetch_facts()
            finally:
                self._fetching.pop(key, None)
        self._facts.move_to_end(key)
        while len(self._facts) > FACTS_KEPT:
            self._facts.popitem(last=False)
        return self._facts[key]

    async def facts_of(self, choice: Choice, on_move: OnMove) -> ModelFacts:
        """The facts of a model that only other nodes have: of the quickest that tells.

        Raises ModelNotReady when none does, Overloaded when they are too busy.
        """
        ranked = rank(self.usable(choice.replicas), ours=self.ours)
        full: Overloaded | None = None
        for replica in (one.replica for one in ranked):
            try:
                return await self.facts(replica)
            except Overloaded as error:
                full = error
            except MeshError as error:
                self.health.failed(key_of(replica), self.now(), error.message)
                on_move(f"{replica.name} did not tell what {choice.name} is: {error.message}")
        if full is not None:
            raise full
        now = self.now()
        keys = [key_of(replica) for replica in choice.replicas]
        seconds, why = min((self.health.rests(key, now), self.health.why(key)) for key in keys)
        raise ModelNotReady(
            f"No node that serves {choice.name} can answer now. {why}".strip(),
            hint="See `meshllm status`.",
            retry_after=max(1, math.ceil(seconds)),
        )

    def _remember(self, replicas: Iterable[Replica]) -> None:
        now = self.now()
        for replica in replicas:
            self._seen[replica.offer.name] = (replica.name or replica.node.hex()[:10], now)
            self._seen.move_to_end(replica.offer.name)
        while len(self._seen) > NAMES_KEPT:
            self._seen.popitem(last=False)


def key_of(replica: Replica) -> Key:
    """The place that a replica is."""
    return replica.node, replica.offer.name


def _facts_key(replica: Replica) -> FactsKey:
    return replica.node, replica.offer.name, replica.offer.load
