"""`meshllm plan`: without a mesh, with machines and models that need not exist."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.config import load_settings
from meshllm_core.errors import ExitCode
from meshllm_core.models.hardware import detect
from meshllm_core.node.calibrate import conditions_of
from meshllm_core.node.devices import list_devices
from meshllm_core.node.pace_file import KeptPace, keep_pace
from meshllm_core.paths import default_paths
from meshllm_core.planner import tables
from meshllm_core.state.pace_events import Pace
from tests.cli.conftest import Result, run_apart
from tests.models.conftest import write_gguf

Run = Callable[..., Result]

HOMES = """
driver = "anna"

[[nodes]]
name = "anna"
memory = "64 GB"
memory_bandwidth = "546 GB/s"

[[nodes]]
name = "ben"
memory = "48 GB"
memory_bandwidth = "936 GB/s"

[[nodes]]
name = "chloe"
memory = "96 GB"
memory_bandwidth = "400 GB/s"

[[nodes]]
name = "dora"
memory = "32 GB"
layer = "4 ms"

[[links]]
between = ["anna", "ben"]
rtt = "18 ms"
bandwidth = "40 Mbit/s"

[[links]]
between = ["anna", "chloe"]
rtt = "24 ms"

[[links]]
between = ["anna", "dora"]
rtt = "12 ms"

