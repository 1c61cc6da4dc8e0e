"""A mesh with members of every kind, its invites, and a join on its way."""

from typing import Any, Literal

import msgspec

from meshllm_core.discovery.invite import Invite
from meshllm_core.discovery.token import encode, fitting
from meshllm_core.ids import ModelId, NodeId, RequestId
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import NodeSnapshot
from tests.tui.samples import GIB, SMALL, START, fold, serving

OWN = "c0ffee12" * 8
DAY = 86_400.0
TOKEN = encode(
    Invite(
        NodeId(bytes(range(32))),
        bytes(range(100, 116)),
        bytes(range(8)),
        int(START + DAY),
        fitting((("192.168.1.20", 9440), ("10.0.0.5", 9440))),
    )
)
ADDRESSES = mesh.AddressesChanged(
    at=START + 21,
    addresses=("192.168.1.20:9440", "[fd00::20]:9440"),
    left_out=("172.17.0.1 on docker0: a bridge of containers", "10.8.0.2 on tun0: a VPN"),
)


def node_id(name: str) -> str:
    """An id that is made from a name."""
    return name.encode().hex().ljust(64, "7")[:64]


def model(
    name: str,
    status: Literal["loading", "ready"] = "ready",
    speed: float = 41.2,
) -> mesh.PeerModel:
    """A model of another node."""
    return mesh.PeerModel(
        id=name,
        status=status,
        architecture="qwen3",
        parameters=4_000_000_000,
        context=32_768,
        lanes=4,
        chat=True,
        embeddings=False,
        decode_tokens_per_second=speed,
        active=1,
        queued=0,
    )


def peer(name: str, /, **changes: Any) -> mesh.PeerRow:
    """A member that is well, but for `changes`."""
    row = mesh.PeerRow(
        node=node_id(name),
        name=name,
        status="alive",
        role="host",
        since=START + 30,
        version="0.1.0",
        address="192.168.1.30:9440",
        addresses=("192.168.1.30:9440",),
        path="tls",
        rtt_ms=1.24,
        rtt_source="direct",
        reach="both",
        memory_total=32 * GIB,
        memory_free=21 * GIB,
        devices=("CUDA0 NVIDIA GeForce RTX 4090",),
        models=(model("Qwen3-4B-Instruct:Q4_K_M"),),
        owner="verified 3fa94c21",
        admitted_by=OWN,
        expires_at=START + 365 * DAY,
    )
    return msgspec.structs.replace(row, **changes)


PEERS = (
    peer("attic", models=(model("slow-one", "loading"), model("Qwen3-4B-Instruct:Q4_K_M"))),
    peer(
        "cellar",
        path="quic",
        rtt_ms=23.0,
        reach="outgoing_only",
        models=(model("gemma-3-12b:Q4_K_M"),),
        admitted_by=node_id("attic"),
        clock_skew=-42.0,
    ),
    peer(
        "garage",
        reach="no_path",
        seen_through="attic",
        address="",
        path="",
        rtt_ms=31.0,
        rtt_source="reported",
        version="0.0.9",
        models=(),
        admitted_by=node_id("cellar"),
    ),
    peer("laptop", status="down", since=START + 20, address="", path="", reach="unknown"),
    peer("phone", status="suspect", role="client", since=START + 191, path="quic", models=(), memory_total=0),
)


def founded(**changes: Any) -> tuple[ev.AnyEvent, ...]:
    """The node's key and its mesh."""
    entered = mesh.MeshEntered(
        at=START + 20,
        mesh="ab" * 32,
        name="home",
        role="host",
        founder=True,
        may_invite=True,
        port=9440,
        discovery="mdns",
    )
    return (
        mesh.IdentityLoaded(at=START, node=OWN, storage="kept in this machine's keyring"),
        msgspec.structs.replace(entered, **changes),
        ADDRESSES,
        mesh.ReachMeasured(at=START + 40, accepts_udp=True, accepts_tcp=True),
    )


def joined(*rows: mesh.PeerRow) -> tuple[ev.AnyEvent, ...]:
    """Members, by their rows."""
    return tuple(mesh.PeerUpdated(at=START + 30, peer=row) for row in rows)


def meshed(*rows: mesh.PeerRow) -> NodeSnapshot:
    """A node in a mesh with those members, or with one of every kind."""
    return fold(
        *founded(),
        *joined(*(rows or PEERS)),
        mesh.RefusalCounted(at=START + 60, kind="wrong key", count=3, detail="192.168.1.66 has another key"),
        mesh.RefusalCounted(at=START + 61, kind="forged announcement", count=1, detail="from 192.168.1.66"),
        ev.RequestStarted(
            at=START + 70,
            request=RequestId("r7"),
            model=ModelId("gemma-3-12b:Q4_K_M"),
            route="/v1/chat/completions",
            prompt_tokens=20,
            served_by="cellar",
        ),
        ev.RequestStarted(
            at=START + 71,
            request=RequestId("r8"),
            model=SMALL,
            route="call",
            prompt_tokens=9,
            asked_by="attic",
        ),
        snapshot=serving(),
    )


def invite(id: str = "3f9a12bc04", **changes: Any) -> mesh.InviteRow:
    """An invite that nobody has used yet."""
    row = mesh.InviteRow(
        id=id,
        role="host",
        uses=1,
        used=0,
        created_at=START + 190,
        expires_at=START + DAY,
        created_by=OWN,
        state="open",
    )
    return msgspec.structs.replace(row, **changes)


def invites(*rows: mesh.InviteRow) -> mesh.InvitesChanged:
    """What is told of the invites."""
    return mesh.InvitesChanged(at=START + 190, invites=rows)


FOUND: dict[mesh.JoinStep, str] = {
    "token": "for the mesh 00010203, as host, ends in 23 h 56 min",
    "interface": "192.168.1.20 on enp3s0",
    "address": "192.168.1.30:9440 answered after 12 ms",
    "identity": "it is 00010203, as the invite says",
    "version": "0.1.0 on both sides",
    "clock": "0.2 s apart",
    "admission": "admitted by attic as host",
    "reachability": "both ways",
}


def joining(upto: int = 8, failed: str = "", at: float = START + 195) -> tuple[ev.AnyEvent, ...]:
    """A join whose first `upto` steps passed; the next one failed when `failed` says why."""
    events: list[ev.AnyEvent] = [mesh.JoinStarted(at=at, how="by token")]
    for place, step in enumerate(mesh.JOIN_STEPS):
        if place < upto:
            events.append(mesh.JoinStepped(at=at, step=step, status="passed", detail=FOUND[step]))
        elif failed:
            status: mesh.StepStatus = "failed" if place == upto else "skipped"
            detail = failed if place == upto else ""
            events.append(mesh.JoinStepped(at=at, step=step, status=status, detail=detail))
        elif place == upto:
            events.append(mesh.JoinStepped(at=at, step=step, status="running"))
    return tuple(events)


def many(count: int = 199) -> tuple[mesh.PeerRow, ...]:
    """A large mesh."""
    return tuple(peer(f"machine-{number:03}", rtt_ms=float(number)) for number in range(count))
