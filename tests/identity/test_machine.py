"""Telling machines apart without saying which they are."""

from pathlib import Path

import pytest

from meshllm_core.identity.machine import fingerprint
from meshllm_core.ids import NodeId

NODE = NodeId(bytes(32))


def test_two_machines_differ_and_one_is_itself(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("0123456789abcdef0123456789abcdef\n")
    two.write_text("0123456789abcdef0123456789abcde0\n")
    assert fingerprint(NODE, files=(one,)) == fingerprint(NODE, files=(tmp_path / "none", one))
    assert fingerprint(NODE, files=(one,)) != fingerprint(NODE, files=(two,))
    assert "0123456789" not in fingerprint(NODE, files=(one,))
    assert fingerprint(NODE, files=(one,)) != fingerprint(NodeId(bytes([1]) * 32), files=(one,))


@pytest.mark.parametrize("text", ["", "uninitialized\n", "0" * 32, "x" * 32])
def test_a_file_without_an_id_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "id").write_text(text)
    assert fingerprint(NODE, files=(tmp_path / "id",)) == fingerprint(NODE, files=())


def test_this_machine_is_the_same_twice() -> None:
    assert fingerprint(NODE) == fingerprint(NODE)
    assert len(fingerprint(NODE)) == 32
