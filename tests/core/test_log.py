"""Logging: file and ring get everything but secrets, the terminal nothing."""

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshllm_core import log
from meshllm_core.log import LogSession, mask, start_logging
from meshllm_core.paths import Paths

logger = logging.getLogger("meshllm.test")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path, tmp_path, tmp_path, tmp_path / "deep" / "logs")


@pytest.fixture
def session(paths: Paths) -> Iterator[LogSession]:
    before = logging.getLogger().handlers
    started = start_logging(paths, level="info", secrets=("s3cret-key", ""))
    yield started
    started.close()
    assert logging.getLogger().handlers == before


def test_lines_reach_file_and_ring_and_not_the_terminal(
    session: LogSession, capfd: pytest.CaptureFixture[str]
) -> None:
    logger.info("hello %s", "there")
    logger.debug("too quiet")
    (line,) = session.ring.lines
    assert line.endswith("INFO    meshllm.test: hello there")
    assert session.file is not None
    assert session.file.read_text(encoding="utf-8") == line + "\n"
    assert session.file.stat().st_mode & 0o077 == 0
    assert capfd.readouterr() == ("", "")


def test_secrets_are_masked_in_messages_and_tracebacks(session: LogSession) -> None:
    logger.info("key=s3cret-key")
    logger.info("header %s", {"Authorization": "Bearer abcdef0123456789"})
    try:
        raise ValueError("with s3cret-key inside")
    except ValueError:
        logger.exception("failed")
    text = "\n".join(session.ring.lines)
    assert "s3cret-key" not in text
    assert "abcdef0123456789" not in text
    assert "ValueError: with •••" in text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdef.123", "Authorization: Bearer •••"),
        ("hf_abcdefghijkl", "•••"),
        ("sk-abcdefghijkl,", "•••,"),
        ('{"api_key": "abcdefgh"}', '{"api_key": "•••"}'),
        ("token=abcdefgh&x=1", "token=•••&x=1"),
        ("12 tokens: nothing", "12 tokens: nothing"),
        ("a risk-free task", "a risk-free task"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_long_records_are_cut_and_the_ring_is_bounded(session: LogSession) -> None:
    logger.info("x" * 100_000)
    assert len(session.ring.lines[0]) == log.LINE_LIMIT
    for index in range(log.LINES_KEPT + 10):
        logger.info("%d", index)
    assert len(session.ring.lines) == log.LINES_KEPT
    assert session.ring.lines[0].endswith(": 10")


def test_the_file_is_rotated(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 2000)
    session = start_logging(paths)
    for _ in range(200):
        logger.info("x" * 100)
    session.close()
    names = sorted(path.name for path in paths.logs.iterdir())
    assert names == ["node.log", "node.log.1", "node.log.2", "node.log.3"]
    assert all(path.stat().st_size <= 2000 for path in paths.logs.iterdir())


def test_a_log_that_cannot_be_written_does_not_stop_the_node(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    session = start_logging(Paths(tmp_path, tmp_path, tmp_path, blocked))
    try:
        assert session.file is None
        assert str(blocked) in session.problem
        assert any(session.problem in line for line in session.ring.lines)
    finally:
        session.close()


def test_warnings_and_chatter_of_libraries(session: LogSession) -> None:
    logging.getLogger("httpx").info("GET ...")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
    assert [line for line in session.ring.lines if "GET" in line] == []


def test_stderr_only_when_asked_for(paths: Paths, capfd: pytest.CaptureFixture[str]) -> None:
    session = start_logging(paths, stderr=True)
    logger.warning("look here")
    session.close()
    assert "look here" in capfd.readouterr().err
