"""What a machine knows of its own speed: calibrated once, kept, refined by answers, told to the others."""

import asyncio
import os
import resource
import select
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from meshllm_core.config import load_settings
from meshllm_core.engine.pace_protocol import SECONDS, PaceFound, PaceJob, found_decoder
from meshllm_core.errors import EngineError
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.models.hardware import Hardware
from meshllm_core.models.pace_model import WEIGHTS
from meshllm_core.node import calibrate as calibrate_module
from meshllm_core.node.calibrate import PaceKeeper, calibrate, conditions_of
from meshllm_core.node.mesh_local import local_of
from meshllm_core.node.pace_file import KEPT, Conditions, KeptPace, keep_pace, kept_pace
from meshllm_core.paths import Paths, default_paths
from meshllm_core.state import events as ev
from meshllm_core.state.pace import pace_of
from meshllm_core.state.pace_events import Pace
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, RequestView
from tests.support.default_model import require_default_model
from tests.support.nodes import running_node

GB = 10**9
MEMORY_LIMIT = 256 << 20
IMPORTS = 2.0
"""Seconds of a processor that the process may need before it begins."""
CALIBRATED = Pace(decode=20 * GB, prefill=300 * GB, source="calibrated")
GPU = ev.Device(name="CUDA0", description="Card 9", kind="gpu", memory_total=8, memory_free=8)
CPU = ev.Device(name="CPU", description="A processor", kind="cpu", memory_total=8, memory_free=8)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A home of its own."""
    return default_paths({"MESHLLM_HOME": str(tmp_path)})


def conditions(threads: int = 4) -> Conditions:
    return Conditions(kind="cpu", device="A processor", engine="1.2", threads=threads)


def hardware(*devices: ev.Device) -> Hardware:
    return Hardware("A processor", 4, 8 * GB, 4 * GB, (*devices, CPU))


def served(tokens: int = 40, prompt: int = 200, **changes: object) -> NodeSnapshot:
    """One whole model of 1 GB that answered one request: 10 tokens a second, its prompt in half a second."""
    model = ModelView(id=ModelId("m"), ref="m", status="ready", requested_at=1.0, file_bytes=GB)
    request = RequestView(
        id=RequestId("r"),
        model=ModelId("m"),
        route="chat",
        started_at=1.0,
        prompt_tokens=prompt,
        status="stop",
        completion_tokens=tokens,
        queue_ms=100.0,
        first_token_ms=600.0,
        decode_tokens_per_second=10.0,
    )
    request = msgspec.structs.replace(request, **changes)
    return NodeSnapshot(models=(model,), requests=(request,), pace=CALIBRATED)


# Kept --------------------------------------------------------------------------------------------


def test_a_measurement_holds_for_its_own_conditions_only(paths: Paths) -> None:
    keep_pace(paths, KeptPace(conditions=conditions(), pace=CALIBRATED, at=1.0))
    assert kept_pace(paths, conditions()) == CALIBRATED
    for changes in ({"threads": 5}, {"engine": "1.3"}, {"device": "Another"}, {"kind": "gpu"}):
        assert kept_pace(paths, msgspec.structs.replace(conditions(), **changes)) is None
    better = Pace(decode=9, prefill=8, source="measured")
    keep_pace(paths, KeptPace(conditions=conditions(), pace=better, at=2.0))
    assert kept_pace(paths, conditions()) == better


def test_the_oldest_entries_go_first(paths: Paths) -> None:
    for number in range(KEPT + 2):
        keep_pace(paths, KeptPace(conditions=conditions(number), pace=CALIBRATED, at=float(number)))
    known = [number for number in range(KEPT + 2) if kept_pace(paths, conditions(number))]
    assert known == list(range(2, KEPT + 2))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "9" * 100_000),
        *('{"version":2,"paces":[]}', '{"version":1,"paces":[{"conditions":1}]}'),
        '{"version":1,"paces":[{"conditions":{"kind":"cpu","device":"A processor","engine":"1.2",'
        '"threads":4},"pace":{"decode":-5},"at":1}]}',
    ],
)
def test_a_file_of_no_use_is_as_none_and_is_made_anew(paths: Paths, text: str) -> None:
    paths.data.mkdir(parents=True)
    paths.pace_file.write_text(text)
    assert kept_pace(paths, conditions()) is None
    keep_pace(paths, KeptPace(conditions=conditions(), pace=CALIBRATED, at=1.0))
    assert kept_pace(paths, conditions()) == CALIBRATED


def test_conditions_name_the_device_that_computes(paths: Paths) -> None:
    def found(device: str, *devices: ev.Device) -> tuple[str, str]:
        settings = load_settings(paths, flags={"device": device}, environ={})
        made = conditions_of(settings, hardware(*devices))
        return made.kind, made.device

    assert found("auto") == ("cpu", "A processor")
    assert found("auto", GPU) == ("gpu", "Card 9")
    assert found("cuda0", GPU) == ("gpu", "Card 9")
    assert found("CPU", GPU) == ("cpu", "A processor")


# Observed ----------------------------------------------------------------------------------------


def test_what_answers_show_beats_the_calibration() -> None:
    assert pace_of(NodeSnapshot()) == Pace()
    assert pace_of(NodeSnapshot(pace=CALIBRATED)) == CALIBRATED
    assert pace_of(served()) == Pace(decode=10 * GB, prefill=400 * GB, source="measured")


def test_short_answers_and_prompts_say_nothing() -> None:
    assert pace_of(served(tokens=7)) == Pace(decode=CALIBRATED.decode, prefill=400 * GB, source="calibrated")
    assert pace_of(served(prompt=63)).prefill == CALIBRATED.prefill
    assert pace_of(served(cached_tokens=150)).prefill == CALIBRATED.prefill
    assert pace_of(served(served_by="shed")) == CALIBRATED


def test_others_are_told_which_of_both_it_is() -> None:
    def told(snapshot: NodeSnapshot) -> Pace:
        return local_of(snapshot, serves=True, memory_lent=1).pace

    assert told(NodeSnapshot(pace=CALIBRATED)).source == "calibrated"
    assert told(served()).source == "measured"


# In the background -------------------------------------------------------------------------------


class Machine:
    """A node as the keeper sees it: its events are folded as they come."""

    def __init__(self, snapshot: NodeSnapshot | None = None) -> None:
        self.snapshot = snapshot or NodeSnapshot()
        self.told: list[Pace] = []

    def append(self, event: ev.AnyEvent) -> None:
        """As the store does."""
        self.snapshot = reduce(self.snapshot, event)
        if isinstance(event, ev.PaceLearned):
            self.told.append(event.pace)

    def keeper(self, paths: Paths, **flags: object) -> PaceKeeper:
        """With settings of its own."""
        settings = load_settings(paths, flags={"threads": 1, "device": "CPU", **flags}, environ={})
        return PaceKeeper(settings, paths, self.append, lambda: self.snapshot)

    async def run(self, keeper: PaceKeeper, until: int, seconds: float = 90.0) -> None:
        """Until so much was told."""
        task = asyncio.create_task(keeper.run(hardware()))
        end = time.monotonic() + seconds
        while len(self.told) < until and not task.done():
            await asyncio.sleep(0.02)
            if time.monotonic() > end:
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_machine_measures_itself_once_and_keeps_it(paths: Paths) -> None:
    machine = Machine()
    await machine.run(machine.keeper(paths), until=1)
    (pace,) = machine.told
    assert pace.source == "calibrated"
    assert machine.snapshot.pace == pace
    assert list(paths.stages.iterdir()) == []
    again = Machine()
    began = time.monotonic()
    await again.run(again.keeper(paths), until=1)
    assert again.told == [pace]
    assert time.monotonic() - began < 1.0


async def test_nothing_is_measured_where_that_is_switched_off(paths: Paths) -> None:
    machine = Machine()
    await machine.run(machine.keeper(paths, calibrate=False), until=1, seconds=0.5)
    assert machine.told == []
    assert not paths.pace_file.exists()


@pytest.mark.parametrize(
    "busy",
    [
        served(status="running", decode_tokens_per_second=0.0),
        NodeSnapshot(models=(msgspec.structs.replace(served().models[0], status="loading"),)),
    ],
    ids=["answering", "loading"],
)
async def test_it_waits_until_nothing_else_computes(paths: Paths, busy: NodeSnapshot) -> None:
    machine = Machine(busy)
    await machine.run(machine.keeper(paths), until=1, seconds=0.5)
    assert machine.told == []
    assert not paths.stages.exists()


async def test_a_calibration_that_failed_is_tried_again(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calibrate_module, "WATCH_SECONDS", 0.3)
    paths.stages.parent.mkdir(parents=True)
    paths.stages.touch()  # No folder: nothing can be written there.
    machine = Machine()
    running = asyncio.create_task(machine.run(machine.keeper(paths), until=1))
    for _ in range(1000):
        if "is not calibrated" in caplog.text:
            break
        await asyncio.sleep(0.01)
    paths.stages.unlink()
    await running
    assert [pace.source for pace in machine.told] == ["calibrated"]


async def test_what_answers_show_is_kept(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate_module, "WATCH_SECONDS", 0.05)
    machine = Machine(served())
    keeper = machine.keeper(paths, calibrate=False)
    await machine.run(keeper, until=1)
    shown = Pace(decode=10 * GB, prefill=400 * GB, source="measured")
    assert machine.told == [shown]
    assert kept_pace(paths, conditions_of(keeper.settings, hardware())) == shown
    await machine.run(keeper, until=3, seconds=0.5)
    assert machine.told == [shown, shown], "what hardly changes was told again"


# For real ----------------------------------------------------------------------------------------


def _measured(folder: Path) -> tuple[PaceFound, "resource.struct_rusage", int]:
    """What the process answers, what it used of the processor, and the bytes that were resident at most.

    These are looked at while it runs: what the system counts begins with the memory of the tests themselves.
    """
    largest = 0
    job = PaceJob(folder=str(folder), device="cpu", threads=1)
    with subprocess.Popen(
        [sys.executable, "-m", "meshllm_core.engine.pace"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(job))
        process.stdin.close()
        seen = psutil.Process(process.pid)
        while not select.select([process.stdout], [], [], 0.005)[0]:
            largest = max(largest, seen.memory_info().rss)
        answer = process.stdout.read()
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0
    return found_decoder.decode(answer), usage, largest


def test_the_measurement_stays_within_its_bounds(tmp_path: Path) -> None:
    for _ in range(5):
        found, usage, largest = _measured(tmp_path)
        assert 0 < largest <= MEMORY_LIMIT
        # Of the processor's time: by the clock it takes as long as others let it wait.
        assert usage.ru_utime + usage.ru_stime <= SECONDS + IMPORTS
        # No machine that runs this is as slow as one pass a second, or as fast.
        assert WEIGHTS < found.decode < 10_000 * GB
        assert list(tmp_path.iterdir()) == []
        if found.prefill > found.decode:
            return  # A machine that is busy with other tests may leave no time for that.
    raise AssertionError("many tokens at once never took less time each than one by itself")


async def test_a_node_that_ends_takes_the_measurement_along(tmp_path: Path) -> None:
    task = asyncio.create_task(calibrate(PaceJob(folder=str(tmp_path), device="cpu", threads=1)))
    children: list[psutil.Process] = []
    while not children:
        await asyncio.sleep(0.01)
        children = [one for one in psutil.Process().children() if "meshllm_core.engine.pace" in one.cmdline()]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert not children[0].is_running()


async def test_a_measurement_that_fails_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="ended with code 1"):
        await calibrate(PaceJob(folder=str(tmp_path / "nowhere"), device="cpu", threads=1))


def test_the_others_of_a_mesh_learn_it(tmp_path: Path) -> None:
    on = {"MESHLLM_CALIBRATE": "true"}
    usual = ("--bind-ip", "127.0.0.1", "--mesh-discovery-mode", "off", "--device", "CPU")
    for name in ("attic", "shed"):
        config = tmp_path / name / "home" / "config"
        config.mkdir(parents=True)
        (config / "config.toml").write_text("models = []\n")
    with (
        running_node(tmp_path / "attic", "--node-name", "attic", *usual, environment=on) as attic,
        running_node(tmp_path / "shed", "--node-name", "shed", *usual) as shed,
    ):
        shed.act("join", token=attic.act("invite").json()["token"])
        heard = shed.wait(lambda s: any(peer["weights_per_second"] for peer in s["peers"]), 120)
        (peer,) = heard["peers"]
        own = attic.snapshot()["pace"]
        assert peer["calibrated"] is True
        assert own["source"] == "calibrated"
        assert peer["weights_per_second"] == pytest.approx(own["decode"], rel=0.05)
        assert peer["prefill_per_second"] == pytest.approx(own["prefill"], rel=0.05)
        assert shed.snapshot()["pace"].get("decode", 0) == 0, "it was told not to measure"
    kept = default_paths({"MESHLLM_HOME": str(attic.home)}).pace_file
    assert b'"calibrated"' in kept.read_bytes()


def test_a_fresh_mesh_plans_a_split_with_real_figures(tmp_path: Path) -> None:
    on = {"MESHLLM_CALIBRATE": "true"}
    size = ("--ctx-size", "512", "--lanes", "1", "--max-vram", "0.12")
    usual = ("--bind-ip", "127.0.0.1", "--mesh-discovery-mode", "off", "--device", "CPU", *size)
    for name in ("attic", "shed"):
        config = tmp_path / name / "home" / "config"
        config.mkdir(parents=True)
        (config / "config.toml").write_text("models = []\n")
    with (
        running_node(tmp_path / "attic", "--node-name", "attic", *usual, environment=on) as attic,
        running_node(tmp_path / "shed", "--node-name", "shed", *usual, environment=on) as shed,
    ):
        shed.act("join", token=attic.act("invite").json()["token"])
        attic.wait(
            lambda s: s["pace"].get("prefill") and any(p["prefill_per_second"] for p in s["peers"]), 120
        )
        attic.act("load", model=str(require_default_model()), split=True)
        attic.wait(lambda s: any(model["status"] == "ready" for model in s["models"]))
        (split,) = attic.status()["runtime"]["splits"]
        assert "tok/s" in split["sentence"]
        assert "no machine's speed is measured" not in split["sentence"]
        assert any("attic" in reason and "calibrated" in reason for reason in split["reasons"])
        assert split["predicted_ms_per_token"] > 0
        assert 16 <= split["prefill_chunk_tokens"] <= 512
        assert split["prefill_chunks_in_flight"] >= 2
        assert all(stage["predicted_ms"] > 0 for stage in attic.status()["runtime"]["stages"])
