"""What can have happened to a download that somebody asked for by itself. Same rules as `events`."""

from typing import Literal

import msgspec

from meshllm_core.state.event import Event

DownloadState = Literal["waiting", "downloading", "stopping", "paused", "failed", "done"]


class DownloadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model on its way from the hub to this node's disk."""

    id: str
    """Of this download; not the model's."""
    ref: str
    """What was asked for."""
    state: DownloadState
    """waiting: another one is before it. stopping: it was told to pause or end, and will in a moment."""
    since: float
    """When `state` began."""
    model: str = ""
    """Its public name; empty until the hub has said which files it is."""
    bytes_done: int = 0
    bytes_total: int = 0
    """0 until the hub has said."""
    bytes_per_second: float = 0.0
    """Of the last seconds; 0 while not known."""
    any_size: bool = False
    """It was asked for although this machine's memory may not hold it."""
    message: str = ""
    """Why it failed, or what was chosen."""
    hint: str = ""


class DownloadChanged(Event, frozen=True, kw_only=True, tag="download_changed"):
    """A download began, got on (at most two events a second), or changed its state; its whole row."""

    download: DownloadRow


class DownloadRemoved(Event, frozen=True, kw_only=True, tag="download_removed"):
    """A download is not listed any more."""

    id: str
    reason: str
    """For the log; empty: nothing worth telling."""
