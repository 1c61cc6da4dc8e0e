"""The first run: its questions, skipping, going back, what is put to the node at the end."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.errors import ConfigError, NodeError
from meshllm_core.state import events as ev
from meshllm_tui.pages.invite import InvitePage
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.welcome import WelcomeScreen
from meshllm_tui.themes import THEMES
from meshllm_tui.widgets.pane import RowList
from tests.tui.conftest import Screen, dashboard
from tests.tui.model_samples import catalog
from tests.tui.samples import GIB, ScriptedClient, bare, fold, ready
from tests.tui.test_themes import faint


def row(key: str, text: str) -> ConfigRow:
    """A setting as it is."""
    return ConfigRow(
        key=key,
        section="Mesh",
        help="",
        kind="text",
        allowed="",
        choices=(),
        default='""',
        value=text,
        text=text,
        secret=False,
        source="default",
        origin="",
        variable="",
        flag="",
        next_value=text,
        in_file=False,
    )


def fresh(**changes: Any) -> ScriptedClient:
    """A node that was never set up, with its small model."""
    config = Config(file="c", exists=False, problem="", rows=(row("node_name", ""), row("max_vram", "0.0")))
    client = ScriptedClient(state=fold(*ready(), snapshot=bare()))
    client.replies = {"config": config, "catalog": catalog(), **changes}
    client.answers["configure"] = {"words": "It is written, and counts from the node's next start."}
    return client


async def asked(screen: Screen) -> WelcomeScreen:
    """Wait for the questions."""
    await screen.until(lambda: isinstance(screen.app.screen, WelcomeScreen))
    await screen.until(lambda: len(screen.client.questions) == 2)
    await screen.pilot.pause(0.05)
    shown = screen.app.screen
    assert isinstance(shown, WelcomeScreen)
    return shown


async def test_enter_alone_changes_nothing_and_it_is_not_asked_again(tmp_path: Path) -> None:
    marker = tmp_path / "new" / "seen"
    async with dashboard(fresh(), size=(80, 24), welcome_marker=marker) as screen:
        await asked(screen)
        assert "1 of 4" in screen.text
        await screen.press("enter", "enter", "enter", "enter")
        await screen.until(lambda: "Nothing had to be changed." in screen.text)
        assert not marker.exists()
        await screen.press("enter")
        assert isinstance(screen.app.screen, MeshPage)
        assert marker.exists()
        assert screen.client.acted == []


async def test_what_was_chosen_is_put_to_the_node_at_the_end(tmp_path: Path) -> None:
    async with dashboard(fresh(), size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("end", "-", "2", "enter")
        assert "Half" in screen.text
        await screen.press("down", "enter")
        assert "★ best that fits" in screen.text
        assert "gemma-3-12b" not in screen.text, "only what fits this machine"
        await screen.press("down", "enter", "down", "enter")
        await screen.until(lambda: "is being fetched, then loaded" in screen.text)
        assert screen.client.acted == [
            ("configure", {"key": "node_name", "value": "workshop-2"}),
            ("configure", {"key": "max_vram", "value": "9.7"}),
            ("load", {"model": "qwen3-8b"}),
            ("configure", {"key": "models", "value": "qwen3-8b"}),
        ]
        assert "To start the node again" in screen.text
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, InvitePage))
        assert screen.app.page.active == "invite"


async def test_back_and_the_mouse(tmp_path: Path) -> None:
    async with dashboard(fresh(), size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.pilot.click("#welcome-next")
        await screen.press("f8", "f8")
        assert "4 of 4" in screen.text
        await screen.press("f7")
        assert "3 of 4" in screen.text
        await screen.pilot.click("#welcome-back")
        await screen.until(lambda: "2 of 4" in screen.text)
        await screen.press("f7", "f7")
        assert "1 of 4" in screen.text
        await screen.pilot.click("#welcome-skip")
        await screen.until(lambda: isinstance(screen.app.screen, MeshPage))
        assert (tmp_path / "seen").exists()


async def test_esc_skips_all(tmp_path: Path) -> None:
    async with dashboard(fresh(), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("x", "enter", "down", "enter", "escape")
        assert isinstance(screen.app.screen, MeshPage)
        assert screen.client.acted == []
        assert (tmp_path / "seen").exists()


async def test_join_goes_to_the_box(tmp_path: Path) -> None:
    async with dashboard(fresh(), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("enter", "enter", "enter", "end", "enter")
        await screen.until(lambda: "goes to the box for an invite" in screen.text)
        await screen.press("enter")
        await screen.until(lambda: screen.app.page.active == "join")


async def test_lending_less_marks_what_is_too_large(tmp_path: Path) -> None:
    async with dashboard(fresh(), size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("enter", "end", "enter")
        assert "! more than lent" in screen.text


async def test_refusals_are_told_with_what_to_do(tmp_path: Path) -> None:
    broken = NodeError("The catalogue is damaged.", hint="Install again.")
    client = fresh(catalog=broken, config=broken)
    client.refusal = ConfigError("config.toml is read-only.", hint="Change its rights.")
    async with dashboard(client, size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.until(lambda: "The catalogue is damaged." in screen.text)
        await screen.press("x", "enter", "enter")
        assert "only SmolLM2-135M-Instruct" in screen.text
        await screen.press("enter", "enter")
        await screen.until(lambda: "✗ config.toml is read-only." in screen.text)
        assert "Change its rights." in screen.text


async def test_it_waits_for_a_node_and_for_dialogs(tmp_path: Path) -> None:
    client = fresh()
    known, client.state = client.state, None
    async with dashboard(client, started_by_us=True, welcome_marker=tmp_path / "seen") as screen:
        await screen.pilot.pause(0.3)
        assert isinstance(screen.app.screen, MeshPage)
        await screen.press("q")
        assert isinstance(screen.app.screen, AskScreen)
        client.state = known
        await screen.until(lambda: screen.app.session.snapshot is not None)
        await screen.pilot.pause(0.2)
        assert isinstance(screen.app.screen, AskScreen)
        await screen.press("escape")
        assert client.state is not None
        client.happen(ev.NoticeLogged(at=1.0, level="info", source="hub", text="something"))
        await asked(screen)


async def test_a_marker_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with dashboard(fresh(), welcome_marker=tmp_path / "file" / "seen") as screen:
        await asked(screen)
        await screen.press("escape")
        await screen.until(lambda: any("come again next time" in toast for toast in screen.toasts))


async def test_hostile_names_stay_in_their_line(tmp_path: Path) -> None:
    nasty = "\x1b[2J\u202e[red]" + "x" * 900
    models = tuple(msgspec.structs.replace(each, id=nasty) for each in catalog().models)
    client = fresh(catalog=msgspec.structs.replace(catalog(), models=models, memory_free=GIB))
    async with dashboard(client, size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("enter", "enter")
        assert "[red]xxx" in screen.text
        assert "\x1b" not in screen.text
        assert "\u202e" not in screen.text


@pytest.mark.parametrize("written", ["", "den"])
async def test_a_node_that_says_its_name_late(tmp_path: Path, written: str) -> None:
    """A node that was started for this dashboard has an id before it has a name and hardware."""
    client, told = fresh(), bare()
    client.state = msgspec.structs.replace(told, name="", memory_total=0, devices=())
    async with dashboard(client, size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press(*written)
        client.state = told
        client.queue.put_nowait(NodeError("the stream broke"))
        await screen.until(lambda: screen.app.session.snapshot == told)
        await screen.until(lambda: (written or "workshop") in screen.text.split("call this one?")[1])
        await screen.press("enter")
        await screen.until(lambda: "Three quarters" in screen.text)
        assert client.acted == []


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=str)
async def test_every_model_is_one_line_even_beside_a_scroll_bar(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """Else the line more keeps the scroll bar, which keeps the line."""
    async with dashboard(fresh(), size=(60, 20), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("enter", "enter")
        assert "3 of 4" in screen.text
        await screen.pilot.resize_terminal(*size)
        await screen.pilot.pause(0.1)
        rows = screen.app.screen.query_one("#welcome-model", RowList)
        assert rows.virtual_size.height == rows.option_count, screen.text


async def test_memory_that_is_set_already_stays_unless_it_is_changed(tmp_path: Path) -> None:
    config = Config(
        file="c", exists=False, problem="", rows=(row("node_name", "shed"), row("max_vram", "8.0"))
    )
    async with dashboard(fresh(config=config), size=(80, 24), welcome_marker=tmp_path / "seen") as screen:
        await asked(screen)
        await screen.press("enter")
        assert "As it is set" in screen.text
        await screen.press("enter", "enter", "enter")
        await screen.until(lambda: "✓" in screen.text)
        assert screen.client.acted == [("configure", {"key": "node_name", "value": "workshop"})]


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_stands_out(theme: str, tmp_path: Path) -> None:
    async with dashboard(fresh(), theme=theme, welcome_marker=tmp_path / "seen") as screen:
        shown = await asked(screen)
        for key in ("enter", "enter", "down", "enter", "enter"):
            assert faint(screen, shown.query_one(".dialog").region) == []
            await screen.press(key)
        await screen.until(lambda: "✓" in screen.text)
        assert faint(screen, shown.query_one(".dialog").region) == []


async def test_without_a_marker_nothing_is_asked() -> None:
    async with dashboard(fresh()) as screen:
        await screen.pilot.pause(0.2)
        assert isinstance(screen.app.screen, MeshPage)
