"""llama.cpp's programs for the comparison: what is told when they do not work."""

import os
from pathlib import Path

import pytest

from meshllm_core.bench.split_link import delayed_link
from meshllm_core.bench.split_nodes import Settings
from meshllm_core.bench.split_peer import SERVER, WORKER, check_programs, rpc_pair
from meshllm_core.errors import ConfigError, NodeError


def write_program(folder: Path, name: str, script: str) -> None:
    """A program of that name."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_both_programs_are_needed(tmp_path: Path) -> None:
    write_program(tmp_path, SERVER, "exit 0")
    with pytest.raises(ConfigError, match=WORKER):
        check_programs(tmp_path)
    write_program(tmp_path, WORKER, "exit 0")
    check_programs(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root rights")
@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this system has no TUN device")
def test_a_program_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    write_program(tmp_path, WORKER, "echo no such device >&2; exit 3")
    write_program(tmp_path, SERVER, "exit 0")
    settings = Settings(tmp_path / "model.gguf", 512, 1, 1, "f32")
    with (
        delayed_link() as link,
        pytest.raises(NodeError, match=r"(?s)ended with 3.*no such device"),
        rpc_pair(link, tmp_path, tmp_path, settings, 4),
    ):
        pass
