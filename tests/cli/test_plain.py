"""The dashboard in sentences: no boxes, no glyphs for states, one line for each change."""

import asyncio
import os
from collections.abc import Callable, Iterator

import msgspec
import pytest

from meshllm_core.cli import plain_text
from meshllm_core.cli.plain_text import changes, opening
from meshllm_core.errors import ExitCode
from meshllm_core.ids import ModelId
from meshllm_core.state import download_events as dl
from meshllm_core.state import events as ev
from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import NodeSnapshot
from tests.api.manage.conftest import Node
from tests.cli.conftest import command
from tests.cli.test_start import Terminal
from tests.tui.mesh_samples import joining, meshed, peer
from tests.tui.samples import LARGE, SMALL, START, fold, serving

DRAWN = set("─│┌┐└┘├┤┬┴┼━┃╭╮╰╯█▁▂▃▄▅▆▇◌○◐●◍↓↻✗⠋⠙⠹")


def lines(before: NodeSnapshot, *happened: ev.AnyEvent) -> list[str]:
    """What is told of some events."""
    said: list[str] = []
    for event in happened:
        after = fold(event, snapshot=before)
        said += changes(before, after)
        before = after
    return said


def test_the_opening_has_every_state_as_a_word_and_nothing_drawn() -> None:
    said = list(opening(meshed(), START + 3600))
    assert said[0] == "This node is workshop: serving, up 1 h 0 min."
    assert f"Model {LARGE}: downloading, 40 % of 2.44 GiB." in said
    assert f"Model {SMALL}: ready, on CPU, 61.2 tokens a second, 1 active, 0 queued." in said
    assert any(line.startswith("The mesh is home, private, with 5 other members.") for line in said)
    assert "Member laptop: down." in said
    assert not DRAWN & set("".join(said))
    assert not any(line.endswith("..") for line in said)
    assert not any("\n" in line or "  " in line for line in said)


def test_a_download_is_told_in_steps_and_not_at_every_byte() -> None:
    row = dl.DownloadRow(id="d1", ref="owner/model", state="downloading", since=START, bytes_total=1 << 30)
    steps = [
        dl.DownloadChanged(at=START, download=msgspec.structs.replace(row, bytes_done=(1 << 30) * n // 1000))
        for n in range(1000)
    ]
    said = [line for line in lines(serving(), *steps) if line.startswith("Download")]
    assert len(said) == 10
    assert said[-1] == "Download of owner/model: downloading, 90 % of 1.00 GiB"


def test_requests_members_and_joins_are_told() -> None:
    before = meshed()
    done = ev.RequestFinished(
        at=START + 99,
        request=before.requests[-1].id,
        model=SMALL,
        reason="length",
        prompt_tokens=9,
        cached_tokens=0,
        completion_tokens=12,
        queue_ms=0.0,
        first_token_ms=3.0,
        total_ms=200.0,
        decode_tokens_per_second=60.0,
    )
    gone = mesh.PeerUpdated(at=START + 99, peer=peer("attic", models=()))
    said = lines(before, done, gone, *joining(upto=3, failed="another key"))
    assert f"Request for {SMALL} answered: 12 tokens, 60.0 tokens a second, asked by attic" in said
    assert "attic: serves Qwen3-4B-Instruct:Q4_K_M no more" in said
    assert "join, identity: failed, another key" in said
    assert len(said) == len(set(said))


def test_another_node_in_its_place_is_said_and_read_out() -> None:
    before = meshed()
    after = msgspec.structs.replace(serving(), node="beef" * 16, pid=9)
    said = list(changes(before, after))
    assert said[0].startswith("Another node answers now")
    assert any(line.startswith("This node is workshop") for line in said)
    again = msgspec.structs.replace(before, pid=9)
    assert list(changes(before, again)) == ["The node was started anew, as process 9."]


def test_many_changes_at_once_end_in_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "MOST_LINES", 3)
    before = fold(snapshot=serving())
    after = fold(
        *(ev.ModelRequested(at=START, model=ModelId(f"m{n}"), ref="x") for n in range(9)), snapshot=before
    )
    said = list(changes(before, after))
    assert said[:3] == ["m0: requested", "m1: requested", "m2: requested"]
    assert said[3:] == ["And 6 more changes at once; `meshllm status` shows how it is now."]


async def test_plain_is_refused_before_a_command(node: Node) -> None:
    result = await command("--plain", "status")
    assert (result.code, result.out) == (ExitCode.USAGE, "")
    assert "without a command" in result.err


async def test_plain_without_a_terminal_ends_after_the_state(node: Node) -> None:
    result = await command("--plain")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].startswith("This node is attic: serving, up ")


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


async def test_on_a_terminal_a_line_follows_each_change(
    node: Node, terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = terminal("--plain")
    await asyncio.to_thread(screen.wait_for, "Changes follow")
    node.backend.store.append(ev.ModelRequested(at=9.0, model=ModelId("second"), ref="x"))
    await asyncio.to_thread(screen.wait_for, "second: requested")
    node.backend.store.close()
    os.write(screen._fd, b"\x03")
    assert await asyncio.to_thread(screen.end) == ExitCode.INTERRUPTED
    assert "\x1b" not in screen.shown
    assert not DRAWN & set(screen.shown)
    assert screen.shown.count("second: requested") == 1
