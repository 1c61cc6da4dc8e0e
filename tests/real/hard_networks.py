"""Show 2: no multicast, a docker0 on every machine, one machine that nobody reaches: what the screens say.

`python -m tests.real.hard_networks MODEL_A.gguf MODEL_B.gguf` as root.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.real.namespaces import Machine, firewall, machines, tell, wait
from tests.real.three_machines import ask, is_ready, serve


def show(models: list[str], folder: Path) -> None:
    """Every word is told as the person gets it."""
    with machines(["a", "b"], folder, docker=True, multicast=False) as (a, b):
        firewall(b, "iif lo accept")
        firewall(b, "ct state new drop")
        for machine, model in zip((a, b), models, strict=True):
            serve(machine, model)
        for machine in (a, b):
            wait(lambda m=machine: is_ready(m), f"{machine.name} is ready", 90)  # type: ignore[misc]
        token = json.loads(a.meshllm("invite", "--json").stdout)["token"]
        joined = b.meshllm("join", "-", stdin=token)
        tell(f"B$ meshllm join -\n{joined.stderr}{joined.stdout}")
        wait(lambda: a.peers()["B"]["reach"] == "outgoing_only", "A knows that B takes nothing unasked", 15)
        wait(lambda: b.peers()["A"]["reach"] == "both", "B knows that A is reached", 30)
        for machine in (a, b):
            _words(machine)
        tell(ask(a))
        tell(ask(b))
        _wrong_network(a, b)


def _words(machine: Machine) -> None:
    snapshot = machine.snapshot()
    tell(f"{machine.name.upper()}$ meshllm members\n{machine.meshllm('members').stdout}")
    tell(f"{machine.name.upper()} tells others: {', '.join(snapshot['mesh']['addresses'])}")
    for sentence in snapshot["mesh"]["left_out"]:
        tell(f"    not told: {sentence}")
    for notice in snapshot["notices"]:
        if notice["source"] == "mesh":
            tell(f"    log: {notice['level']}: {notice['text']}")
    for peer in snapshot["peers"]:
        tell(f"    {peer['name']}: {peer['reach']}: {peer['detail'] or '–'}")


def _wrong_network(a: Machine, b: Machine) -> None:
    """An invite whose address leads nowhere: the cause is named within ten seconds."""
    token = json.loads(a.meshllm("invite", "--json").stdout)["token"]
    b.meshllm("leave", "--yes")
    firewall(b, "udp dport 9338 drop", chain="output")
    began = time.monotonic()
    refused = b.meshllm("join", "-", stdin=token, check=False)
    tell(f"B$ meshllm join -      (its firewall drops UDP)\n{refused.stderr}")
    tell(f"exit code {refused.returncode} after {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="meshllm-show-") as temporary:
        show(sys.argv[1:3], Path(temporary))
