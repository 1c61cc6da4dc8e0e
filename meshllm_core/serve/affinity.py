"""Which node served a conversation last: it still has the beginning in its cache. Pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from meshllm_core.engine.types import GenerationRequest
from meshllm_core.ids import NodeId

KEPT = 8192
"""Keys that are remembered; the one that was used longest ago goes first."""
SECONDS = 1800.0
"""After so long without a request the beginning is taken for gone from the cache."""
_PREFIXES = (16_384, 8192, 4096, 2048, 1024, 512)
"""Characters (or token ids) of a prompt's beginning; one that is shorter is computed again in no time."""


class Affinity:
    """Bounded, and forgetful by time. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._nodes: OrderedDict[bytes, tuple[NodeId, float]] = OrderedDict()

    def last(self, keys: Sequence[bytes], now: float) -> NodeId | None:
        """The node that served the first of `keys` that is known."""
        for key in keys:
            known = self._nodes.get(key)
            if known is not None and now - known[1] <= SECONDS:
                return known[0]
        return None

    def served(self, keys: Sequence[bytes], node: NodeId, now: float) -> None:
        """`node` has it in its cache now."""
        for key in keys:
            self._nodes[key] = (node, now)
            self._nodes.move_to_end(key)
        while len(self._nodes) > KEPT:
            self._nodes.popitem(last=False)


def keys_of(model: str, request: GenerationRequest) -> list[bytes]:
    """What a later request of the same conversation will have in common with this one, closest first.

    What the client named, else beginnings of the prompt, the longest first: so the next turn, which is
    longer, meets the last one's.
    """
    if request.session:
        return [_digest(model, "session", request.session.encode())]
    prompt = request.prompt
    keys = []
    for length in _PREFIXES:
        if len(prompt) >= length:
            part = prompt[:length]
            data = part.encode() if isinstance(part, str) else repr(part).encode()
            keys.append(_digest(model, f"prompt {length}", data))
    return keys


def _digest(model: str, kind: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=kind.encode(), key=model.encode()[:64]).digest()
