"""llama.cpp's device list, asked of a short-lived child: a broken GPU driver must not end the node."""

import subprocess
import sys

import msgspec

from meshllm_core.errors import EngineError
from meshllm_core.state.events import Device

SECONDS = 30


def list_devices() -> tuple[Device, ...]:
    """What llama.cpp can compute on. Raises EngineError when it cannot even be asked."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "meshllm_core.engine.devices"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"llama.cpp did not list its devices in {SECONDS} s.", hint="Check the graphics driver."
        ) from error
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise EngineError(
            f"llama.cpp cannot be started (exit code {done.returncode}): {' / '.join(tail)}",
            hint="Run `sh installers/run.sh` to build it again.",
        )
    return msgspec.json.decode(done.stdout, type=tuple[Device, ...])
