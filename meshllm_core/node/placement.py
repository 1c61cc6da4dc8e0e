"""On which device a model goes, and how many of its layers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.errors import ConfigError
from meshllm_core.models.facts import GgufFacts
from meshllm_core.state.events import Device

ALL_LAYERS = -1
_GPU_MARGIN = 0.85
"""Part of a GPU's free memory that weights may take when only some layers go there: the rest is for the
KV cache of those layers and the driver."""


@dataclass(frozen=True)
class Placement:
    """Where to compute."""

    device: str
    """As llama.cpp names it, or auto."""
    gpu_layers: int
    """Layers on the GPU; ALL_LAYERS is all of them, 0 none."""
    memory_available: int
    """Bytes that the model may use there."""
    note: str = ""
    """For a person; empty when nothing is unusual."""


def place(
    facts: GgufFacts, devices: Sequence[Device], *, device: str, memory_free: int, model_bytes: int
) -> Placement:
    """`device` is auto, CPU or a device name. `model_bytes` is what the whole model needs.

    A model that does not fit on the GPUs is put there in part, when main memory holds the rest.
    Raises ConfigError for a device that does not exist.
    """
    wanted = device.lower()
    gpus = [entry for entry in devices if entry.kind != "cpu"]
    if wanted == "cpu" or (wanted == "auto" and not gpus):
        return Placement("cpu", 0, memory_free)
    if wanted != "auto":
        check_device(device, devices)
        gpus = [entry for entry in gpus if entry.name.lower() == wanted]
    name = "auto" if wanted == "auto" else gpus[0].name
    gpu_free = sum(entry.memory_free for entry in gpus)
    if model_bytes <= gpu_free:
        return Placement(name, ALL_LAYERS, gpu_free)
    layers = int(facts.layers * gpu_free * _GPU_MARGIN / model_bytes) if model_bytes else 0
    note = (
        f"{layers} of {facts.layers} layers go to {name}; the rest is computed by the processor, "
        "because the model is larger than the device's memory."
    )
    return Placement(name, layers, gpu_free + memory_free, note)


def check_device(device: str, devices: Sequence[Device]) -> None:
    """Raises ConfigError unless `device` is auto, CPU or the name of one that is no CPU."""
    names = ["auto", "CPU", *(entry.name for entry in devices if entry.kind != "cpu")]
    if device.lower() not in [name.lower() for name in names]:
        raise ConfigError(
            f"There is no device named {device}.",
            hint=f"Choose one of: {', '.join(names)}.",
            param="device",
        )
