"""What a scripted node tells the dashboard: a mesh of any size, changes, a hostile member, a whole day."""

import random
from collections.abc import Iterator
from typing import Literal

import msgspec

from meshllm_core.ids import ModelId, NodeId, RequestId
from meshllm_core.state import download_events as dl
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state import split_events as sp

GIB = 1 << 30
DAY_SECONDS = 86_400
_MODEL, _SPLIT = ModelId("SmolLM2-135M-Instruct"), ModelId("gemma-3-27b:Q4_K_M")
_OWN = "c0ffee12" * 8


def node_id(number: int) -> str:
    """A member's id, as hexadecimal."""
    return NodeId(number.to_bytes(32, "big")).hex()


def model(name: str, status: Literal["loading", "ready"] = "ready", speed: float = 41.2) -> mesh.PeerModel:
    """A model of another member."""
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


def member(number: int, at: float, chance: random.Random) -> mesh.PeerRow:
    """A member as it is now: its round trip and speed are new each time, its place in the list is not."""
    busy = chance.random()
    return mesh.PeerRow(
        node=node_id(number),
        name=f"machine-{number:03}",
        status="alive",
        role="host",
        since=at,
        version="0.1.0",
        address=f"10.0.{number // 250}.{number % 250}:9440",
        path="quic" if number % 3 else "tls",
        rtt_ms=round(1 + number % 40 + chance.random() * 5, 2),
        rtt_source="direct",
        reach="both",
        memory_total=32 * GIB,
        memory_free=int((1 + busy) * 10 * GIB),
        devices=("CUDA0 NVIDIA GeForce RTX 4090",),
        models=(model("Qwen3-4B-Instruct:Q4_K_M", speed=round(20 + 30 * busy, 1)),),
        owner="verified 3fa94c21",
        admitted_by=_OWN,
        expires_at=at + 30 * DAY_SECONDS,
    )


def beginning(members: int, at: float, urls: tuple[str, str], pid: int) -> Iterator[ev.AnyEvent]:
    """A node with a model in a mesh with so many other members. `urls`: endpoint, management API."""
    yield ev.NodeStarted(
        at=at, name="workshop", version="0.1.0", pid=pid, api_url=urls[0], console_url=urls[1]
    )
    cpu = ev.Device(name="CPU", description="", kind="cpu", memory_total=16 * GIB, memory_free=10 * GIB)
    yield ev.HardwareDetected(
        at=at, cpu="AMD Ryzen 7 5800U", threads=8, memory_total=16 * GIB, memory_free=10 * GIB, devices=(cpu,)
    )
    yield from _loaded(at, pid)
    yield mesh.IdentityLoaded(at=at, node=_OWN, storage="kept in this machine's keyring")
    yield mesh.MeshEntered(
        at=at,
        mesh="ab" * 32,
        name="home",
        role="host",
        founder=True,
        may_invite=True,
        port=9440,
        discovery="mdns",
    )
    chance = random.Random(1)
    for number in range(members):
        yield mesh.PeerUpdated(at=at, peer=member(number, at, chance))


def _loaded(at: float, pid: int) -> Iterator[ev.AnyEvent]:
    yield ev.ModelRequested(at=at, model=_MODEL, ref="default")
    yield ev.ModelReady(
        at=at,
        model=_MODEL,
        pid=pid,
        architecture="llama",
        parameters=134_515_008,
        layers=30,
        context=8192,
        lanes=4,
        memory_measured=412 << 20,
        device="CPU",
        chat=True,
        embeddings=False,
        load_seconds=0.6,
    )


def changing(members: int, at: float, chance: random.Random, count: int) -> Iterator[ev.AnyEvent]:
    """`count` members, taken by chance, with new figures."""
    for number in chance.sample(range(members), min(count, members)):
        yield mesh.PeerUpdated(at=at, peer=member(number, at, chance))


def hostile(names: int, length: int) -> Iterator[mesh.PeerRow]:
    """Members whose names and models are made to hurt: `names` of them, one `length` characters long."""
    evil = (
        "\x1b]0;owned\x07\x1b[2J\x1b[31m",
        "[bold red on white]markup[/] [@click=app.exit]x[/]",
        "\u202egnp.exe",
        "a\u0300\u0301\u0302\u0303\u0304\u0305" * 60,
        "line\nbreak\r\ttab",
        "\U0001f600" * 80,
    )
    yield mesh.PeerRow(
        node=node_id(1 << 40),
        name="x" * length,
        status="alive",
        role="host",
        since=0.0,
        detail="y" * length,
        owner="z" * length,
        models=tuple(model(f"m{number}") for number in range(names)),
    )
    for number in range(names):
        text = f"{evil[number % len(evil)]}{number:06}"
        yield mesh.PeerRow(
            node=node_id(1 << 41 | number),
            name=text,
            status="alive",
            role="host",
            since=0.0,
            address=text,
            models=(model(text),),
            rtt_ms=1.0,
            rtt_source="direct",
            reach="both",
            detail=text,
        )


