"""Certificates of codecs that other members measured and gave, apart from those that were made here.

Each is kept under its hash, so that it is fetched once, and beside them what shows whose the signers are.
That one is here says nothing about whether it is to be believed.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from meshllm_core.certify.record import Certified, open_certificate
from meshllm_core.errors import ProofInvalid
from meshllm_core.ids import ID_BYTES, NodeId, short
from meshllm_core.models.certificates import SUFFIX, CertificateStore
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from meshllm_core.wire import limits

FOLDER = "others"
"""Below the folder of what was measured here."""
OWNER_SUFFIX = ".owner"
MOST = 1024
"""Certificates that are kept; of signers who are not to be preferred, those with the most lose theirs."""
MOST_OF_ONE = 2 * limits.CODEC_CERTIFICATES
"""Certificates of one signer; its oldest measurement goes first."""


class ForeignCertificates:
    """A folder. Everything blocks and raises StorageError."""

    def __init__(self, certificates: Path) -> None:
        """`certificates` is where this node's own are; it need not exist yet."""
        self.folder = certificates / FOLDER
        self._store = CertificateStore(self.folder)

    def hashes(self) -> frozenset[bytes]:
        """What is here already."""
        with storing(self.folder):
            names = [file.name.removesuffix(SUFFIX) for file in self.folder.glob(f"*{SUFFIX}")]
        return frozenset(_unhex(name) for name in names)

    def load(self) -> tuple[Certified, ...]:
        """All whose signatures hold, the newest files first."""
        return self._store.load()

    def signers(self) -> frozenset[NodeId]:
        """Who measured what is here."""
        return frozenset(record.signer for record in self.load())

    def add(self, raw: bytes, wanted: bytes, signer: NodeId) -> None:
        """Keeps a certificate that was asked for by its hash, of a node that measured it itself.

        Raises ProofInvalid when it is another one, or another signed it, or it does not hold.
        """
        if len(raw) > limits.RECORD or hashlib.sha256(raw).digest() != wanted:
            raise ProofInvalid("A certificate of a codec is another than the one that was named.")
        record = open_certificate(raw)
        if record.signer != signer:
            raise ProofInvalid(f"A certificate of a codec was signed by {short(record.signer)}.")
        self._write(f"{wanted.hex()}{SUFFIX}", raw)

    def owners(self) -> dict[NodeId, bytes]:
        """The owner's certificate that each signer showed last; whether it holds is for the caller."""
        with storing(self.folder):
            files = sorted(self.folder.glob(f"*{OWNER_SUFFIX}"))[:MOST]
            found = {_unhex(file.name.removesuffix(OWNER_SUFFIX)): _read(file) for file in files}
        return {NodeId(node): raw for node, raw in found.items() if len(node) == ID_BYTES}

    def show_owners(self, shown: Mapping[NodeId, bytes]) -> None:
        """Keeps what signers of kept certificates show now; of others, and of no owner, nothing is kept."""
        known = self.owners()
        for signer in self.signers() & shown.keys():
            raw = shown[signer]
            if raw and raw != known.get(signer) and len(raw) <= limits.CERTIFICATE:
                self._write(f"{signer.hex()}{OWNER_SUFFIX}", raw)
            elif not raw:
                self._remove((f"{signer.hex()}{OWNER_SUFFIX}",))

    def trim(self, preferred: Collection[NodeId] = (), unwanted: Collection[NodeId] = ()) -> None:
        """Keeps to the bounds. `preferred` signers lose none to make room; of `unwanted` nothing stays."""
        files = sorted(self._store.load_files(), key=lambda one: -one[2].certificate.at)
        places: Counter[NodeId] = Counter()
        ranked: list[tuple[bool, int, str, NodeId]] = []
        for file, _, record in files:
            signer = record.signer
            places[signer] += 1
            if signer not in unwanted and places[signer] <= MOST_OF_ONE:
                # Everybody's newest come before anybody's second ones.
                ranked.append((signer not in preferred, places[signer], file.name, signer))
        staying = sorted(ranked)[:MOST]
        names = {name for _, _, name, _ in staying} | {
            f"{signer.hex()}{OWNER_SUFFIX}" for _, _, _, signer in staying
        }
        with storing(self.folder):
            there = [file.name for file in self.folder.glob("*") if file.suffix in (SUFFIX, OWNER_SUFFIX)]
        self._remove(name for name in there if name not in names)

    def _write(self, name: str, raw: bytes) -> None:
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            target = self.folder / name
            partial = target.with_name(f"{name}.{os.getpid()}{PARTIAL_SUFFIX}")
            try:
                partial.write_bytes(raw)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)

    def _remove(self, names: Iterable[str]) -> None:
        with storing(self.folder):
            for name in names:
                (self.folder / name).unlink(missing_ok=True)


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(limits.CERTIFICATE + 1)


def _unhex(name: str) -> bytes:
    try:
        return bytes.fromhex(name)
    except ValueError:
        return b""
