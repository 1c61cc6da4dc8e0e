"""The records that a node holds, with the hashes by which two nodes see where they differ."""

import hashlib
from collections.abc import Iterable, Iterator

from meshllm_core.membership.records import Record, RecordKind
from meshllm_core.wire.gossip import BUCKET_HASH_BYTES, BUCKETS, DIGEST_KEY_BYTES, pack_digest

VERSION_LIMIT = 1 << 63


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
        self.summary = 0
        """All hashes, XORed."""
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

    def summary_bytes(self) -> bytes:
        """8 bytes; equal for two stores that hold the same versions of the same keys."""
        return self.summary.to_bytes(8, "big")

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
        value = int.from_bytes(
            hashlib.blake2b(pack_digest(key, record.version), digest_size=8).digest(), "big"
        )
        self.summary ^= value
        self._buckets[key[0]] ^= value
