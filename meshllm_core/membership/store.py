"""The records that a node holds, with the hashes by which two nodes see where they differ."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire.gossip import BUCKET_HASH_BYTES, BUCKETS, DIGEST_KEY_BYTES, pack_digest

VERSION_LIMIT = 1 << 63
SEQUENCES = 1 << 22
"""Announcements that one incarnation can make; see `records.node_version`."""


def digest_key(record: Record) -> bytes:
    """The first 8 bytes of its key: what stands for it in a digest."""
    return record.key[:DIGEST_KEY_BYTES]


class RecordStore:
    """The latest version of each key.

    The hashes are over keys and versions, not over content: of two records with one key and one
    version the first stays, so different nodes may hold different ones and are at peace.
    """

    def __init__(self, limit: int) -> None:
        """At most `limit` records."""
        self.limit = limit
        self._steady = 0
        """All hashes, XORed, as if each incarnation announced itself once."""
        self._full = 0
        self._records: dict[bytes, Record] = {}
        self._buckets = [0] * BUCKETS

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: bytes) -> Record | None:
        """By the first 8 bytes of its key."""
        return self._records.get(key)

    def version(self, key: bytes) -> int:
        """Of the record with that digest key; -1 where there is none."""
        record = self._records.get(key)
        return -1 if record is None else record.version

    def refuses(self, record: Record) -> str:
        """Why a record cannot be kept, in one word; empty: it can.

        When 7/8 are taken, announcements of nodes that have none here are refused first, then all new keys.
        """
        held = self._records.get(digest_key(record))
        if not 0 <= record.version < VERSION_LIMIT:
            return "version"
        if held is not None:
            return "" if held.key == record.key else "collision"
        full = self.limit - self.limit // 8 if record.kind is RecordKind.ANNOUNCEMENT else self.limit
        return "full" if len(self._records) >= full else ""

    def put(self, record: Record) -> None:
        """Takes a record in, in place of an older one. Ask `refuses` first."""
        key = digest_key(record)
        held = self._records.get(key)
        if held is not None:
            self._toggle(key, held)
        self._records[key] = record
        self._toggle(key, record)

    def remove(self, key: bytes) -> None:
        """Forgets a record."""
        held = self._records.pop(key, None)
        if held is not None:
            self._toggle(key, held)

    def records(self, kind: RecordKind) -> Iterator[Record]:
        """All of a kind."""
        return (record for record in self._records.values() if record.kind is kind)

    def summary(self) -> bytes:
        """16 bytes: the first 8 are the same at two nodes but for refreshed announcements, all 16 with them.

        In a large mesh some announcement is always on its way, so the last 8 nearly always differ there.
        """
        return self._steady.to_bytes(8, "big") + self._full.to_bytes(8, "big")

    def bucket_hashes(self) -> bytes:
        """BUCKET_HASH_BYTES for each first byte of a key."""
        return b"".join((value & 0xFFFF_FFFF).to_bytes(BUCKET_HASH_BYTES, "big") for value in self._buckets)

    def differing(self, hashes: bytes) -> list[int]:
        """The buckets in which another store, with these hashes, holds something else."""
        mine = self.bucket_hashes()
        size = BUCKET_HASH_BYTES
        return [
            b
            for b in range(BUCKETS)
            if mine[b * size : b * size + size] != hashes[b * size : b * size + size]
        ]

    def bucketed(self, buckets: Iterable[int]) -> dict[int, list[bytes]]:
        """The digests in each of these buckets."""
        found: dict[int, list[bytes]] = {bucket: [] for bucket in buckets}
        for key, record in self._records.items():
            if (held := found.get(key[0])) is not None:
                held.append(pack_digest(key, record.version))
        return found

    def keys_in(self, buckets: bytes) -> list[bytes]:
        """The digest keys whose first byte is one of `buckets`."""
        chosen = set(buckets)
        return [key for key in self._records if key[0] in chosen]

    def _toggle(self, key: bytes, record: Record) -> None:
        value = _hash(key, record.version)
        self._full ^= value
        self._buckets[key[0]] ^= value
        if record.kind is RecordKind.ANNOUNCEMENT:
            value = _hash(key, record.version // SEQUENCES * SEQUENCES)
        self._steady ^= value


@lru_cache(maxsize=4096)
def _hash(key: bytes, version: int) -> int:
    return int.from_bytes(hashlib.blake2b(pack_digest(key, version), digest_size=8).digest(), "big")
