"""`meshllm bench split` as a person runs it: what it refuses at once, and one short run of everything."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from meshllm_core.bench.split import bare_engine
from meshllm_core.bench.split_figures import HOP_BOUND_MS
from meshllm_core.errors import ExitCode
from meshllm_core.models.embedded import embedded_model


def run(folder: Path, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
    """The command, to its end; what it writes meanwhile lies in `folder`."""
    command = [sys.executable, "-m", "meshllm_core.cli.main", "bench", "split", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "speed"), "no part speed"),
        (("--delays", "quick"), "0,5,10"),
        (("--delays", "-5"), "not between 0"),
        (("--prefill-tokens", "10"), "nothing could overlap"),
        (("--model", "absent.gguf"), "is no file"),
        (("--rpc-bin", "."), "rpc_peer"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    done = run(tmp_path, "--model", str(model), *arguments)
    assert done.returncode in (ExitCode.USAGE, ExitCode.MODEL)
    assert told in done.stderr
    assert done.stdout == ""


def test_a_bare_engine_holds_no_model() -> None:
    assert 10 << 20 < bare_engine() < 200 << 20


@pytest.mark.model
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root rights")
@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this system has no TUN device")
def test_a_short_run_measures_every_part_and_leaves_nothing_running(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    done = run(
        tmp_path, "--model", str(embedded_model()), "--delays", "10", "--runs", "1", "--max-tokens", "8",
        "--prefill-tokens", "256", "--raw", str(raw), "--json", seconds=540,
    )  # fmt: skip
    assert done.returncode in (ExitCode.OK, ExitCode.CHECK), done.stderr
    document = json.loads(done.stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    kept = all(figure["good"] is not False for figure in document["figures"])
    assert document["complete"] is True
    assert document["good"] is kept is (done.returncode == ExitCode.OK)
    assert figures["link_tls_10ms"]["value"] > 9.9
    # Two trips of 10 ms cannot be hidden, so the rows did cross the link.
    assert figures["split_tls_10ms"]["value"] > 20
    assert figures["split_quic_0ms"]["value"] > 0
    assert figures["hop_quic_0ms"]["bound"] == HOP_BOUND_MS["quic"]
    assert figures["prefill_lock_step"]["value"] > 0
    assert figures["concurrency"]["value"] > 0
    assert figures["concurrency_whole"]["bound"] is None
    assert figures["foreign_files"]["good"] is True
    assert figures["stage_weights"]["words"].startswith("stage of 8 of 30 layers")
    assert "15 of 30 layers on the other machine" in done.stderr
    kinds = {json.loads(line)["kind"] for line in raw.read_text().splitlines()}
    assert kinds == {"conditions", "split plan", "request", "prefill", "figure"}
    _nothing_runs(tmp_path)


def _nothing_runs(folder: Path) -> None:
    """No program of the benchmark is left: all had their homes in this directory."""
    deadline = time.monotonic() + 10
    while left := [p.info for p in psutil.process_iter(["cmdline"]) if _names(p, folder)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert not list(folder.glob("meshllm-bench-*"))


def _names(process: psutil.Process, folder: Path) -> bool:
    return any(str(folder) in argument for argument in process.info["cmdline"] or [])
