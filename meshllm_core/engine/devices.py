"""`python -m meshllm_core.engine.devices`: llama.cpp's device list as JSON on stdout.

A process of its own, because a broken GPU driver may crash it and must not crash the node.
"""

import os

import msgspec

from meshllm_core.engine.llama.library import device_handles


def main() -> None:
    """Write a JSON array of `state.events.Device`."""
    out = os.dup(1)
    os.dup2(2, 1)
    devices = [device for device, _ in device_handles()]
    os.write(out, msgspec.json.encode(devices))


if __name__ == "__main__":
    main()
