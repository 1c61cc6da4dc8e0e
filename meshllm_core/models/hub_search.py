"""What a hub's search answers, read with care: names, counts and lists from outside are bounded. Pure."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from meshllm_core.models.quants import QUANTS, RemoteFile, models_in, rank
from meshllm_core.models.units import printable

RESULTS = 50
"""Most repositories of one search."""
QUERY_LIMIT = 200
"""Characters of what is searched for."""
ANSWER_LIMIT = 16 << 20
"""Bytes of an answer that are read."""
FILES_LIMIT = 2000
"""Names of files that are looked at in one repository."""
PARAMETERS_LIMIT = 10**14
"""More are not believed."""

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_BITS_IN_ORDER = """
    32 16 16 8.5 7.0 6.7 6.6 5.9 5.8 5.7 5.6 6.0 5.5 4.3 4.3 4.5
    5.0 4.95 4.85 4.6 4.5 4.3 5.0 4.55 4.4 4.3 3.9 3.7 3.5 3.45 3.3
    3.1 3.2 3.1 3.0 2.7 2.8 2.5 2.35 2.1 2.1 1.7 1.8 1.6 2.1 1.1
"""
_BITS = dict(zip(QUANTS, map(float, _BITS_IN_ORDER.split()), strict=True))
"""Bits that a parameter takes, about."""
_UNKNOWN_BITS = 8.5


class _Gguf(msgspec.Struct):
    total: int | None = None
    architecture: str | None = None


class _Sibling(msgspec.Struct):
    rfilename: str


class _Found(msgspec.Struct):
    id: str
    downloads: int | None = None
    likes: int | None = None
    gated: Any = False
    gguf: _Gguf | None = None
    siblings: list[_Sibling] = []


@dataclass(frozen=True)
class FoundModel:
    """A repository that a search found."""

    repo: str
    downloads: int
    """Of the last month."""
    likes: int
    gated: bool
    """Its owner wants terms accepted first."""
    parameters: int
    """0: the hub does not say."""
    architecture: str
    quants: tuple[str, ...]
    """What it holds, best first."""


def read_search(data: bytes) -> tuple[FoundModel, ...]:
    """What the hub answered, in its order. Raises ValueError where that is no answer to a search."""
    try:
        found = msgspec.json.decode(data, type=list[_Found])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(printable(str(error))) from error
    read = (_read(each) for each in found[:RESULTS] if _REPO.fullmatch(each.id))
    return tuple(model for model in read if model.quants)


def estimated_bytes(parameters: int, quant: str) -> int:
    """Bytes of a file, which a search does not tell, from its parameters; 0 where they are not known."""
    return int(parameters * _BITS.get(quant, _UNKNOWN_BITS) / 8)


def _read(found: _Found) -> FoundModel:
    files = [RemoteFile(each.rfilename, 0) for each in found.siblings[:FILES_LIMIT]]
    models, _ = models_in(file for file in files if file.path.isprintable())
    parameters = found.gguf.total if found.gguf and found.gguf.total else 0
    return FoundModel(
        repo=found.id,
        downloads=max(found.downloads or 0, 0),
        likes=max(found.likes or 0, 0),
        gated=bool(found.gated),
        parameters=parameters if 0 < parameters <= PARAMETERS_LIMIT else 0,
        architecture=printable(found.gguf.architecture or "", 40) if found.gguf else "",
        quants=tuple(sorted({model.quant for model in models}, key=rank)),
    )