[[links]]
between = ["ben", "chloe"]
rtt = "30 ms"
"""
LARGE = (
    "Qwen3-235B-A22B",
    "--layers",
    "94",
    "--bytes",
    "132GB",
    "--shape",
    "width=4096,heads=64,kv_heads=4,head_dim=128,vocabulary=151936,context=40960,feed_forward=12288,active_bytes=13GB",
)


@pytest.fixture
def homes(tmp_path: Path) -> str:
    """Four homes."""
    file = tmp_path / "homes.toml"
    file.write_text(HOMES, encoding="utf-8")
    return str(file)


def test_tables_are_the_published_ones(meshllm: Run) -> None:
    assert meshllm("plan", "tables").out == f"{tables.render()}\n"
    found = meshllm("plan", "tables", "--json").document
    assert [row["floor_ms"] for row in found["stage_counts"]] == [20, 30, 40, 50]
    assert round(found["petals"]["implied_hops"], 2) == 2.22
    assert found["split_axis"][4]["tensor_tokens_per_second"] == 1.25


def test_a_235b_model_on_four_homes(meshllm: Run, homes: str) -> None:
    told = meshllm("plan", *LARGE, "--nodes", homes)
    assert told.code == 0, told.err
    assert "Qwen3-235B-A22B fits on no machine alone; split chloe|anna: " in told.out
    assert "because 2 × 12 ms of network per token" in told.out
    assert "2 stages are the fewest that hold the model" in told.out
    assert "standby, not needed" in told.out
    found = meshllm("plan", *LARGE, "--nodes", homes, "--json").document
    chosen = found["chosen"]
    assert chosen["estimated_decode_network_ms_per_token"] == 24
    assert chosen["decode_tpot_target_met"] is False
    spans = [(stage["layer_start"], stage["layer_end"]) for stage in chosen["stages"]]
    assert (spans[0][0], spans[-1][1]) == (0, 94)
    for stage in chosen["stages"]:
        parts = stage["bytes"]
        assert (
            parts["weights"] + parts["kv"] + parts["compute"] + parts["boundary"]
            == parts["total"]
            <= parts["room"]
        )


def test_what_if_changes_the_answer(meshllm: Run, homes: str) -> None:
    near = meshllm("plan", *LARGE, "--nodes", homes, "--what-if", "hop=1ms", "--json").document["chosen"]
    assert near["estimated_decode_network_ms_per_token"] == 2
    lone = meshllm("plan", *LARGE, "--nodes", homes, "--what-if", "memory:ben=200GB,without=chloe", "--json")
    assert lone.document["chosen"]["title"] == "ben alone"
    assert {"node": "chloe", "standby": False, "reason": "left out by --what-if"} in lone.document["excluded"]
    aimed = meshllm("plan", *LARGE, "--nodes", homes, "--target", "80 ms", "--json").document["chosen"]
    assert aimed["decode_tpot_target_met"] is True


def test_what_does_not_fit_is_refused_with_what_would(meshllm: Run, homes: str) -> None:
    result = meshllm("plan", *LARGE, "--nodes", homes, "--what-if", "without=chloe,memory:anna=40GB")
    assert (result.code, result.out) == (ExitCode.MODEL, "")
    for words in (
        "less than it needs",
        "one more machine with",
        "chloe takes no part",
        "smaller quantization",
    ):
        assert words in result.err


def test_the_models_own_file_and_this_machine(meshllm: Run) -> None:
    found = meshllm("plan", "default", "--json").document
    assert len(found["chosen"]["stages"]) == 1
    assert found["chosen"]["stages"][0]["layer_end"] == 30
    assert found["chosen"]["tokens_per_second"] is None


def test_a_real_model_is_split_when_it_must_be(meshllm: Run, tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    nodes = [{"name": name, "memory": "380 MB", "layer": "0.5 ms"} for name in ("a", "b")]
    file.write_text(json.dumps({"nodes": nodes, "rtt": "20 ms"}))
    found = meshllm("plan", "default", "--nodes", str(file), "--ctx-size", "1024", "--lanes", "1", "--json")
    assert found.code == 0, found.err
    assert len(found.document["chosen"]["stages"]) == 2


def test_only_an_architectures_legal_cuts_are_planned(meshllm: Run, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text("".join(f'[[nodes]]\nname = "{name}"\nmemory = "268.8 MB"\n' for name in "abc"))
    whole = write_gguf(tmp_path / "never.gguf", architecture="rwkv7", layers=4, wkv__head_size=16)
    result = meshllm("plan", str(whole), "--nodes", str(nodes))
    assert result.code == ExitCode.MODEL
    assert "cannot be divided into stages" in result.err


def test_wire_formats_need_a_verdict(meshllm: Run, homes: str) -> None:
    plan = ("plan", *LARGE, "--nodes", homes)
    auto = meshllm(*plan, "--what-if", "verdict:f16=exact,verdict:q8=validated", "--json").document["chosen"]
    assert (auto["wire_dtype"], auto["wire_verdict"]) == ("f16", "exact")
    untested = meshllm(*plan, "--wire-dtype", "f16")
    assert (untested.code, untested.out) == (ExitCode.MODEL, "")
    assert "has not been tested with this file" in untested.err
    forced = meshllm(
        *plan, "--wire-dtype", "q8", "--force-dtype", "--what-if", "verdict:q8=rejected", "--json"
    )
    assert forced.document["chosen"]["wire_dtype"] == "q8"
    assert "insisted" in " ".join(forced.document["chosen"]["reasons"])


def test_a_lock_is_written_honoured_and_compared(meshllm: Run, homes: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    plan = ("plan", *LARGE, "--nodes", homes)
    chosen = meshllm(*plan, "--write-lock", str(lock), "--json").document["chosen"]
    locked = meshllm(*plan, "--split-topology-lock", str(lock), "--json").document["chosen"]
    assert locked["stages"] == chosen["stages"]
    slower = json.loads(lock.read_text())
    slower["stages"].reverse()
    for stage, (first, end) in zip(slower["stages"], ((0, 38), (38, 94)), strict=True):
        stage["layer_start"], stage["layer_end"] = first, end
    other = tmp_path / "other.json"
    other.write_text(json.dumps(slower))
    same = meshllm(*plan, "--running", str(lock), "--json").document["replan"]
    assert same == {"adopt": False, "reason": "the new plan is the one that runs"}
    kept = meshllm(*plan, "--running", str(other), "--what-if", "hop:anna:chloe=200ms")
    assert "keep what runs" in kept.out or "replace what runs" in kept.out
    slower["stages"][0]["node"] = "zoe"
    other.write_text(json.dumps(slower))
    wrong = meshllm(*plan, "--split-topology-lock", str(other))
    assert (wrong.code, wrong.out) == (ExitCode.USAGE, "")
    assert "there is no node 'zoe'" in wrong.err


def test_a_lock_for_another_description_is_refused(meshllm: Run, homes: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    written = meshllm("plan", *LARGE, "--nodes", homes, "--write-lock", str(lock))
    last = json.loads(lock.read_text())["stages"][-1]["node"]
    assert f"load it on {last}." in written.err
    other = meshllm("plan", *LARGE[:4], "133GB", "--nodes", homes, "--split-topology-lock", str(lock))
    assert other.code == ExitCode.USAGE
    assert "another file of Qwen3-235B-A22B" in other.err


def test_a_description_in_a_file(meshllm: Run, homes: str, tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(json.dumps({"name": "large", "layers": 80, "bytes": "100 GB", "legal_cuts": [40]}))
    found = meshllm("plan", str(file), "--nodes", homes, "--json").document
    assert found["model"] == "large"
    assert found["chosen"]["stages"][0]["layer_end"] == 40
    assert "assumed" in found["notes"][0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes = 1", "nodes"),
        ("[[nodes]]\nname = 'a'\nmemory = nan", "memory"),
        ("[[nodes]]\nname = 'a'\nmemory = -1", "memory"),
        ("[[nodes]]\nname = 'a'\nmemory = 1\nmemoyr = 2", "Did you mean memory"),
        ("not toml", "is not TOML"),
        ("x = " + "[" * 100_000, "is not TOML"),
        ("\xff" * 3, "is not TOML"),
        ("#" * ((1 << 20) + 1), "larger than 1 MiB"),
    ],
    ids=["type", "nan", "negative", "unknown key", "syntax", "deep", "encoding", "size"],
)
def test_bad_files_are_refused_by_name(meshllm: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(text.encode("latin-1"))
    result = meshllm("plan", *LARGE, "--nodes", str(file))
    assert (result.code, result.out) == (ExitCode.USAGE, "")
    assert words in result.err
    assert str(file) in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing-of-that-name",), ExitCode.MODEL, "No model 'nothing-of-that-name' is here"),
        (("x", "--layers", "0", "--bytes", "1GB"), ExitCode.USAGE, "layers is 0"),
        (("x", "--layers", "5"), ExitCode.USAGE, "has no bytes"),
        (("x", "--layers", "5", "--bytes", "nan"), ExitCode.USAGE, "bytes is 'nan'"),
        (
            ("x", "--layers", "5", "--bytes", "1GB", "--shape", "widht=5"),
            ExitCode.USAGE,
            "Did you mean width",
        ),
        (("x", "--layers", "5", "--bytes", "1GB", "--shape", "width"), ExitCode.USAGE, "not key=value"),
        (("x", "--layers", "5", "--bytes", "1GB", "--what-if", "hop"), ExitCode.USAGE, "no such change"),
        (("x", "--layers", "5", "--bytes", "1GB", "--wire-dtype", "f8"), ExitCode.USAGE, "f8"),
        (("x", "--layers", "5", "--bytes", "1GB", "--target", "soon"), ExitCode.USAGE, "--target"),
        (
            ("x", "--layers", "5", "--bytes", "1GB", "--nodes", "/nowhere.toml"),
            ExitCode.USAGE,
            "/nowhere.toml",
        ),
        (("/nowhere.json",), ExitCode.USAGE, "/nowhere.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_questions_are_answered_by_name(
    meshllm: Run, arguments: tuple[str, ...], code: ExitCode, words: str
) -> None:
    result = meshllm("plan", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert "Traceback" not in result.err


def test_it_runs_as_a_process_of_its_own() -> None:
    assert run_apart("plan", "tables").out.startswith("Stages at 10 ms per hop")


def test_this_machine_is_as_fast_as_it_was_measured(meshllm: Run) -> None:
    unknown = meshllm("plan", "default", "--ctx-size", "512", "--json").document["chosen"]
    assert (unknown["tokens_per_second"], unknown["stages"][0]["speed"]) == (None, "not measured")
    paths = default_paths()
    conditions = conditions_of(load_settings(paths, environ={}), detect(list_devices))
    pace = Pace(decode=10**9, prefill=10**10, source="calibrated")
    keep_pace(paths, KeptPace(conditions=conditions, pace=pace, at=1.0))
    known = meshllm("plan", "default", "--ctx-size", "512", "--json").document["chosen"]
    assert known["stages"][0]["speed"] == "calibrated"
    assert 5 < known["tokens_per_second"] < 20
    assert any("is calibrated on a small model" in reason for reason in known["reasons"])
    measured = Pace(decode=2 * 10**9, prefill=10**10, source="measured")
    keep_pace(paths, KeptPace(conditions=conditions, pace=measured, at=2.0))
    shown = meshllm("plan", "default", "--ctx-size", "512").out
    assert " measured " in shown
    assert "calibrated" not in shown
