"""Base32 in groups of eight characters, the last of which checks the others and the group's place.

A group is a code word over GF(32): the characters, each weighted by another power of α, add up to the
group's number. So every wrong character and every two exchanged ones are noticed, and so are groups that
changed places; and it is known in which group it happened.
"""

from collections.abc import Iterator
from itertools import product

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
"""RFC 4648."""
GROUP = 8
"""Characters of a group, its check included; the last group may be shorter, of two at least."""
UNSURE = "1"
"""Is not of the alphabet, and may have been an I or an L."""

_READ_AS = str.maketrans({"0": "O", "8": "B", "|": UNSURE})
_VALUES = {character: value for value, character in enumerate(ALPHABET)}


def _powers() -> tuple[int, ...]:
    """α^0 … α^30 of GF(32) with x^5 + x^2 + 1."""
    found = [1]
    while len(found) < 31:
        doubled = found[-1] << 1
        found.append(doubled ^ 0b100101 if doubled & 32 else doubled)
    return tuple(found)


_POWERS = _powers()
_LOGS = {power: exponent for exponent, power in enumerate(_POWERS)}


def _times(value: int, exponent: int) -> int:
    return _POWERS[(_LOGS[value] + exponent) % 31] if value else 0


def _sum(characters: str) -> int:
    total = 0
    for place, character in enumerate(characters):
        total ^= _times(_VALUES[character], place)
    return total


def normal(character: str) -> str:
    """As it would be written: in capitals, 0 as O, 8 as B; a 1 stays, for it may be two letters."""
    return character.upper().translate(_READ_AS)


def symbol_count(data_bytes: int) -> int:
    """Characters, checks included, that so many bytes take."""
    data = -(-data_bytes * 8 // 5)
    return data + -(-data // (GROUP - 1))


def write(data: bytes) -> list[str]:
    """The groups for `data`."""
    bits = int.from_bytes(data, "big")
    count = -(-len(data) * 8 // 5)
    bits <<= count * 5 - len(data) * 8
    text = "".join(ALPHABET[bits >> 5 * place & 31] for place in reversed(range(count)))
    parts = [text[start : start + GROUP - 1] for start in range(0, count, GROUP - 1)]
    return [part + _check(part, number) for number, part in enumerate(parts, start=1)]


def read(groups: list[str]) -> bytes:
    """The bytes of groups that `repaired` gave back. Bits beyond the last whole byte are dropped."""
    text = "".join(group[:-1] for group in groups)
    bits = 0
    for character in text:
        bits = bits << 5 | _VALUES[character]
    spare = len(text) * 5 % 8
    return (bits >> spare).to_bytes(len(text) * 5 // 8, "big")


def repaired(group: str, number: int) -> str | None:
    """The group as it was written, or None if it does not hold; `number` counts from 1.

    A 1 is read as the I or the L that makes the group hold, if only one way does.
    """
    if not 2 <= len(group) <= GROUP or any(c not in _VALUES and c != UNSURE for c in group):
        return None
    holding = [way for way in _readings(group) if _sum(way) == number % 32]
    return holding[0] if len(holding) == 1 else None


def _readings(group: str) -> Iterator[str]:
    choices = ["IL" if character == UNSURE else character for character in group]
    return ("".join(way) for way in product(*choices))


def _check(part: str, number: int) -> str:
    rest = _sum(part) ^ number % 32
    return ALPHABET[_times(rest, -len(part))]
