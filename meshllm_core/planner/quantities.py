"""Sizes, times and rates as people write them, each within the bounds of what exists."""

import math
import re
from difflib import get_close_matches

from meshllm_core.errors import ConfigError

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*([A-Za-z/]*)\s*", re.IGNORECASE)
_RATE = re.compile(r"(?P<power>(?:[kmgt]i?)?)(?P<kind>bit/s|bps|b/s)|")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
MAX_BYTES = 1 << 54
"""16 PiB: more than any machine or model has."""
MAX_MS = 60_000.0
MAX_RATE = 1e15
"""Bytes a second."""


def size(value: object, what: str) -> int:
    """Bytes: a whole number, or text such as `24 GB` (10^9) or `24 GiB` (2^30). Raises ConfigError."""
    number, unit = _parts(value, what, "a size such as 24 GB")
    factor = _byte_factor(unit.lower())
    if factor is None:
        raise _wrong(what, value, "a size such as 24 GB")
    return round(_within(number * factor, 0, MAX_BYTES, what, value))


def rate(value: object, what: str) -> float:
    """Bytes a second: a number, or text such as `936 GB/s` or `100 Mbit/s`. Raises ConfigError."""
    number, unit = _parts(value, what, "a rate such as 100 Mbit/s or 936 GB/s")
    match = _RATE.fullmatch(unit.lower())
    factor = _byte_factor(match["power"] or "") if match is not None else None
    if match is None or factor is None:
        raise _wrong(what, value, "a rate such as 100 Mbit/s or 936 GB/s")
    bits = match["kind"] in ("bit/s", "bps")
    return _within(number * factor / (8 if bits else 1), 1, MAX_RATE, what, value)


def milliseconds(value: object, what: str) -> float:
    """Milliseconds: a number, or text such as `10 ms`, `0.2s`, `300 us`. Raises ConfigError."""
    number, unit = _parts(value, what, "a time such as 10 ms")
    factor = {"": 1.0, "ms": 1.0, "s": 1000.0, "us": 0.001}.get(unit.lower())
    if factor is None:
        raise _wrong(what, value, "a time such as 10 ms")
    return _within(number * factor, 0, MAX_MS, what, value)


def count(value: object, what: str, least: int, most: int) -> int:
    """A whole number within bounds. Raises ConfigError."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(what, value, "a whole number")
    return int(_within(value, least, most, what, value))


def text(value: object, what: str) -> str:
    """A name of up to 64 printable characters. Raises ConfigError."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 64
        or not value.isprintable()
        or value != value.strip()
    ):
        raise _wrong(what, value, "a name of up to 64 printable characters")
    return value


def known(given: dict[str, object], allowed: tuple[str, ...], where: str) -> None:
    """Refuses keys that do not exist, naming the nearest. Raises ConfigError."""
    for name in given:
        if name not in allowed:
            near = get_close_matches(name, allowed, 1)
            hint = f"Did you mean {near[0]}?" if near else f"It may have: {', '.join(allowed)}."
            raise ConfigError(f"{where}: there is no key {name[:60]!r}.", hint=hint, param=name[:60])


def table(value: object, where: str) -> dict[str, object]:
    """A table of a TOML or JSON file. Raises ConfigError."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _wrong(where, value, "a table of names and values")
    return value


def rows(value: object, where: str, most: int) -> list[object]:
    """A list of at most `most` entries. Raises ConfigError."""
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    if len(value) > most:
        raise ConfigError(f"{where} has {len(value)} entries.", hint=f"At most {most} are read.", param=where)
    return value


def _byte_factor(unit: str) -> int | None:
    if unit in ("", "b"):
        return 1
    power, rest = _POWERS.get(unit[0]), unit[1:]
    if power is None or rest not in ("", "b", "i", "ib"):
        return None
    return int(1024**power) if rest.startswith("i") else int(1000**power)


def _parts(value: object, what: str, wanted: str) -> tuple[float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) and len(value) <= 40 else None
    if match is None:
        raise _wrong(what, value, wanted)
    return float(match[1]), match[2]


def _within(number: float, least: float, most: float, what: str, value: object) -> float:
    if not math.isfinite(number) or not least <= number <= most:
        raise ConfigError(
            f"{what} is {str(value)[:40]}, which is not between {least:g} and {most:g}.",
            hint="Correct the value; nothing that exists is out of these bounds.",
            param=what,
        )
    return number


def _wrong(what: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{what} is {str(value)[:40]!r}.", hint=f"Write {wanted}.", param=what)
