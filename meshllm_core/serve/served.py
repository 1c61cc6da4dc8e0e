"""Which node computed an answer. Pure."""

from dataclasses import dataclass
from typing import Literal

from meshllm_core.engine.types import Started
from meshllm_core.ids import NodeId


@dataclass(frozen=True)
class ServedBy:
    """A node that computes, as the client is told of it."""

    name: str
    node: str
    """Its id, hexadecimal; empty for a node that has none."""
    hops: int = 0
    """0: the node that the client asked. 1: another one."""

    @property
    def route(self) -> Literal["local", "mesh"]:
        """Whether the request left the node that the client asked."""
        return "mesh" if self.hops else "local"

    @staticmethod
    def named(name: str, node: NodeId, hops: int = 0) -> "ServedBy":
        """The node `node`."""
        return ServedBy(name, node.hex(), hops)

    @staticmethod
    def of(started: Started) -> "ServedBy":
        """What a first chunk says."""
        return ServedBy(started.served_by, started.served_by_id, started.hops)
