"""The part of the fold that is about downloads."""

from typing import assert_never

import msgspec

from meshllm_core.state import download_events as ev
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.snapshot import NodeSnapshot

replace = msgspec.structs.replace
DOWNLOADS_SHOWN = 32

DownloadEvent = ev.DownloadChanged | ev.DownloadRemoved


def fold_download(snapshot: NodeSnapshot, event: DownloadEvent) -> NodeSnapshot:
    """The snapshot after an event about a download, without its notice."""
    match event:
        case ev.DownloadChanged(download=row):
            known = any(old.id == row.id for old in snapshot.downloads)
            rows = tuple(row if old.id == row.id else old for old in snapshot.downloads)
            return replace(snapshot, downloads=(rows if known else (*rows, row))[-DOWNLOADS_SHOWN:])
        case ev.DownloadRemoved():
            kept = tuple(row for row in snapshot.downloads if row.id != event.id)
            return replace(snapshot, downloads=kept)
        case _:
            assert_never(event)


def download_words(snapshot: NodeSnapshot, event: DownloadEvent) -> tuple[NoticeLevel, str, str] | None:
    """(level, source, text) of what a person should read in the log about `event`, not folded in yet."""
    match event:
        case ev.DownloadChanged(download=row):
            before = next((old for old in snapshot.downloads if old.id == row.id), None)
            if before is not None and before.state == row.state:
                return None
            name = row.model or row.ref
            if row.state == "failed":
                return "error", name, f"the download failed: {row.message} {row.hint}".strip()
            if row.state == "done":
                return "info", name, "downloaded"
        case ev.DownloadRemoved(reason=reason) if reason:
            gone = next((old for old in snapshot.downloads if old.id == event.id), None)
            return "info", (gone.model or gone.ref) if gone else "downloads", reason
    return None
