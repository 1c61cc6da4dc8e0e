"""A node that only tells: the real management API and the real event store, fed with a mesh that is made up.

    python -m benchmarks.dashboard_node --members 200 --changes 20 --each 10 --port P --console C

Its record and its token are in $MESHLLM_HOME, so that `meshllm` finds it. Ends by SIGTERM.
"""

import argparse
import asyncio
import contextlib
import os
import random
import socket
import time
from collections.abc import Mapping

import msgspec
import uvicorn

from benchmarks.dashboard_mesh import beginning, changing, hostile
from meshllm_core.api.manage import build_management_app
from meshllm_core.api.questions import QUESTIONS, QuestionSpec
from meshllm_core.api.record import NodeRecord, write_record
from meshllm_core.api.schema import ACTIONS, ActionSpec
from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.api.token import ensure_token
from meshllm_core.config import KEYS, base_url
from meshllm_core.errors import InvalidRequest
from meshllm_core.node.store import EventStore
from meshllm_core.paths import default_paths
from meshllm_core.state import mesh_events as mesh


class Scripted:
    """Implements the management API's seam: tells what the store holds, does nothing."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.actions: Mapping[str, ActionSpec] = ACTIONS
        self.questions: Mapping[str, QuestionSpec] = QUESTIONS

    async def act(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        """Nothing is done."""
        raise InvalidRequest(f"This node only tells; it does not {name}.", hint="Use a real one.")

    async def ask(self, name: str, arguments: msgspec.Struct) -> msgspec.Struct:
        """The settings are answered, nothing else."""
        if name != "config":
            raise InvalidRequest(f"This node only tells; it does not answer {name}.", hint="Use a real one.")
        return Config(
            file="config.toml", exists=False, problem="", rows=tuple(_row(key.name) for key in KEYS)
        )


def _row(name: str) -> ConfigRow:
    key = next(key for key in KEYS if key.name == name)
    return ConfigRow(
        key=key.name,
        section=key.section,
        help=key.help,
        kind=key.kind,
        allowed=key.allowed,
        choices=(),
        default="",
        value="",
        text="",
        secret=key.secret,
        source="default",
        origin="",
        variable="",
        flag="",
        next_value="",
        in_file=False,
    )


async def serve(options: argparse.Namespace) -> None:
    """Serves until it is told to end."""
    paths = default_paths()
    paths.data.mkdir(parents=True, exist_ok=True)
    store = EventStore()
    with socket.create_server(("127.0.0.1", options.console)) as listener:
        urls = (base_url("127.0.0.1", options.port), base_url("127.0.0.1", options.console))
        for event in beginning(options.members, time.time(), urls, os.getpid()):
            store.append(event)
        for row in hostile(options.names, options.length) if options.names else ():
            store.append(mesh.PeerUpdated(at=time.time(), peer=row))
        app = build_management_app(Scripted(store), token=ensure_token(paths.token_file))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        write_record(
            paths, NodeRecord(pid=os.getpid(), api_url=urls[0], console_url=urls[1], started_at=time.time())
        )
        feeding = asyncio.create_task(_feed(store, options.members, options.changes, options.each))
        try:
            await server.serve(sockets=[listener])
        finally:
            feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await feeding


async def _feed(store: EventStore, members: int, changes: float, each: int) -> None:
    """`changes` times a second, `each` members have new figures; what was late is made up for."""
    chance, began, done = random.Random(2), time.monotonic(), 0
    while changes > 0:
        await asyncio.sleep(1 / changes)
        while done < (time.monotonic() - began) * changes:
            done += 1
            for event in changing(members, time.time(), chance, each):
                store.append(event)


def main() -> None:
    """Parses and serves."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard_node")
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--changes", type=float, default=0.0, help="times a second that members change")
    parser.add_argument("--each", type=int, default=1, help="members that change each time")
    parser.add_argument("--names", type=int, default=0, help="hostile names")
    parser.add_argument("--length", type=int, default=0, help="characters of the longest hostile name")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--console", type=int, required=True)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
