"""Which of its own measurements of codecs this node announces by their hashes, and gives to who asks."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from meshllm_core.ids import NodeId
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.state.snapshot import ModelView
from meshllm_core.wire import limits

PREFIX = "codec-certificate/"
"""Begins the id under which a certificate is asked for; its hash follows, hexadecimal."""
REMEMBERED = 64
"""Models that were here last, whose measurements are announced first."""


def file_id(digest: bytes) -> str:
    """Under which the certificate of that hash is asked for."""
    return f"{PREFIX}{digest.hex()}"


@dataclass
class Claims:
    """One per node. `refresh` blocks and runs in a thread, one call at a time; the rest is cheap."""

    folder: Path
    hashes: tuple[bytes, ...] = ()
    """What is announced: at most as many as an announcement takes, the most useful first."""
    _files: Mapping[str, Path] = field(default_factory=dict)
    _recent: dict[str, None] = field(default_factory=dict)
    _stamp: tuple[object, ...] = ()

    def note(self, models: Iterable[ModelView]) -> None:
        """These models are here now, whole or spread over machines."""
        for view in models:
            for name in filter(None, (view.id, view.ref, PurePath(view.path).name)):
                self._recent.pop(_plain(name), None)
                self._recent[_plain(name)] = None
        while len(self._recent) > REMEMBERED:
            del self._recent[next(iter(self._recent))]

    def refresh(self, me: NodeId) -> None:
        """Looks what was measured here: first of the models that were here last, then the newest.

        Raises StorageError.
        """
        stamp = (_changed(self.folder), me, tuple(self._recent))
        if stamp == self._stamp:
            return
        store = CertificateStore(self.folder)
        names, places = store.names(), {name: place for place, name in enumerate(reversed(self._recent))}
        own = [one for one in store.load_files() if one[2].signer == me]
        own.sort(
            key=lambda one: (
                places.get(_plain(names.get(one[2].certificate.artifact, "")), REMEMBERED * 3),
                -one[2].certificate.at,
            )
        )
        chosen = {hashlib.sha256(raw).digest(): file for file, raw, _ in own[: limits.CODEC_CERTIFICATES]}
        self._files = {file_id(digest): file for digest, file in chosen.items()}
        self.hashes, self._stamp = tuple(chosen), stamp

    def lookup(self, asked: str) -> Path | None:
        """The file of a certificate that is announced; None for anything else. Blocks."""
        file = self._files.get(asked)
        if file is None:
            return None
        try:
            with file.open("rb") as stream:
                raw = stream.read(limits.RECORD + 1)
        except OSError:
            return None
        # A newer measurement may have taken its place.
        return file if asked == file_id(hashlib.sha256(raw).digest()) else None


def _plain(name: str) -> str:
    return name.lower().removesuffix(".gguf")


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
