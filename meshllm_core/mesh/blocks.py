"""Nodes that this one does not talk to, whoever let them in: its owner's choice, for this node alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meshllm_core.errors import InvalidRequest, JoinRefused
from meshllm_core.ids import NodeId
from meshllm_core.mesh.storage import BLOCKED
from meshllm_core.state.mesh_events import BlocksChanged

if TYPE_CHECKING:
    from meshllm_core.mesh.session import Session


@dataclass
class Blocks:
    """At most BLOCKED; one more is refused, so that none is forgotten unasked."""

    _nodes: dict[NodeId, None] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[bytes]) -> "Blocks":
        """As they were kept."""
        return cls({NodeId(node): None for node in nodes})

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """In the order in which they were blocked."""
        return tuple(self._nodes)

    def check(self, node: NodeId) -> None:
        """Raises JoinRefused for a node that is blocked."""
        if node in self._nodes:
            raise JoinRefused("The owner of that machine blocked this node.", reason="blocked")

    def add(self, node: NodeId) -> None:
        """Raises InvalidRequest when there are BLOCKED already."""
        if node not in self._nodes and len(self._nodes) >= BLOCKED:
            raise InvalidRequest(
                f"{BLOCKED} nodes are blocked already.", hint="Unblock one that is gone first.", param="node"
            )
        self._nodes[node] = None

    def remove(self, node: NodeId) -> None:
        """Whether it was blocked or not."""
        self._nodes.pop(node, None)


def block(session: "Session", target: str) -> str:
    """Ends the link to a member and makes none again; it stays a member for the others. Its name.

    Raises InvalidRequest.
    """
    node = NodeId(session.roster.resolve(target))
    if node == session.mesh.me.key.public:
        raise InvalidRequest("A node cannot block itself.", hint="Use `meshllm leave`.", param="node")
    if session.roster.membership(node) is None:
        raise InvalidRequest(
            "That is an invite, no member.", hint="`meshllm revoke` takes it back.", param="node"
        )
    session.blocks.add(node)
    if (link := session.mesh.links.get(node)) is not None:
        link.close("its owner blocked this node")
    _changed(session, node)
    return session.peers.name(node)


def unblock(session: "Session", target: str) -> str:
    """Talks to it again, if it is a member still. Its name. Raises InvalidRequest."""
    wanted = target.strip().lower()
    found = [node for node in session.blocks.nodes if wanted and node.hex().startswith(wanted)]
    if len(found) != 1:
        raise InvalidRequest(
            f"{len(found) or 'No'} blocked nodes have an id that begins with {target[:70]!r}.",
            hint="`meshllm members` lists those that are blocked.",
            param="node",
        )
    session.blocks.remove(found[0])
    session.mesh.dialler.hurry(found[0])
    _changed(session, found[0])
    return session.peers.name(found[0])


def tell(session: "Session") -> None:
    """Who is blocked, to those who look."""
    env = session.environment
    nodes = tuple(node.hex() for node in session.blocks.nodes)
    env.append(BlocksChanged(at=env.clock.time(), nodes=nodes))


def _changed(session: "Session", node: NodeId) -> None:
    session.peers.touch(node)
    session.save()
    tell(session)
