"""Show 5: a public mesh on a relay, found and joined beside twenty bad listings; a private one, listened to.

`python -m tests.real.public_mesh MODEL.gguf` as root.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nostr_sdk

from meshllm_core.discovery.listing import Listing, build, identifier
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.nostr import NostrBoard
from meshllm_core.wire import limits
from tests.real.namespaces import Machine, machines, run, tell, wait
from tests.real.three_machines import ask, is_ready

RELAY_PORT = 7447
LISTEN_SECONDS = 75
"""Longer than the pause between two publications."""


async def serve_relay(address: str) -> None:
    """A relay with twenty listings that lead nowhere; runs until it is killed."""
    relay = nostr_sdk.LocalRelayBuilder().addr(address).port(RELAY_PORT).build()
    await relay.run()
    url = str(await relay.url())
    with tempfile.TemporaryDirectory() as folder:
        for number, (content, d, expires) in enumerate(bad_listings()):
            board = NostrBoard([url], key_file=Path(folder) / f"key{number}")
            await board.publish(content, d, expires)
            await board.close()
    tell("ready")
    await asyncio.Event().wait()


def bad_listings() -> list[tuple[str, str, int]]:
    """Twelve dead ones that boast, and eight that are malformed, forged, stale or full."""
    bad = [_listing(number, addresses=(f"10.77.0.{200 + number}:9338",)) for number in range(1, 13)]
    forged, d, end = _listing(13)
    bad += [("{not json", "meshllm-1", end), ("x" * 20_000, "meshllm-2", end), ("[]", "meshllm-3", end)]
    bad += [(forged.replace("boast", "other"), d, end), (forged, "meshllm-elsewhere", end)]
    bad += [_listing(14, issued_at=1_000_000_000), _listing(15, clients=8, max_clients=8)]
    return [*bad, _listing(16, protocol=99, oldest=98)]


def _listing(number: int, **changes: object) -> tuple[str, str, int]:
    now = int(time.time())
    key = SigningKey(bytes([number]) * 32)
    fields: dict[str, object] = {
        "mesh": f"{number:064x}",
        "node": key.public.hex(),
        "addresses": ("10.77.0.250:9338",),
        "name": "boast",
        "region": "home",
        "members": 99,
        "clients": 0,
        "max_clients": 0,
        "models": ("everything",),
        "vram_free": 1 << 40,
        "vram_total": 1 << 40,
        "version": "9.9",
        "protocol": limits.PROTOCOL,
        "oldest": limits.PROTOCOL_OLDEST,
        "issued_at": now,
        **changes,
    }
    fields["expires_at"] = int(str(fields["issued_at"])) + 115
    listing = Listing(**fields)  # type: ignore[arg-type]
    return build(key, listing), identifier(listing.mesh), max(listing.expires_at, now + 60)


def show(model: str, folder: Path) -> None:
    """The public mesh, then the private one."""
    with machines(["r", "a", "c"], folder) as (r, a, c):
        relay_url = f"ws://{r.address}:{RELAY_PORT}"
        inside = ("ip", "netns", "exec", r.namespace)
        relay = subprocess.Popen(
            [*inside, sys.executable, "-m", "tests.real.public_mesh", "--relay", r.address],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        try:
            assert relay.stdout is not None
            relay.stdout.readline()
            _public(a, c, model, relay_url)
        finally:
            relay.kill()
            relay.wait()
    with machines(["p"], folder) as (private,):
        _private(private, model)


def _public(a: Machine, c: Machine, model: str, relay: str) -> None:
    options = ["--gguf", model, "--ctx-size", "512", "--threads", "1", "--node-name", "A"]
    a.start(
        "serve", *options, "--publish", "--mesh-name", "Garden", "--region", "home", "--nostr-relay", relay
    )
    wait(lambda: a.snapshot()["mesh"]["publication"] == "public", "A's mesh is listed", 60)
    tell(f"A: {a.snapshot()['mesh']['publication']}: {a.snapshot()['mesh']['publication_detail']}")
    shown = c.meshllm("discover", "--relay", relay)
    tell(f"C$ meshllm discover\n{shown.stdout}{shown.stderr}")
    began = time.monotonic()
    c.start("client", "--auto", "--nostr-relay", relay, "--region", "home", "--node-name", "C")
    wait(lambda: c.snapshot()["join"]["state"] == "joined", "C joined", 40)
    tell(f"C: joined {time.monotonic() - began:.1f} s after its start: {c.snapshot()['join']['message']}")
    wait(lambda: bool(c.peers()["A"]["models"]), "C sees A's model", 10)
    tell(ask(c))
    tell(a.meshllm("members").stdout)
    a.meshllm("public", "off")
    shown = c.meshllm("discover", "--relay", relay, "--name", "Garden", check=False)
    tell(f"A$ meshllm public off\nC$ meshllm discover --name Garden\n{shown.stdout}{shown.stderr}")


def _private(machine: Machine, model: str) -> None:
    """Names a mesh and counts what leaves the machine."""
    for mode in ("mdns", "off"):
        capture = machine.home / f"{mode}.pcap"
        machine.home.mkdir(parents=True, exist_ok=True)
        listening = subprocess.Popen(
            ["ip", "netns", "exec", machine.namespace, "tcpdump", "-i", "any", "-U", "-w", str(capture)],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1.0)
        machine.start(
            *("serve", "--gguf", model, "--ctx-size", "512", "--threads", "1"),
            *("--mesh-name", "Secret Garden", "--mesh-discovery-mode", mode),
        )
        wait(lambda: is_ready(machine), "ready", 60)
        time.sleep(LISTEN_SECONDS)
        machine.end()
        listening.terminate()
        listening.wait()
        tell(f"discovery {mode}: {_where(capture)}")
        machine.meshllm("leave", "--yes", check=False)
        (machine.home / "data" / "mesh.msgpack").unlink()


def _where(capture: Path) -> str:
    """Destinations of all packets but those to this machine itself, and whether the name is in any."""
    # What this script asks the node's own management API stays on the loopback device, and names the mesh.
    elsewhere = capture.with_suffix(".elsewhere")
    run("tcpdump", "-r", str(capture), "-w", str(elsewhere), "not net 127.0.0.0/8 and not host ::1")
    text = run("tcpdump", "-nn", "-r", str(elsewhere))
    counts: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if ">" in words:
            target = words[words.index(">") + 1].rstrip(":")
            counts[target] = counts.get(target, 0) + 1
    named = b"Secret Garden" in elsewhere.read_bytes().replace(b"\0", b"")
    places = ", ".join(f"{count} packets to {target}" for target, count in sorted(counts.items()))
    return json.dumps({"left the machine": places or "nothing", "the name was in a packet": named})


if __name__ == "__main__":
    if sys.argv[1] == "--relay":
        asyncio.run(serve_relay(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory(prefix="meshllm-show-") as temporary:
            show(sys.argv[1], Path(temporary))
