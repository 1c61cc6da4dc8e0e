"""The node as lines of text: with `--plain`, and where no dashboard can be drawn."""

import asyncio
import contextlib
import time
from collections.abc import Iterable

from meshllm_core.api.client import ManagementClient, NodeRecord
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.plain_text import changes, opening
from meshllm_core.errors import MeshError


def show_plain(record: NodeRecord, *, follow: bool, as_json: bool = False) -> int:
    """The node in sentences; with `follow` also what happens after, until Ctrl+C or the node's end.

    As JSON it is the one document of `meshllm status --json`, and nothing follows.
    """
    asyncio.run(_show(record, follow, as_json))
    return 0


async def _show(record: NodeRecord, follow: bool, as_json: bool) -> None:
    async with ManagementClient(record.console_url) as client:
        if as_json:
            emit_json(await client.status())
            return
        before = await client.snapshot()
        _emit(opening(before, time.time()))
        if not follow:
            return
        say("Changes follow, a line each; Ctrl+C ends this view and leaves the node running.")
        async with contextlib.aclosing(client.follow(_Link().tell)) as snapshots:
            async for snapshot in snapshots:
                _emit(changes(before, snapshot))
                if snapshot.node_state == "stopping":
                    return
                before = snapshot


def _emit(lines: Iterable[str]) -> None:
    for line in lines:
        emit(" ".join(clean(line).split()))


class _Link:
    """Says once that the node is lost, however often it is looked for, and once that it is back."""

    def __init__(self) -> None:
        self._said = ""

    def tell(self, error: MeshError | None) -> None:
        """What became of the link: an error, or None when the node answers again."""
        words = f"warning: {error}" if error else "The node answers again."
        if words != self._said:
            self._said = words
            say(words)
