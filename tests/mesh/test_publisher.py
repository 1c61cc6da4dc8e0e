"""Publishing against a real relay, with the clock in the test's hand; and finding what was published."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from meshllm_core.discovery.listing import LIFETIME, Listing, build, identifier
from meshllm_core.discovery.score import Wants
from meshllm_core.errors import PeerUnreachable
from meshllm_core.identity.keys import SigningKey
from meshllm_core.mesh import auto
from meshllm_core.mesh.publisher import (
    CHANGE_SECONDS,
    EVERY_SECONDS,
    READY_SECONDS,
    RETRY_SECONDS,
    Publisher,
)
from meshllm_core.transport.nostr import NostrBoard
from tests.discovery.test_listing import KEY, sample
from tests.support.relay import relay, silent_relay

NOBODY = "ws://127.0.0.1:1"


class HandClock:
    """Moves when the test says so; begins now, because relays compare with their own clock."""

    def __init__(self) -> None:
        self.now, self.wall = 1000.0, time.time()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall

    def forward(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Scene:
    """A publisher whose mesh the test changes."""

    board: NostrBoard
    clock: HandClock = field(default_factory=HandClock)
    listing: Listing = field(default_factory=lambda: sample(issued_at=0, expires_at=0))
    told: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.publisher = Publisher(
            self.board,
            KEY,
            lambda: self.listing,
            self.tell,
            self.clock,
        )
        self.news = asyncio.Event()

    def tell(self, publication: str, detail: str) -> None:
        self.told.append((publication, detail))
        self.news.set()

    async def until(self, words: str) -> None:
        """Waits until something was told that holds `words`."""
        async with asyncio.timeout(5):
            while not self.told or words not in self.told[-1][1]:
                self.news.clear()
                await self.news.wait()

    def change(self, **changes: object) -> None:
        self.listing = msgspec.structs.replace(self.listing, **changes)

    async def listed(self) -> Listing | None:
        seen = await auto.look(self.board)
        assert not seen.refused
        return seen.listings[0] if seen.listings else None

    @property
    def state(self) -> str:
        return self.told[-1][0]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with relay() as running:
        yield running


@pytest.fixture
async def scene(url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    board = NostrBoard([url], key_file=tmp_path / "key")
    yield Scene(board)
    await board.close()


async def test_it_publishes_again_every_minute_and_is_gone_after_stop(scene: Scene) -> None:
    await scene.publisher.step()
    assert [publication for publication, _ in scene.told] == ["publishing", "public"]
    first = await scene.listed()
    assert first is not None
    assert first.expires_at - first.issued_at == LIFETIME
    assert first.name == "Attic"

    scene.clock.forward(EVERY_SECONDS - 1)
    assert await scene.publisher.step() == pytest.approx(1)
    assert await scene.listed() == first
    scene.clock.wall += 1
    scene.clock.forward(1)
    await scene.publisher.step()
    again = await scene.listed()
    assert again is not None
    assert again.issued_at > first.issued_at

    await scene.publisher.stop()
    assert scene.told[-1] == ("private", "")
    assert await scene.listed() is None
    assert await scene.publisher.step() == 0
    assert await scene.listed() is None


async def test_it_waits_for_a_model_but_not_for_ever(scene: Scene) -> None:
    scene.change(models=())
    assert await scene.publisher.step() == READY_SECONDS
    assert (scene.state, await scene.listed()) == ("publishing", None)
    scene.clock.forward(READY_SECONDS)
    await scene.publisher.step()
    listed = await scene.listed()
    assert (scene.state, listed is not None) == ("public", True)


async def test_a_model_that_becomes_ready_ends_the_wait(scene: Scene) -> None:
    scene.change(models=())
    await scene.publisher.step()
    scene.change(models=("tiny",))
    scene.publisher.changed()
    await scene.publisher.step()
    listed = await scene.listed()
    assert listed is not None
    assert listed.models == ("tiny",)


async def test_a_full_mesh_is_taken_down_and_comes_back(scene: Scene) -> None:
    await scene.publisher.step()
    scene.change(clients=8)
    await scene.publisher.step()
    assert await scene.listed() is None
    assert scene.told[-1] == ("public", "Not listed while it is full: 8 of 8 clients.")
    scene.change(clients=1)
    assert 0 < await scene.publisher.step() <= CHANGE_SECONDS
    assert await scene.listed() is None
    scene.clock.forward(CHANGE_SECONDS)
    await scene.publisher.step()
    listed = await scene.listed()
    assert (scene.state, listed is not None) == ("public", True)


async def test_changes_are_published_at_a_bounded_rate(scene: Scene) -> None:
    await scene.publisher.step()
    scene.change(members=4)
    assert await scene.publisher.step() == CHANGE_SECONDS
    listed = await scene.listed()
    assert listed is not None
    assert listed.members == 3
    scene.clock.forward(CHANGE_SECONDS)
    await scene.publisher.step()
    listed = await scene.listed()
    assert listed is not None
    assert listed.members == 4


async def test_free_memory_alone_is_no_reason(scene: Scene) -> None:
    await scene.publisher.step()
    before = await scene.listed()
    scene.change(vram_free=1)
    scene.clock.forward(CHANGE_SECONDS * 2)
    await scene.publisher.step()
    assert await scene.listed() == before


async def test_waking_from_sleep_publishes_at_once(scene: Scene) -> None:
    await scene.publisher.step()
    before = await scene.listed()
    scene.clock.wall += EVERY_SECONDS
    await scene.publisher.step()
    after = await scene.listed()
    assert before is not None
    assert after is not None
    assert after.issued_at >= before.issued_at + EVERY_SECONDS


async def test_failures_are_said_and_tried_again_later_and_later(tmp_path: Path) -> None:
    scene = Scene(NostrBoard([NOBODY], key_file=tmp_path / "key"))
    delays = []
    for _ in range(6):
        delays.append(await scene.publisher.step())
        scene.clock.forward(delays[-1])
    assert delays == [RETRY_SECONDS, 10, 20, 40, EVERY_SECONDS, EVERY_SECONDS]
    assert scene.state == "publish_failed"
    assert NOBODY in scene.told[-1][1]
    assert "The next try is in 60 s." in scene.told[-1][1]
    await scene.publisher.stop()
    assert scene.state == "private"
    assert "within 120 s" in scene.told[-1][1]
    await scene.board.close()


async def test_one_relay_of_two_is_enough_and_the_other_is_named(url: str, tmp_path: Path) -> None:
    scene = Scene(NostrBoard([NOBODY, url], key_file=tmp_path / "key"))
    await scene.publisher.step()
    assert scene.state == "public"
    assert scene.told[-1][1].startswith("Listed on 1 of 2 relays. Not on ws://127.0.0.1:1:")
    await scene.publisher.stop()
    assert scene.told[-1] == ("private", "")
    await scene.board.close()


async def test_without_an_address_it_says_so(scene: Scene) -> None:
    scene.change(addresses=())
    await scene.publisher.step()
    assert scene.state == "publish_failed"
    assert "no address" in scene.told[-1][1]


async def test_a_mesh_that_is_never_published_contacts_nobody(tmp_path: Path) -> None:
    taken: list[asyncio.StreamWriter] = []
    async with silent_relay(taken) as silent:
        scene = Scene(NostrBoard([silent], key_file=tmp_path / "key"))
        scene.change(models=())
        await scene.publisher.step()
        await scene.publisher.stop()
        await scene.board.close()
        assert taken == []


async def test_run_publishes_and_stop_ends_it(scene: Scene) -> None:
    running = asyncio.create_task(scene.publisher.run())
    await scene.until("Listed on 1 of 1")
    scene.change(clients=8)
    scene.publisher.changed()
    await scene.until("full")
    await scene.publisher.stop()
    async with asyncio.timeout(5):
        await running
    assert await scene.listed() is None


class Dials:
    """Stands for the transport's dial: who answers, and how fast."""

    def __init__(self, near: dict[str, float]) -> None:
        self.near, self.dialled, self.at_once, self.most = near, 0, 0, 0

    async def probe(self, listing: Listing) -> float | None:
        self.dialled += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if listing.name in self.near:
                return self.near[listing.name]
            if listing.name == "refuses":
                raise PeerUnreachable("Connection refused.")
            await asyncio.sleep(3600)
            return None
        finally:
            self.at_once -= 1


