"""Bytes in the units people read, and foreign text made safe to show."""

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def show_bytes(count: int) -> str:
    """A count of bytes with three significant digits, in powers of 1024."""
    if abs(count) < 1024:
        return f"{count} bytes"
    value, power = count / 1024, 0
    while abs(value) >= 999.5 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[power]}"


def printable(text: str, limit: int = 200) -> str:
    """Text from a file or a server without what would move a terminal's cursor or reverse its line."""
    kept = "".join(character if character.isprintable() else " " for character in text[: 4 * limit])
    return " ".join(kept.split())[:limit]
