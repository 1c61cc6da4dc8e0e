"""Models worth offering, in steps of memory fine enough that every machine has one that suits it."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec

from meshllm_core.models.fit import MIB, reserve_for
from meshllm_core.models.refs import HubRef

CHAT_TOKENS = 4096
"""Tokens of KV cache that a pick leaves room for."""
COMPUTE_BYTES = 200 * MIB
"""Room for compute buffers; a pick is checked exactly once its file is here."""


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one quantization."""

    id: str
    repo: str
    """owner/name at the hub."""
    quant: str
    bytes: int
    """About; the hub knows exactly."""
    parameters: int
    kv_bytes_per_token: int
    """Of the whole model, f16."""
    layers: int
    width: int
    vocabulary: int
    context: int
    """Tokens that it was trained on."""
    active_parameters: int = 0
    """What one token uses; 0: all of them."""
    licence: str
    about: str

    @property
    def ref(self) -> HubRef:
        """Where it comes from."""
        return HubRef(self.repo, self.quant)

    @property
    def memory_bytes(self) -> int:
        """Memory it takes with a conversation of CHAT_TOKENS, without the reserve."""
        return self.bytes + self.kv_bytes_per_token * CHAT_TOKENS + COMPUTE_BYTES


@cache
def catalog() -> tuple[CatalogEntry, ...]:
    """All entries, smallest first."""
    data = (files("meshllm_core.models") / "catalog.json").read_bytes()
    entries = msgspec.json.decode(data, type=tuple[CatalogEntry, ...])
    return tuple(sorted(entries, key=lambda entry: entry.bytes))


def entry_named(name: str) -> CatalogEntry:
    """The entry of that id. Raises KeyError."""
    return {entry.id: entry for entry in catalog()}[name]


def fits(entry: CatalogEntry, memory_available: int) -> bool:
    """Whether it would load on a machine with so many bytes free."""
    return entry.memory_bytes <= memory_available - reserve_for(memory_available)


def pick(memory_available: int) -> CatalogEntry | None:
    """The best entry that fits in `memory_available` bytes; None if not even the smallest does."""
    return best_of(entry for entry in catalog() if fits(entry, memory_available))


def best_of(entries: Iterable[CatalogEntry]) -> CatalogEntry | None:
    """The best of those that fit: the most parameters, then the most bytes; None if there are none."""
    return max(entries, key=lambda entry: (entry.parameters, entry.bytes), default=None)