async def put_up(url: str, tmp_path: Path, number: int, content: str, d: str, expires: int) -> None:
    board = NostrBoard([url], key_file=tmp_path / f"key{number}")
    assert await board.publish(content, d, expires) == {url: ""}
    await board.close()


def fresh(number: int, **changes: object) -> tuple[str, str, int]:
    """(content, d, expires) of a valid listing by a key of its own."""
    now = int(time.time())
    listing = sample(mesh=f"{number:064x}", issued_at=now, expires_at=now + 100, **changes)
    return build(SigningKey(bytes([number]) * 32), listing), identifier(listing.mesh), now + 100


async def test_the_good_one_is_found_beside_twenty_bad_ones(url: str, tmp_path: Path) -> None:
    now = int(time.time())
    listed = [fresh(number, name="dead", max_clients=0, clients=0) for number in range(1, 13)]
    listed += [("{not json", "meshllm-1", now + 100), ("x" * 20_000, "meshllm-2", now + 100)]
    stale = sample(issued_at=now - 119, expires_at=now - 1)
    listed += [(build(KEY, stale), identifier(stale.mesh), now + 100)]
    content, d, expires = fresh(14)
    listed += [(content.replace("Attic", "Other"), d, expires), (content, "meshllm-elsewhere", expires)]
    listed += [
        fresh(15, name="refuses"),
        fresh(16, name="full", clients=8),
        fresh(17, name="dead", models=()),
    ]
    listed += [fresh(18, name="good"), fresh(19, name="slower")]
    for number, one in enumerate(listed):
        await put_up(url, tmp_path, number, *one)
    dials = Dials({"good": 0.012, "slower": 0.4})
    async with silent_relay() as silent:
        board = NostrBoard([silent, NOBODY, url])
        started = time.monotonic()
        found = await auto.find(board, dials.probe, Wants(model="auto"))
        assert time.monotonic() - started < 8
        await board.close()
    assert [scored.listing.name for scored in found.ranked] == ["good", "slower"]
    assert found.seen.refused == {"format": 1, "size": 1, "tag": 2, "signature": 1}
    why = {out.listing.name: out.why for out in found.left_out}
    assert why["full"] == "it is full: 8 of 8 clients"
    assert why["refuses"] == "it does not answer"
    assert dials.most <= auto.PROBES


