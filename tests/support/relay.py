"""A real Nostr relay in this process, and sockets that only look like one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nostr_sdk


@contextlib.asynccontextmanager
async def relay() -> AsyncIterator[str]:
    """The address of a relay that runs until the block ends."""
    running = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").build()
    await running.run()
    try:
        yield str(await running.url())
    finally:
        running.shutdown()


@contextlib.asynccontextmanager
async def silent_relay(taken: list[asyncio.StreamWriter] | None = None) -> AsyncIterator[str]:
    """The address of something that takes connections, into `taken`, and never says a word."""
    taken = [] if taken is None else taken

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in taken:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()
