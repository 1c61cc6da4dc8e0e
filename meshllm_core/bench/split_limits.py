"""How much memory each machine is given, so that the model is cut where the benchmark wants it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from meshllm_core.bench.split_nodes import MESHLLM, Settings
from meshllm_core.errors import NodeError

PLAN_SECONDS = 120
_PLENTY = 1e15
_MACHINES = {
    "nodes": [{"name": "a", "memory": _PLENTY}, {"name": "b", "memory": _PLENTY}],
    "rtt": "1ms",
    "driver": "a",
}


def limits(settings: Settings, folder: Path, share: float) -> tuple[float, float]:
    """Bytes for the coordinator and for the other machine, which then computes `share` of the layers.

    Each may use what its stage needs, as `meshllm plan` says, and half a layer more: neither could take
    another layer. Raises NodeError with what the plan says.
    """
    machines, lock = folder / "machines.json", folder / "lock.json"
    machines.write_text(json.dumps(_MACHINES))
    _plan(settings, "--nodes", str(machines), "--write-lock", str(lock))
    topology = json.loads(lock.read_text())
    layers = int(topology["stages"][-1]["layer_end"])
    if layers < 2:
        raise NodeError(f"{settings.model.name} has {layers} layer(s): there is nothing to split.")
    cut = min(layers - 1, max(1, round(layers * share)))
    topology["stages"] = [
        {"node": "b", "layer_start": 0, "layer_end": cut},
        {"node": "a", "layer_start": cut, "layer_end": layers},
    ]
    lock.write_text(json.dumps(topology))
    found = _plan(settings, "--nodes", str(machines), "--split-topology-lock", str(lock))
    other, coordinator = (stage["bytes"] for stage in found["chosen"]["stages"])
    half = (other["weights"] + other["kv"]) / cut / 2
    return coordinator["total"] + half, other["total"] + half


def _plan(settings: Settings, *arguments: str) -> dict[str, Any]:
    command = [*MESHLLM, "plan", str(settings.model), "--ctx-size", str(settings.context)]
    command += ["--lanes", str(settings.lanes), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PLAN_SECONDS, check=False)
    if done.returncode:
        raise NodeError(f"`meshllm plan` failed: {done.stderr.strip()[-500:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
