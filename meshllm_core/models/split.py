"""Names of split sets: `model-00001-of-00003.gguf`. Pure."""

import re
from dataclasses import dataclass
from pathlib import PurePath

_MEMBER = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})$")

MAX_MEMBERS = 512
"""Largest split set that is accepted."""


@dataclass(frozen=True)
class SplitName:
    """One member's name, taken apart."""

    stem: str
    number: int
    """From 1."""
    count: int

    def member(self, number: int) -> str:
        """File name of another member of the set."""
        return f"{self.stem}-{number:05d}-of-{self.count:05d}.gguf"


def parse_split(name: str) -> SplitName | None:
    """The parts of a split member's file name, or None for a single file."""
    path = PurePath(name)
    match = _MEMBER.match(path.stem) if path.suffix.lower() == ".gguf" else None
    if match is None:
        return None
    found = SplitName(match["stem"], int(match["number"]), int(match["count"]))
    return found if 1 <= found.number <= found.count <= MAX_MEMBERS else None


def model_stem(name: str) -> str:
    """A model's public name: its file's name without folder, `.gguf` and shard suffix."""
    split = parse_split(PurePath(name).name)
    if split is not None:
        return split.stem
    path = PurePath(name)
    return path.stem if path.suffix.lower() == ".gguf" else path.name
