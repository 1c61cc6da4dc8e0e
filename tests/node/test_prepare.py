"""From a wish to what the engine is told."""

from pathlib import Path
from typing import Any

import pytest

from meshllm_core.config import load_settings
from meshllm_core.errors import ModelTooLarge
from meshllm_core.ids import ModelId
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.placement import ALL_LAYERS
from meshllm_core.node.prepare import Prepared, Wish, prepare_load
from meshllm_core.paths import default_paths
from meshllm_core.state.events import Device
from tests.support.default_model import require_default_model

MB = 10**6
GB = 10**9
CPU = Device(name="CPU", description="a processor", kind="cpu", memory_total=32 * GB, memory_free=20 * GB)


def _gpu(free: int) -> Device:
    return Device(name="CUDA0", description="a card", kind="gpu", memory_total=8 * GB, memory_free=free)


def _prepare(
    devices: tuple[Device, ...] = (CPU,), *, flags: dict[str, Any] | None = None, **wish: Any
) -> Prepared:
    path = require_default_model()
    model = ResolvedModel(
        id=ModelId("m"), ref="m", files=(Path(path),), facts=inspect_model(path), note="chosen by hand"
    )
    asked = {"context_size": 0, "lanes": 4, "memory_free": 20 * GB, "memory_left": None, **wish}
    return prepare_load(
        model, Wish(devices=devices, **asked), load_settings(default_paths(), flags=flags or {})
    )


def test_on_the_processor_with_the_context_the_model_was_trained_on() -> None:
    prepared = _prepare()
    assert (prepared.spec.device, prepared.spec.context, prepared.spec.lanes) == ("cpu", 8192, 4)
    assert prepared.spec.threads >= 1
    assert 0 < prepared.spec.parking_bytes <= prepared.fit.reserve_bytes // 2
    assert "chosen by hand" in prepared.notes


def test_every_lane_has_its_place_in_every_step() -> None:
    prepared = _prepare(flags={"batch": 32}, lanes=64, context_size=512)
    assert prepared.spec.batch >= 64 + prepared.spec.prefix_slots


def test_an_automatic_context_shrinks_to_keep_the_model_on_the_gpu() -> None:
    prepared = _prepare((CPU, _gpu(900 * MB)))
    assert prepared.spec.gpu_layers == ALL_LAYERS
    assert 2048 <= prepared.spec.context < 8192
    assert any("instead of 8192" in note for note in prepared.notes)


def test_a_fixed_context_that_is_too_long_for_the_gpu_moves_layers_to_the_processor() -> None:
    prepared = _prepare((CPU, _gpu(500 * MB)), context_size=8192)
    assert 0 < prepared.spec.gpu_layers < 30
    assert any("layers" in note for note in prepared.notes)


def test_too_little_memory_is_refused_with_what_would_fit() -> None:
    with pytest.raises(ModelTooLarge, match="does not fit") as caught:
        _prepare(memory_left=200 * MB, context_size=8192)
    assert "--ctx-size" in caught.value.hint
    with pytest.raises(ModelTooLarge):
        _prepare(memory_left=50 * MB)
