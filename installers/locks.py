"""Reading the lock files: which package at which version."""

import re
from pathlib import Path

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def canonical(name: str) -> str:
    """The form of a package's name under which two spellings compare equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: Path) -> dict[str, str]:
    """Canonical name to version; of a package pinned differently per Python version, the last one."""
    return {canonical(name): version for name, version in _PINNED.findall(lock.read_text())}


def selected(lock: Path, names: frozenset[str]) -> str:
    """The lock's entries, with their hashes, of some packages only."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", lock.read_text())
    return "".join(e for e in entries if (m := _PINNED.match(e)) and canonical(m.group(1)) in names)
