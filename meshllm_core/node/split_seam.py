"""What a split asks of the mesh: the seam between them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from meshllm_core.ids import NodeId
from meshllm_core.node.split_plan import Machine
from meshllm_core.node.stage_desk import StageDesk
from meshllm_core.transport.link import Channel


class SplitMesh(Protocol):
    """The mesh as a split sees it."""

    @property
    def me(self) -> NodeId:
        """This node."""

    @property
    def desk(self) -> StageDesk:
        """Where calls about stages arrive."""

    def machines(self) -> Sequence[Machine]:
        """Every member that is there, this node last."""

    def away(self) -> Sequence[str]:
        """Names of members that are not there and have not left."""

    def servers(self, model: str) -> Sequence[str]:
        """Names of members that answer for a model of that name now."""

    @property
    def gather_certificates(self) -> Callable[[], Awaitable[None]]:
        """Fetches what others measured of codecs. Raises nothing, and takes some seconds at most."""

    async def settled_links(self) -> dict[tuple[str, str], float]:
        """Round-trip times in ms by names, as far as anybody measured them."""

    async def open_call(self, node: NodeId) -> Channel:
        """A CALL channel to that node. Raises PeerUnreachable, LinkClosed."""
