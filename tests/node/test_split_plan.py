"""From the planner's answer to stages, without any node: what a person is told, and what is no lock."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.errors import ConfigError, ModelTooLarge
from meshllm_core.ids import NodeId
from meshllm_core.models.fit import EngineSettings
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.node.split_plan import Machine, Wish, plan_split
from meshllm_core.planner.lock import MAX_LOCK_BYTES
from meshllm_core.planner.real_model import planned_model
from meshllm_core.planner.wire import choose_wire
from tests.support.default_model import require_default_model


def machine(number: int, name: str, lent: int, excluded: str = "") -> Machine:
    return Machine(NodeId(bytes([number]) * 32), name, 1 << 33, lent, excluded)


def wish(lock: Path | None = None, dtype: str = "f32") -> Wish:
    file = require_default_model()
    planned = planned_model(inspect_model(file), open_source(local_files(file)))
    width = planned.model.row_width
    return Wish(planned, 0, 4, EngineSettings(), 1, lambda cuts: choose_wire(dtype, {}, width), lock)


def _endless(folder: Path) -> Path:
    return Path("/dev/zero")


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _large(folder: Path) -> Path:
    (folder / "large.json").write_bytes(b" " * (MAX_LOCK_BYTES + 1))
    return folder / "large.json"


def _missing(folder: Path) -> Path:
    return folder / "x" / "lock.json"


def _long(folder: Path) -> Path:
    return folder / ("x" * 300)


@pytest.mark.parametrize("made", [_endless, _pipe, _large, _missing, _long, lambda folder: folder])
def test_what_is_no_lock_is_named_and_never_read_without_end(
    tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    file = made(tmp_path)
    machines = [machine(1, "Bert", 1 << 30), machine(2, "Anna", 1 << 30)]
    with pytest.raises(ConfigError, match="The topology lock") as caught:
        plan_split(wish(file), machines, {})
    assert str(file) in caught.value.message


def test_too_little_memory_is_said_in_whole_sentences() -> None:
    machines = [machine(1, "Bert", 30 << 20), machine(3, "Cora", 1 << 30, "it lends nothing")]
    with pytest.raises(ModelTooLarge) as caught:
        plan_split(wish(), [*machines, machine(2, "Anna", 30 << 20)], {("Anna", "Bert"): 1.0})
    assert caught.value.message.startswith("alone it needs")
    assert "; Cora: it lends nothing" in caught.value.message
    assert caught.value.message.endswith(".") and caught.value.hint.startswith("What would do: ")


def test_a_format_that_nobody_measured_ends_in_one_full_stop() -> None:
    machines = [machine(1, "Bert", 120 << 20), machine(2, "Anna", 120 << 20)]
    with pytest.raises(ModelTooLarge, match="q8 has not been tested") as caught:
        plan_split(wish(dtype="q8"), machines, {("Anna", "Bert"): 1.0})
    assert caught.value.message.endswith(".") and ".." not in caught.value.message