def a_day(members: int, at: float, *, seed: int = 1) -> Iterator[tuple[float, list[ev.AnyEvent]]]:
    """What happens in 24 hours, a second after the other: when, and the events of that second.

    Every member is heard of each 10 seconds, a request comes each 10, the memory is measured each 30, a line
    is logged each 30 seconds; each hour a member goes and returns, each second hour something is downloaded
    for a minute and a model is divided and taken back.
    """
    chance = random.Random(seed)
    for second in range(DAY_SECONDS):
        now = at + second
        happened: list[ev.AnyEvent] = []
        heard = range(second % 10, members, 10)
        happened += [mesh.PeerUpdated(at=now, peer=member(number, now, chance)) for number in heard]
        if second % 10 == 3:
            happened += _request(second, now, chance)
        if second % 30 == 7:
            happened.append(ev.MemoryMeasured(at=now, memory_free=int(chance.random() * 10 * GIB)))
        if second % 30 == 11:
            happened.append(ev.NoticeLogged(at=now, level="info", source="hub", text=f"looked at {second}"))
        happened += _hourly(second, now, members, chance)
        yield now, happened


def _request(second: int, now: float, chance: random.Random) -> list[ev.AnyEvent]:
    request, speed = RequestId(f"r{second}"), round(40 + 20 * chance.random(), 1)
    return [
        ev.RequestStarted(
            at=now, request=request, model=_MODEL, route="/v1/chat/completions", prompt_tokens=31
        ),
        ev.ThroughputMeasured(
            at=now,
            model=_MODEL,
            decode_tokens_per_second=speed,
            prompt_tokens_per_second=800.0,
            active=1,
            queued=0,
            cells_used=chance.randrange(8192),
            cells_total=32_768,
        ),
        ev.RequestFinished(
            at=now,
            request=request,
            model=_MODEL,
            reason="stop",
            prompt_tokens=31,
            cached_tokens=0,
            completion_tokens=97,
            queue_ms=1.0,
            first_token_ms=84.0,
            total_ms=1700.0,
            decode_tokens_per_second=speed,
        ),
    ]


def _hourly(second: int, now: float, members: int, chance: random.Random) -> Iterator[ev.AnyEvent]:
    hour, within = divmod(second, 3600)
    number = hour % members
    if within in (600, 606, 900):
        status: dict[int, mesh.PeerStatus] = {600: "suspect", 606: "down", 900: "alive"}
        yield mesh.PeerUpdated(
            at=now, peer=msgspec.structs.replace(member(number, now, chance), status=status[within])
        )
    if hour % 2:
        return
    if 1200 <= within < 1260:
        yield dl.DownloadChanged(at=now, download=_download(hour, within - 1200, now))
    if within == 1300:
        yield dl.DownloadRemoved(at=now, id=f"d{hour}", reason="it is on the disk")
    if within == 1800:
        yield ev.ModelRequested(at=now, model=_SPLIT, ref="gemma")
        yield _split(hour, now)
    if 1800 < within < 1830:
        yield sp.StageUpdated(at=now, model=_SPLIT, run=f"{hour:032x}", stage=_stage(within % 3, within))
    if within == 3000:
        yield ev.ModelUnloaded(at=now, model=_SPLIT)


def _download(hour: int, done: int, now: float) -> dl.DownloadRow:
    return dl.DownloadRow(
        id=f"d{hour}",
        ref="owner/model:Q4_K_M",
        state="downloading" if done < 59 else "done",
        since=now - done,
        model="model:Q4_K_M",
        bytes_done=done * GIB // 60,
        bytes_total=GIB,
        bytes_per_second=GIB / 60,
    )


def _split(hour: int, now: float) -> sp.SplitPlanned:
    return sp.SplitPlanned(
        at=now,
        model=_SPLIT,
        run=f"{hour:032x}",
        stages=tuple(_stage(index, 1800) for index in range(3)),
        dtype="f16",
        verdict="certified",
        sentence="about 12 tokens a second",
        reasons=("no machine holds it",),
        predicted_ms_per_token=80.0,
        network_ms_per_token=12.0,
        target_ms=0.0,
        context=8192,
        lanes=4,
    )


def _stage(index: int, within: int) -> sp.StageRow:
    states: tuple[sp.StageState, ...] = ("assigned", "fetching", "loading", "probing", "ready")
    return sp.StageRow(
        index=index,
        node=node_id(index),
        node_name=f"machine-{index:03}",
        start=20 * index,
        end=20 * index + 20,
        bytes=4 * GIB,
        state=states[min((within - 1800) // 6, 4)],
        bytes_done=(within - 1800) << 20,
        bytes_total=4 * GIB,
        rtt_ms=4.2,
        predicted_ms=25.0,
    )
