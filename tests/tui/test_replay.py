"""A recording in the dashboard: played, paused, moved; nothing in it can be changed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from meshllm_core.api.schema_logs import LogsAnswer
from meshllm_core.errors import ConfigError, NodeError
from meshllm_core.state import events as ev
from meshllm_core.state.recording import EventHappened, Frame, Header, SnapshotTaken, encode
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.present import plain
from meshllm_tui.recording_file import MARK_EVERY, Recording, open_recording
from meshllm_tui.replay import ReplayApp, ReplayBar, moment, replay_line
from meshllm_tui.replay_client import ReplayClient
from tests.tui.conftest import Screen
from tests.tui.request_samples import busy, finished, started
from tests.tui.samples import START, ScriptedClient, fold
from tests.tui.test_page_requests import by_palette

HEADER = Header(meshllm_recording=1, version="0.1.0", at=START + 200)


class Hand:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def write(path: Path, *frames: Frame) -> Path:
    path.write_bytes(b"".join(map(encode, (HEADER, *frames))))
    return path


def said(text: str) -> ev.NoticeLogged:
    return ev.NoticeLogged(at=START + 230, level="info", source="x", text=text)


def frames() -> list[Frame]:
    """A minute: a notice at each tenth second, a missed stretch at the fortieth."""
    first = busy()
    happened = [
        EventHappened(after=10.0 * number, sequence=first.sequence + number, event=said(f"second {number}0"))
        for number in (1, 2, 3)
    ]
    later = fold(said("after the gap"), said("and more"), snapshot=busy())
    rest = [
        EventHappened(after=50.0, sequence=later.sequence + 1, event=started("late", 250)),
        EventHappened(after=60.0, sequence=later.sequence + 2, event=finished("late", 255)),
    ]
    return [
        SnapshotTaken(after=0.0, snapshot=first),
        *happened,
        SnapshotTaken(after=40.0, snapshot=later),
        *rest,
    ]


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with open_recording(write(tmp_path / "a.jsonl", *frames())) as opened:
        yield opened


def last_notice(snapshot: NodeSnapshot) -> str:
    return snapshot.notices[-1].text


def test_every_moment_is_the_fold_of_what_came_before(recording: Recording) -> None:
    expected = {0: "the download was resumed at 41 %", 15: "second 10", 39: "second 30", 45: "and more"}
    for seconds in (0, 45, 15, 39, 15):
        assert last_notice(recording.state_at(seconds)) == expected[seconds]
    assert recording.state_at(99).requests[-1].status == "stop"


def test_going_back_in_a_long_recording_starts_from_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Frame] = [SnapshotTaken(after=0.0, snapshot=NodeSnapshot())]
    made += [
        EventHappened(after=float(number), sequence=number, event=said(str(number)))
        for number in range(1, 3 * MARK_EVERY)
    ]
    with open_recording(write(tmp_path / "long.jsonl", *made)) as long:
        assert last_notice(long.state_at(2990)) == "2990"
        read: list[int] = []
        real = Recording.frame

        def counting(opened: Recording, place: int) -> Frame:
            read.append(place)
            return real(opened, place)

        monkeypatch.setattr(Recording, "frame", counting)
        assert last_notice(long.state_at(2500)) == "2500"
        assert len(read) == 500


async def test_events_come_in_their_time_and_speed(recording: Recording) -> None:
    hand = Hand()
    client = ReplayClient(recording, 2.0, hand)
    snapshot = await client.snapshot()
    events = client.events(snapshot.sequence)
    async with aclosing(events):
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.05)
        assert not first.done()
        hand.now += 5.0
        client.pause(False)
        logged = await asyncio.wait_for(first, 2)
        assert logged.event == said("second 10")
        assert client.position == 10.0
        client.pause(True)
        hand.now += 100.0
        assert client.position == 10.0
        client.pause(False)
        hand.now += 100.0
        client.pause(False)
        rest = [each.event async for each in events]
        assert rest == [said("second 20"), said("second 30")], "the missed stretch needs a new snapshot"
    assert last_notice(await client.snapshot()) == "and more"


async def test_moving_ends_the_stream_so_that_a_snapshot_is_asked_for(recording: Recording) -> None:
    client = ReplayClient(recording, clock=Hand())
    snapshot = await client.snapshot()
    events = client.events(snapshot.sequence)
    async with aclosing(events):
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        client.seek(45.0)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 2)
    assert last_notice(await client.snapshot()) == "and more"
    client.seek(-5)
    assert (client.position, last_notice(await client.snapshot())) == (
        0.0,
        "the download was resumed at 41 %",
    )
    client.seek(1e9)
    assert (client.position, client.ended) == (60.0, True)
    client.pause(False)
    assert client.position == 0.0, "going on at the end begins anew"


async def test_nothing_can_be_done_to_a_recording(recording: Recording) -> None:
    client = ReplayClient(recording)
    for refused in (client.act("stop"), client.ask("logs", LogsAnswer), anext(client.chat_stream([], "m"))):
        with pytest.raises(NodeError, match="no node is behind it"):
            await refused


def test_a_bad_file_is_refused_with_its_name_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", *frames())
    with path.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(ConfigError, match=r"b\.jsonl: line 9 is no event"), open_recording(path):
        pass
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError, match="Cannot read"), open_recording(missing):
            pass


@pytest.mark.parametrize("width", [58, 78, 118, 298])
def test_the_line_says_where_it_is_and_fits(recording: Recording, width: int) -> None:
    client = ReplayClient(recording, 4.0, Hand())
    client.seek(30)
    text = plain((replay_line(client, width),))
    assert "▶ playing 0:30 of 1:00 ×4" in text and "Space pauses  ← → 10 s" in text
    assert len(text) <= max(width, 66)
    client.pause(True)
    assert "paused" in plain((replay_line(client, width),))
    client.pause(False)
    client.seek(60)
    assert "at its end" in plain((replay_line(client, width),))


def test_moments_read_as_clocks_do() -> None:
    assert [moment(seconds) for seconds in (0, 65.9, 3600, 7389)] == ["0:00", "1:05", "1:00:00", "2:03:09"]


@asynccontextmanager
async def replaying(recording: Recording, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Screen]:
    client = ReplayClient(recording, clock=Hand())
    app = ReplayApp(client)
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, ScriptedClient(), pilot)
        await screen.until(lambda: app.session.snapshot is not None)
        await pilot.pause()
        yield screen


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_it_is_moved_by_keys_on_every_page(recording: Recording, size: tuple[int, int]) -> None:
    async with replaying(recording, size) as screen:
        app = screen.app
        assert isinstance(app, ReplayApp)
        await screen.press("right")
        await screen.until(lambda: "0:10 of 1:00" in screen.text)
        await screen.press("8", "right", "right", "right", "right", "right")
        await screen.until(lambda: "0:60" in screen.text or "1:00 of 1:00" in screen.text)
        await screen.until(
            lambda: app.session.snapshot is not None and len(app.session.snapshot.requests) == 9
        )
        await screen.press("9", "left", "f7")
        await screen.until(lambda: "0:40 of 1:00" in screen.text)
        await screen.until(lambda: "after the gap" in screen.text)
        await screen.press("space")
        assert app.client.paused
        await screen.until(lambda: "paused" in screen.text)
        await screen.press("f8", "f9")
        assert not app.client.paused and app.client.position == 50.0


async def test_it_is_moved_by_mouse_and_palette(recording: Recording) -> None:
    async with replaying(recording) as screen:
        app = screen.app
        assert isinstance(app, ReplayApp)
        await screen.pilot.click(ReplayBar, offset=(100, 0))
        assert app.client.position == 10.0
        await screen.pilot.click(ReplayBar, offset=(30, 0))
        assert app.client.position == 0.0
        await screen.pilot.click(ReplayBar, offset=(12, 0))
        assert app.client.paused
        await by_palette(screen, "recording: on")
        assert app.client.position == 10.0
        await by_palette(screen, "recording: back")
        assert app.client.position == 0.0
        await by_palette(screen, "recording: pause")
        assert not app.client.paused


async def test_actions_are_refused_in_words_and_leaving_asks_nothing(recording: Recording) -> None:
    async with replaying(recording) as screen:
        await screen.press("8", "x", "right", "enter")
        await screen.until(lambda: any("no node is behind it" in text for text in screen.toasts))
        await screen.press("9")
        await screen.until(lambda: screen.text.count("no node is behind it") >= 2)
        await screen.press("q")
        await screen.pilot.pause()
        assert screen.app.return_value == 0


async def test_time_on_the_screen_is_that_of_the_recording(recording: Recording) -> None:
    async with replaying(recording) as screen:
        assert "up 3 min" in screen.text
