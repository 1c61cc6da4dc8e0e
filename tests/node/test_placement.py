"""Which device a model goes to."""

import pytest

from meshllm_core.errors import ConfigError
from meshllm_core.models.inspect import inspect_model
from meshllm_core.node.placement import ALL_LAYERS, place
from meshllm_core.state.events import Device
from tests.support.default_model import require_default_model

GB = 10**9
CPU = Device(name="CPU", description="a processor", kind="cpu", memory_total=32 * GB, memory_free=20 * GB)
GPU = Device(name="CUDA0", description="a card", kind="gpu", memory_total=8 * GB, memory_free=6 * GB)


@pytest.mark.parametrize(
    ("devices", "device", "model", "name", "layers", "available"),
    [
        ((CPU,), "auto", 1, "cpu", 0, 20),
        ((CPU, GPU), "CPU", 1, "cpu", 0, 20),
        ((CPU, GPU), "auto", 5, "auto", ALL_LAYERS, 6),
        ((CPU, GPU), "AUTO", 5, "auto", ALL_LAYERS, 6),
        ((CPU, GPU), "cuda0", 5, "CUDA0", ALL_LAYERS, 6),
        ((CPU, GPU), "auto", 12, "auto", 12, 26),
        ((CPU, GPU), "auto", 1000, "auto", 0, 26),
    ],
)
def test_place(
    devices: tuple[Device, ...], device: str, model: int, name: str, layers: int, available: int
) -> None:
    facts = inspect_model(require_default_model())
    found = place(facts, devices, device=device, memory_free=20 * GB, model_bytes=model * GB)
    assert (found.device, found.gpu_layers, found.memory_available) == (name, layers, available * GB)
    assert bool(found.note) == (layers not in (ALL_LAYERS, 0) or model == 1000)


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    facts = inspect_model(require_default_model())
    with pytest.raises(ConfigError, match="CUDA7") as caught:
        place(facts, (CPU, GPU), device="CUDA7", memory_free=1, model_bytes=1)
    assert "CUDA0" in caught.value.hint
