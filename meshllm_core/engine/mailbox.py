"""One request's chunks on their way to the client. Bounded: what a slow client has not taken is merged."""

import asyncio

from meshllm_core.engine.types import Chunk, Delta


class Mailbox:
    """Filled by the engine's reader, emptied by the request. Holds at most one chunk of each kind."""

    def __init__(self) -> None:
        self._waiting: list[Chunk | Exception] = []
        self._arrived = asyncio.Event()

    def put(self, item: Chunk | Exception) -> None:
        """Add a chunk; a delta is merged into one that still waits."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(item, Delta) and isinstance(last, Delta):
            self._waiting[-1] = Delta(
                request_id=item.request_id,
                text=last.text + item.text,
                tokens=last.tokens + item.tokens,
                logprobs=last.logprobs + item.logprobs,
            )
        else:
            self._waiting.append(item)
        self._arrived.set()

    async def get(self) -> Chunk:
        """The next chunk; raises what was put in its place."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._waiting.pop(0)
        if isinstance(item, Exception):
            raise item
        return item
