"""Figures in the words people read, the same in every command."""

import time

from meshllm_core.models.units import show_bytes


def size(count: int) -> str:
    """Bytes, or a dash when not known."""
    return show_bytes(count) if count else "–"


def number(value: float, digits: int = 1) -> str:
    """A figure, or a dash for nothing measured."""
    return f"{value:.{digits}f}" if value else "–"


def milliseconds(value: float) -> str:
    """A short span, or a dash for nothing measured."""
    if not value:
        return "–"
    return f"{value:.0f} ms" if value >= 99.5 else f"{value:.1f} ms" if value >= 0.95 else f"{value:.2f} ms"


def duration(seconds: float) -> str:
    """A span in its two largest units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def moment(at: float) -> str:
    """Seconds since the epoch as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "–"


def counted(count: int, one: str) -> str:
    """A count and its noun: "1 event", "3 events"."""
    return f"{count:,} {one if count == 1 else one + 's'}"
