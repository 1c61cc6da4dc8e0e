"""A node that routes, with a clock of its own, and the nodes that it has links to."""

from collections.abc import Sequence
from typing import Any

from meshllm_core.engine.types import Chunk, Delta, Finished, GenerationRequest, Started
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.service import InferenceService
from meshllm_core.state.events import AnyEvent, NoticeLogged
from tests.support.peers import ENTRY, MemoryPeers, RemoteNode, offer
from tests.support.scripted_engine import Script, ScriptedEngine, Step


def engine(*steps: Step, **fields: Any) -> ScriptedEngine:
    """An engine that says `steps`."""
    return ScriptedEngine([Script(steps=steps or ("Hello", "."), **fields)])


def slow(one: RemoteNode, rate: float = 10.0, **fields: Any) -> RemoteNode:
    """The node, which now offers `m` at this many tokens a second."""
    one.offers = [offer(decode_tokens_per_second=rate, **fields)]
    return one


class Entry:
    """The node that a client asks, with a clock of its own."""

    def __init__(self, nodes: Sequence[RemoteNode], **local: ScriptedEngine) -> None:
        self.hosted = {ModelId(n): HostedModel(ModelId(n), 0, "ready", e) for n, e in local.items()}
        self.events: list[AnyEvent] = []
        self.peers = MemoryPeers(*nodes)
        self.service = InferenceService(
            self.hosted, self.events.append, peers=self.peers, name="entry", node=ENTRY
        )
        self.now = 1000.0
        self.service.replicas.now = lambda: self.now

    async def chunks(self, prompt: str = "Hi", model: str = "m", **fields: Any) -> list[Chunk]:
        found, computing = await self.service.resolve(model)
        request = GenerationRequest(request_id=RequestId("r1"), prompt=prompt, **fields)
        return [c async for c in self.service.generate(found, computing, request, route="/v1")]

    async def served_by(self, prompt: str = "Hi", model: str = "m", **fields: Any) -> str:
        """Name of the node that answered."""
        chunks = await self.chunks(prompt, model, **fields)
        assert [type(chunk) for chunk in chunks][:2] == [Started, Delta]
        assert isinstance(chunks[-1], Finished)
        assert isinstance(chunks[0], Started)
        return chunks[0].served_by

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, NoticeLogged)]

    def requests(self, name: str) -> int:
        found = next(one for one in self.peers.nodes if one.name == name)
        return len(found.engines["m"].requests)
