"""Certificates of codecs on this disk, beside the models: one small file each."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from meshllm_core.certify.record import Certified, CodecCertificate, artifact_digest, open_certificate
from meshllm_core.errors import ModelNotFound, ProofInvalid
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from meshllm_core.wire import limits

SUFFIX = ".certificate"
MOST = 4096
"""Certificates that are read; the newest files first."""
NAMES = "names.json"
"""What people call the artifacts."""
NAME_LIMIT = 200
"""Characters."""
NAMES_LIMIT = 1 << 22
"""Bytes that are read."""
_BLOCK = 1 << 22


class CertificateStore:
    """A folder of certificates."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist yet."""
        self.folder = folder

    def add(self, raw: bytes) -> Path:
        """Keeps a certificate, in place of an older one of the same signer for the same question.

        Raises ProofInvalid, StorageError.
        """
        record = open_certificate(raw)
        target = self.folder / _name(record)
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.{os.getpid()}{PARTIAL_SUFFIX}")
            try:
                partial.write_bytes(raw)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        return target

    def load(self) -> tuple[Certified, ...]:
        """All whose signatures hold; whom to believe is for the caller. Others are passed over."""
        return tuple(record for _, record in self.load_signed())

    def load_signed(self) -> tuple[tuple[bytes, Certified], ...]:
        """The same, each with the bytes that were signed."""
        return tuple((raw, record) for _, raw, record in self.load_files())

    def load_files(self) -> tuple[tuple[Path, bytes, Certified], ...]:
        """The same, each with its file."""
        with storing(self.folder):
            files = sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda file: -file.stat().st_mtime)[:MOST]
            raws = [_read(file) for file in files]
        found = []
        for file, raw in zip(files, raws, strict=True):
            try:
                found.append((file, raw, open_certificate(raw)))
            except ProofInvalid:
                continue
        return tuple(found)

    def name(self, artifact: bytes, name: str) -> None:
        """Keeps a name for people of an artifact's digest: records carry none. Raises StorageError."""
        kept = {key: known for key, known in self.names().items() if key != artifact}
        newest = [(artifact, name[:NAME_LIMIT]), *kept.items()][:MOST]
        data = json.dumps({key.hex(): known for key, known in newest}, indent=0).encode()
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            target = self.folder / NAMES
            partial = target.with_name(f"{NAMES}.{os.getpid()}{PARTIAL_SUFFIX}")
            try:
                partial.write_bytes(data)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)

    def names(self) -> dict[bytes, str]:
        """Names by artifact, the newest first; nothing where there are none or they cannot be read."""
        try:
            with (self.folder / NAMES).open("rb") as stream:
                found = json.loads(stream.read(NAMES_LIMIT + 1)[:NAMES_LIMIT])
            return {bytes.fromhex(key): str(known)[:NAME_LIMIT] for key, known in found.items()}
        except (OSError, ValueError, AttributeError, RecursionError):
            return {}


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(limits.RECORD + 1)


def _name(record: Certified) -> str:
    one: CodecCertificate = record.certificate
    cuts = hashlib.sha256(repr(one.cuts).encode()).hexdigest()[:8]
    backend = hashlib.sha256(one.backend.encode()).hexdigest()[:8]
    return f"{one.artifact.hex()[:16]}-{cuts}-{backend}-{one.codec.label}-{record.signer.hex()[:10]}{SUFFIX}"


def hash_artifact(files: Sequence[Path], on_progress: Callable[[int], None] = lambda done: None) -> bytes:
    """`artifact_digest` of a model's files; `on_progress` gets the bytes read. Raises ModelNotFound."""
    hashes, done = [], 0
    for file in files:
        digest = hashlib.sha256()
        try:
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
                    done += len(block)
                    on_progress(done)
        except OSError as error:
            raise ModelNotFound(
                f"{file} cannot be read: {error.strerror or error}.",
                hint="Check that it is a file you may read.",
            ) from error
        hashes.append(digest.digest())
    return artifact_digest(hashes)
