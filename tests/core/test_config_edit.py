"""Changing one key of config.toml: what a person wrote stays, and nothing wrong is written."""

import errno
import os
import stat
from pathlib import Path

import pytest

from meshllm_core.config_edit import reset_key, set_key
from meshllm_core.errors import ConfigError

MINE = """# my machine
port = 1001  # not the usual one

# models that I use
models = [
    "a/b",  # small
    "auto",
]
lanes = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text(MINE)
    return file


def test_comments_and_order_stay(file: Path) -> None:
    settings = set_key(file, "lanes", "8", {})
    assert (settings.lanes, settings.port, settings.models) == (8, 1001, ("a/b", "auto"))
    assert file.read_text() == MINE.replace("lanes = 2", "lanes = 8")
    set_key(file, "split", "yes", {})
    assert file.read_text() == MINE.replace("lanes = 2", "lanes = 8") + "split = true\n"
    set_key(file, "models", "c/d, e/f", {})
    text = file.read_text()
    assert 'models = ["c/d", "e/f"]' in text
    assert "# my machine\nport = 1001  # not the usual one\n" in text


def test_a_reset_takes_the_key_out(file: Path) -> None:
    settings = reset_key(file, "lanes", {})
    assert (settings.lanes, settings.source("lanes").kind) == (4, "default")
    assert file.read_text() == MINE.replace("lanes = 2\n", "")
    before = file.stat().st_mtime_ns
    reset_key(file, "threads", {})
    assert file.stat().st_mtime_ns == before, "what is not there need not be written"


def test_a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode(tmp_path: Path, file: Path) -> None:
    new = tmp_path / "home" / "config" / "config.toml"
    set_key(new, "api_key", "secret", {})
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    file.chmod(0o644)
    set_key(file, "lanes", "3", {})
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_link_stays_a_link(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    set_key(link, "lanes", "3", {})
    assert link.is_symlink()
    assert "lanes = 3" in file.read_text()


@pytest.mark.parametrize(
    ("key", "value", "words", "hint"),
    [
        ("lanes", "0", "outside its range", "1 to 64"),
        ("lanes", "many", "'many'", "whole number"),
        ("mmap", "perhaps", "'perhaps'", "true or false"),
        ("kv_type", "q9", "'q9'", "f16 | q8_0 | q4_0"),
        ("host", "0.0.0.0", "opens the endpoint", "api_key"),
        ("console_port", "1001", "both 1001", "its own"),
        ("api_key", "with spaces", "not shown here", "printable"),
        ("laness", "1", "no key 'laness'", "Did you mean lanes?"),
    ],
)
def test_what_is_wrong_is_told_and_not_written(
    file: Path, key: str, value: str, words: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        set_key(file, key, value, {})
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert value not in str(caught.value) or key != "api_key"
    assert file.read_text() == MINE
    assert [each.name for each in file.parent.iterdir()] == ["config.toml"]


def test_a_file_that_is_wrong_already_is_named_by_its_line(file: Path) -> None:
    file.write_text("lanes = 2\nprot = 1\n")
    with pytest.raises(ConfigError, match=r"config.toml:2: there is no key 'prot'"):
        set_key(file, "lanes", "3", {})
    assert file.read_text() == "lanes = 2\nprot = 1\n"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(file: Path) -> None:
    file.parent.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="Cannot write"):
            set_key(file, "lanes", "3", {})
    finally:
        file.parent.chmod(0o700)


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "Free some space"), (errno.EROFS, "right to write there")]
)
def test_what_to_do_depends_on_why_it_cannot_be_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("meshllm_core.identity.private_file.replace", refuse)
    with pytest.raises(ConfigError, match="Cannot write") as refused:
        set_key(file, "lanes", "3", {})
    assert hint in refused.value.hint
    assert file.read_text() == MINE
