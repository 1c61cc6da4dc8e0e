"""The base of all events."""

from typing import Literal

import msgspec

NoticeLevel = Literal["info", "warning", "error"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of all events."""

    at: float
    """When it happened, seconds since the epoch."""
