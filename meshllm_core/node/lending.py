"""Whether this node computes for others: its owner may pause that, with one key, while other work matters."""

import time
from dataclasses import dataclass

from meshllm_core.errors import NodeError
from meshllm_core.node.store import EventStore
from meshllm_core.state.mesh_events import LendingChanged


@dataclass(frozen=True)
class Lending:
    """Reads and changes the node's state. What runs already is let run: only what is new is refused.

    The pause lasts until it is lifted or the node starts again: a machine that lends nothing without
    anybody remembering why would be worse than one that has to be told twice.
    """

    store: EventStore
    name: str
    """Of this node, for those who are refused."""
    client: bool

    def closed(self) -> str:
        """Why nothing new is taken, for whoever asks; empty while this node lends."""
        return f"The owner of {self.name} paused lending." if self.store.snapshot.lending_paused else ""

    def set(self, *, on: bool) -> dict[str, object]:
        """Lends, or lends nothing new. Answers what still runs for others. Raises NodeError for a client."""
        if self.client:
            raise NodeError(
                "This node is a client: it computes nothing for others anyway.",
                hint="`meshllm serve` starts a node that lends.",
            )
        if on == self.store.snapshot.lending_paused:
            self.store.append(LendingChanged(at=time.time(), paused=not on))
        snapshot = self.store.snapshot
        running = sum(view.status == "running" and bool(view.asked_by) for view in snapshot.requests)
        return {
            "lending": on,
            "requests_running": running,
            "stages_running": len(snapshot.hosted_stages),
        }
