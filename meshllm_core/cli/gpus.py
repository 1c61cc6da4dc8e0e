"""`meshllm gpus`: what llama.cpp can compute on, asked of llama.cpp itself."""

from meshllm_core.cli import text
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json, table


def gpus(as_json: AsJson = False) -> None:
    """List the compute devices of this machine, by the names that --device takes."""
    from meshllm_core.node.devices import list_devices

    devices = list_devices()
    if as_json:
        emit_json({"devices": devices})
        return
    rows = [
        (
            device.name,
            device.kind.replace("_", " "),
            text.size(device.memory_total),
            text.size(device.memory_free),
            device.description,
        )
        for device in devices
    ]
    emit(table(("device", "kind", "memory", "free", "description"), rows, right=(2, 3)))
    if all(device.kind == "cpu" for device in devices):
        emit("\nNo accelerator: models run on the processor. `meshllm doctor` says what could be added.")
