"""The mesh as serving sees it: who has a model, and a way to ask. Implemented by `node`, and by tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from meshllm_core.ids import NodeId
from meshllm_core.transport.link import Channel
from meshllm_core.wire.announcement import ModelOffer


@dataclass(frozen=True)
class Replica:
    """A model on another node that this node has a live link to."""

    node: NodeId
    name: str
    """Of the node, for a person."""
    offer: ModelOffer
    """What the node said of the model last."""
    round_trip: float
    """Seconds; 0 when not known."""
    since: float = 0.0
    """Seconds since the node said so."""


class Peers(Protocol):
    """The other members, as far as routing is concerned."""

    def replicas(self) -> Sequence[Replica]:
        """Every model of every other node that is alive and linked, ready or loading."""

    async def open_call(self, node: NodeId) -> Channel:
        """A CALL channel to that node. Raises PeerUnreachable, LinkClosed."""


class NoPeers:
    """A node by itself."""

    def replicas(self) -> Sequence[Replica]:
        """None."""
        return ()

    async def open_call(self, node: NodeId) -> Channel:
        """Never called: there are no replicas."""
        raise AssertionError("a node by itself has nobody to call")
