"""The node as lines of text, where no dashboard can be drawn: no boxes, no redraw, one line per change."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

from meshllm_core.api.client import ManagementClient, NodeRecord
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.status import progress, render
from meshllm_core.errors import MeshError
from meshllm_core.state.snapshot import NodeSnapshot


def show_plain(record: NodeRecord, *, follow: bool, as_json: bool = False) -> int:
    """The status; with `follow` also what happens after, until Ctrl+C or the node's end.

    As JSON it is the one document of `meshllm status --json`, and nothing follows.
    """
    asyncio.run(_show(record, follow, as_json))
    return 0


async def _show(record: NodeRecord, follow: bool, as_json: bool) -> None:
    async with ManagementClient(record.console_url) as client:
        status = await client.status()
        if as_json:
            emit_json(status)
            return
        emit(clean(render(status, time.time())))
        if not follow:
            return
        say("Changes follow; Ctrl+C ends this view and leaves the node running.")
        before: NodeSnapshot | None = None
        snapshots = client.follow(_tell)
        async with contextlib.aclosing(snapshots):
            async for snapshot in snapshots:
                for line in changes(before, snapshot):
                    emit(clean(line))
                if snapshot.node_state == "stopping":
                    return
                before = snapshot


def changes(before: NodeSnapshot | None, after: NodeSnapshot) -> Iterator[str]:
    """A line for each thing that a person would want to hear of."""
    if before is None:
        return
    if after.node_state != before.node_state:
        yield f"node: {after.node_state}"
    for view in after.models:
        known = before.model(view.id)
        if known is None or progress(known) != progress(view):
            yield f"{view.id}: {progress(view)}"
    if after.notices != before.notices:
        for notice in after.notices:
            if notice not in before.notices:
                yield f"{notice.level}: {notice.source}: {notice.text}"


def _tell(error: MeshError | None) -> None:
    say(f"warning: {error}" if error else "The node answers again.")
