"""Two machines on a bridge find each other by mDNS, and say so when multicast is dropped.

`python -m tests.real.nearby` as root; a machine runs it with its address.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from meshllm_core.discovery.mdns_record import Found
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.transport.interfaces import usable
from meshllm_core.transport.mdns import Nearby
from meshllm_core.transport.multicast import probe_multicast
from tests.real.namespaces import Machine, machines

SECONDS = 4.0


async def machine() -> dict[str, object]:
    """What a machine sees within some seconds."""
    addresses = [interface.address for interface in usable()[0] if ":" not in interface.address]
    began = time.monotonic()
    seen: list[tuple[float, str, tuple[str, ...]]] = []

    def found(what: Found) -> None:
        seen.append((round(time.monotonic() - began, 2), short(what.node), what.addresses))

    nearby, node = Nearby(), NodeId(os.urandom(32))
    blocked = await probe_multicast(addresses) is False
    await nearby.start(
        node=node,
        mesh=MeshId(bytes(32)),
        port=4400,
        addresses=addresses,
        on_found=found,
        on_lost=lambda _: None,
    )
    await asyncio.sleep(SECONDS)
    await nearby.close()
    return {"id": short(node), "addresses": addresses, "blocked": blocked, "seen": seen}


def show(folder: Path) -> None:
    """Both ways, with and without multicast; docker0 172.17.0.1 is on every machine."""
    for multicast in (True, False):
        with machines(["x", "y"], folder, multicast=multicast) as pair:
            programs = [_started(one) for one in pair]
            told = [json.loads(program.communicate(timeout=60)[0]) for program in programs]
        for report in told:
            sys.stdout.write(f"multicast {'on ' if multicast else 'off'} {json.dumps(report)}\n")
        for one, other in (told, reversed(told)):
            assert one["blocked"] is not multicast
            assert [entry[1:] for entry in one["seen"]] == ([[other["id"], other["addresses"]]] * multicast)
            assert not any(address.startswith("172.17.") for address in one["addresses"])


def _started(one: Machine) -> "subprocess.Popen[str]":
    program = ["ip", "netns", "exec", one.namespace, sys.executable, "-m", "tests.real.nearby", one.address]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(asyncio.run(machine())))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            show(Path(temporary))