async def test_the_dead_in_front_do_not_hide_the_good_one_behind(url: str, tmp_path: Path) -> None:
    boast = {"max_clients": 0, "vram_free": 1 << 50, "vram_total": 1 << 50}
    for number in range(1, auto.PROBES + 4):
        await put_up(url, tmp_path, number, *fresh(number, name="dead", **boast))
    await put_up(url, tmp_path, 99, *fresh(99, name="good"))
    board = NostrBoard([url])
    found = await auto.find(board, Dials({"good": 0.01}).probe, Wants())
    await board.close()
    assert [scored.listing.name for scored in found.ranked] == ["good"]


async def test_itself_and_its_mesh_are_skipped(url: str, tmp_path: Path) -> None:
    for number in (1, 2):
        await put_up(url, tmp_path, number, *fresh(number, name="good"))
    board, dials = NostrBoard([url]), Dials({"good": 0.01})
    mesh, node = bytes.fromhex(f"{1:064x}"), SigningKey(bytes([2]) * 32).public
    found = await auto.find(board, dials.probe, Wants(), skip={mesh, node})
    await board.close()
    assert (found.ranked, dials.dialled) == ([], 0)


async def test_nothing_found_is_explained(url: str) -> None:
    board = NostrBoard([url])
    found = await auto.find(board, Dials({}).probe, Wants())
    assert found.words() == f"No public mesh is listed now; 1 of 1 relays answered ({url})."
    await board.close()
    board = NostrBoard([NOBODY])
    found = await auto.find(board, Dials({}).probe, Wants())
    assert found.words().startswith(f"No Nostr relay could be asked. {NOBODY}: Connection refused")
    await board.close()


async def test_a_wrong_clock_is_named(url: str, tmp_path: Path) -> None:
    await put_up(url, tmp_path, 1, *fresh(1))
    board = NostrBoard([url])
    for off, reason in ((86_400, "1 expired"), (-86_400, "1 future")):
        seen = await auto.look(board, wall=lambda off=off: time.time() + off)  # type: ignore[misc]
        assert reason in auto.nothing_found(seen)
        assert "Is this machine's clock right?" in auto.nothing_found(seen)
    await board.close()
