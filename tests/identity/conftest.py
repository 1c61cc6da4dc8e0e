"""A home of its own for each test, and a keyring that the test plays."""

import threading
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import null

from meshllm_core.paths import Paths


class PlayedKeyring(KeyringBackend):
    """A keyring of the desktop's kind; it can be made to block or to fail."""

    priority = 5.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.error: BaseException | None = None

    def _open(self) -> None:
        self.gate.wait()
        if self.error is not None:
            raise self.error

    def get_password(self, service: str, username: str) -> str | None:
        self._open()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open()
        del self.entries[service, username]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache", tmp_path / "logs")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedKeyring]:
    """The keyring of this desktop, for as long as the test runs."""
    monkeypatch.delenv("MESHLLM_HOME")
    before = keyring.get_keyring()
    backend = PlayedKeyring()
    keyring.set_keyring(backend)
    yield backend
    backend.gate.set()
    keyring.set_keyring(before)


@pytest.fixture
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(null.Keyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)
