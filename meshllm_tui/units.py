"""Figures in words: bytes, rates, times, shares. No Textual here."""

from typing import Final

UNKNOWN: Final = "–"
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Bytes in the largest binary unit that gives at least 1: "105 MiB", "1.5 GiB"."""
    value = max(float(count), 0.0)
    for unit in _BYTE_UNITS:
        if value < 1024 or unit == _BYTE_UNITS[-1]:
            break
        value /= 1024
    if unit == "bytes":
        return f"{value:.0f} bytes"
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def sizes(done: float, total: float) -> str:
    """Progress in bytes: "42.0 of 105 MiB"; only what is done when the total is unknown."""
    if total <= 0:
        return f"{size(done)} so far"
    first, unit = size(done).rsplit(" ", 1)
    whole = size(total)
    return f"{first} of {whole}" if whole.endswith(unit) else f"{first} {unit} of {whole}"


def number(value: float) -> str:
    """Three significant figures or whole thousands: "61.2", "812", "8,192"."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def count(value: int, one: str, many: str = "") -> str:
    """A count and its noun: "1 request", "3 requests"."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def parameters(value: int) -> str:
    """Parameters of a model: "135M", "7.2B"."""
    for scale, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= scale:
            scaled = value / scale
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return str(value)


def duration(seconds: float) -> str:
    """A time span in at most two units: "12 s", "3 min", "2 h 5 min", "4 days"."""
    whole = int(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours // 24} days"


def milliseconds(value: float) -> str:
    """A short wait: "84 ms", "1.2 s"."""
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def percent(part: float, whole: float) -> str:
    """A share: "12 %"; a dash when the whole is unknown."""
    return f"{min(max(part / whole, 0.0), 1.0) * 100:.0f} %" if whole > 0 else UNKNOWN


def bar(fraction: float, width: int) -> tuple[str, str]:
    """A bar of `width` cells as its filled and its empty part."""
    cells = max(width, 0)
    filled = round(min(max(fraction, 0.0), 1.0) * cells)
    return "━" * filled, "─" * (cells - filled)
