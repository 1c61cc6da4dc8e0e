"""The page of invites: every action by key, mouse and palette; the code in a rendered picture; what is said
while the node is silent."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zxingcpp
from PIL import Image
from textual.widgets import DirectoryTree, Input

from meshllm_core.discovery.token import compact
from meshllm_core.errors import ConfigError, NodeNotRunning, TokenInvalid
from meshllm_core.state import mesh_events as mesh
from meshllm_tui.actions.registry import ACTIONS
from meshllm_tui.pages.invite import InvitePage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.invite_code import CodeScreen
from meshllm_tui.screens.open_picture import PictureScreen
from meshllm_tui.themes import THEMES
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import TOKEN, founded, invites, joining
from tests.tui.samples import START, ScriptedClient, bare, fold
from tests.tui.test_invite import MADE, USED, code_open, form, inviting, make, picture
from tests.tui.test_page_requests import by_palette
from tests.tui.test_themes import faint

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


async def made(screen: Screen) -> None:
    """From the first page to the page of invites with an invite, at a size that draws its code there."""
    await form(screen)
    await screen.press("m")
    await screen.until(lambda: "▄" in screen.text)


async def perform(screen: Screen, name: str) -> None:
    """As the palette does it."""
    action = next(each for each in ACTIONS if each.id == name)
    await screen.app.perform(action)
    await screen.pilot.pause()


async def test_on_a_large_screen_the_code_is_on_the_page() -> None:
    async with dashboard(inviting(), size=(120, 40)) as screen:
        await made(screen)
        assert isinstance(screen.app.screen, InvitePage)
        (found,) = zxingcpp.read_barcodes(picture(screen))
        assert found.text == compact(TOKEN)
        assert "23 h 56 min left" in screen.text
        await screen.press("y")
        assert screen.copied == TOKEN
        screen.client.happen(invites())
        await screen.pilot.resize_terminal(100, 30)
        await screen.until(lambda: "▄" not in screen.text)
        await screen.press("f")
        await screen.until(lambda: code_open(screen) and "▄" in screen.text)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("theme", ["meshllm-dark", "meshllm-light"])
async def test_the_code_in_a_rendered_screenshot(tmp_path: Path, theme: str) -> None:
    assert CHROMIUM is not None
    async with dashboard(inviting(), size=(80, 24), theme=theme) as screen:
        await make(screen)
        (tmp_path / "shot.svg").write_text(screen.app.export_screenshot(), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900"),
        *(f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / 'shot.png'}"),
        (tmp_path / "shot.svg").as_uri(),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await asyncio.wait_for(process.wait(), 60)
    with Image.open(tmp_path / "shot.png") as shot:
        (found,) = zxingcpp.read_barcodes(shot.convert("L"))
    assert found.text == compact(TOKEN)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_the_form_by_mouse(size: tuple[int, int]) -> None:
    async with dashboard(inviting(), size=size) as screen:
        await form(screen)
        await screen.pilot.click("#uses")
        await screen.pilot.click("#approve")
        assert "3 machines" in screen.text
        assert "whom I let in" in screen.text
        await screen.pilot.click("#make")
        await screen.until(lambda: bool(screen.client.acted))
        name, asked = screen.client.acted[0]
        assert (name, asked["uses"], asked["approve"]) == ("invite", 3, True)


async def test_the_invites_by_key_mouse_and_palette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with dashboard(inviting(), size=(120, 40)) as screen:
        await perform(screen, "invite.make")
        await screen.until(lambda: "2 of 3 used by" in screen.text)
        await perform(screen, "invite.copy")
        assert screen.copied == TOKEN
        await perform(screen, "invite.save")
        await screen.until(lambda: any("Saved" in toast for toast in screen.toasts))
        await perform(screen, "invite.full")
        await screen.until(lambda: code_open(screen))
        await screen.press("escape")
        await screen.to("invites")
        await screen.press("down", "y")
        assert screen.copied == "77aa00bb11"
        await screen.pilot.click("#invites", offset=(4, 1))
        await screen.pilot.pause()
        await screen.press("y")
        assert screen.copied == TOKEN
        await perform(screen, "invites.code")
        assert isinstance(screen.app.screen, InvitePage)
        await perform(screen, "invites.revoke")
        assert isinstance(screen.app.screen, AskScreen)


async def test_the_code_of_another_dashboard_is_not_known_here() -> None:
    client = inviting()
    assert client.state is not None
    client.state = fold(invites(USED), snapshot=client.state)
    async with dashboard(client, size=(80, 24)) as screen:
        await form(screen)
        await screen.to("invites")
        await screen.press("enter")
        await screen.until(lambda: "is kept nowhere" in " ".join(screen.text.split()))
        assert not isinstance(screen.app.screen, CodeScreen)


async def test_a_picture_is_chosen_in_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "photo.png").write_bytes(b"x")
    (tmp_path / "letter.pdf").write_bytes(b"x")
    (tmp_path / ".hidden.png").write_bytes(b"x")
    client = ScriptedClient(state=bare())
    client.effects["join"] = joining()
    async with dashboard(client, decode_picture=lambda _: TOKEN) as screen:
        await screen.press("J", "f4")
        await screen.until(lambda: isinstance(screen.app.screen, PictureScreen))
        await screen.until(lambda: "photo.png" in screen.text)
        assert "letter.pdf" not in screen.text
        assert "Of a file elsewhere" in screen.text
        assert screen.text.isascii() or max(map(ord, screen.text)) < 0x10000, "no picture characters"
        assert ".hidden" not in screen.text
        await screen.press("escape")
        await perform(screen, "join.picture")
        await screen.until(lambda: "photo.png" in screen.text)
        assert isinstance(screen.app.focused, DirectoryTree)
        await screen.press("down", "enter")
        await screen.until(lambda: client.acted == [("join", {"token": TOKEN})])


def before_the_camera(sees: str | TokenInvalid | ConfigError | None) -> Callable[[Callable[[], bool]], str]:
    """A camera that sees something at once, or looks until it is stopped."""

    def scan(stop: Callable[[], bool]) -> str:
        while sees is None:
            if stop():
                raise TokenInvalid("The camera saw no invite.", hint="Again.")
            time.sleep(0.01)
        if isinstance(sees, str):
            return sees
        raise sees

    return scan


async def test_the_camera_sees_an_invite() -> None:
    client = ScriptedClient(state=bare())
    client.effects["join"] = joining()
    async with dashboard(client, scan_camera=before_the_camera(TOKEN)) as screen:
        await screen.press("J")
        await screen.until(lambda: screen.app.page.active == "join")
        await screen.pilot.click("#join-camera")
        await screen.until(lambda: client.acted == [("join", {"token": TOKEN})])


async def test_the_camera_is_stopped_by_esc_and_missing_ones_are_told() -> None:
    async with dashboard(ScriptedClient(state=bare()), scan_camera=before_the_camera(None)) as screen:
        await screen.press("J", "f5")
        await screen.until(lambda: "hold the code before the camera" in screen.text)
        await screen.press("escape")
        await screen.until(lambda: "hold the code" not in screen.text)
        assert screen.client.acted == []
    missing = ConfigError("Reading from a camera needs OpenCV.", hint="Install it.")
    async with dashboard(ScriptedClient(state=bare()), scan_camera=before_the_camera(missing)) as screen:
        await screen.press("J", "escape", "c")
        await screen.until(lambda: "needs OpenCV" in screen.text and "Install it." in screen.text)
    async with dashboard(ScriptedClient(state=bare())) as screen:
        await perform(screen, "join.camera")
        await screen.until(lambda: "There is no camera here." in screen.text)


async def test_the_box_by_mouse_and_letters_after_esc() -> None:
    client = ScriptedClient(state=bare())
    async with dashboard(client, size=(80, 24)) as screen:
        await screen.press("J", "x", "escape", "6")
        assert screen.app.screen.query_one(Input).value == "x"
        await screen.press("J", "backspace")
        screen.app.screen.query_one(Input).value = TOKEN
        await screen.pilot.click("#join-go")
        await screen.until(lambda: client.acted == [("join", {"token": TOKEN})])


async def test_in_a_mesh_the_box_says_what_comes_first() -> None:
    async with dashboard(ScriptedClient(state=fold(*founded(), snapshot=bare()))) as screen:
        await screen.press("J")
        await screen.until(lambda: "This node is in the mesh home." in screen.text)
        assert "leave first" in screen.text


async def test_empty_forbidden_waiting_and_stale() -> None:
    async with dashboard(ScriptedClient(state=bare()), size=(120, 40)) as screen:
        await screen.press("6")
        await screen.until(lambda: "No invite was made yet." in screen.text)
        assert "makes an invite: a code" in screen.text
        screen.client.queue.put_nowait(NodeNotRunning("gone", hint=""))
        screen.client.state = None
        await screen.until(lambda: "stale" in screen.text)
    forbidden = fold(*founded(may_invite=False), snapshot=bare())
    async with dashboard(ScriptedClient(state=forbidden), size=(120, 40)) as screen:
        await screen.press("6")
        await screen.until(lambda: "This node may not invite." in screen.text)
    async with dashboard(ScriptedClient(state=None), started_by_us=True, size=(120, 40)) as screen:
        await screen.press("6")
        await screen.until(lambda: screen.text.count("starting the node") >= 3)
        await screen.press("m")
        await screen.until(lambda: bool(screen.client.acted))


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_of_the_page_stands_out(
    theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "photo.png").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    client = ScriptedClient(state=bare())
    client.answers["invite"], client.effects["invite"] = MADE, (*founded(), invites(USED))
    async with dashboard(client, theme=theme, size=(120, 40)) as screen:
        await screen.press("J", "f4")
        await screen.until(lambda: "photo.png" in screen.text)
        assert faint(screen, screen.app.screen.query_one(".dialog").region) == []
        await screen.press("down", "escape")
        await screen.press("escape", "v")
        assert faint(screen) == []
        await screen.press("m")
        await screen.until(lambda: "▄" in screen.text and "2 of 3" in screen.text)
        assert faint(screen) == []
        for pane in ("invites", "join"):
            await screen.to(pane)
            assert faint(screen) == []
            await screen.press("escape")


async def test_the_palette_finds_what_the_page_does() -> None:
    async with dashboard(inviting(), size=(120, 40)) as screen:
        await by_palette(screen, "make an invite as")
        await screen.until(lambda: "▄" in screen.text)
        await by_palette(screen, "take the chosen invite back")
        await screen.until(lambda: isinstance(screen.app.screen, AskScreen))
        await screen.press("escape")
        await by_palette(screen, "open a picture of")
        await screen.until(lambda: isinstance(screen.app.screen, PictureScreen))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_every_pane_is_reached_by_tab(size: tuple[int, int]) -> None:
    async with dashboard(inviting(), size=size) as screen:
        await form(screen)
        for pane in ("invites", "join", "invite"):
            await screen.press("tab")
            assert screen.app.page.active == pane
            assert screen.app.screen.query_one(f"#{pane}").region.area > 0


async def test_another_invite_by_palette_after_a_failure() -> None:
    client = ScriptedClient(state=bare())
    ended = mesh.JoinEnded(at=START + 199, joined=False, message="No.", hint="")
    client.effects["join"] = (*joining(2, "why"), ended)
    async with dashboard(client) as screen:
        await screen.press("J")
        screen.app.screen.query_one(Input).value = TOKEN
        await screen.press("enter")
        await screen.until(lambda: "takes another invite" in screen.text)
        client.effects["join"] = (*joining(2, "once more", at=START + 197), ended)
        await perform(screen, "join.again")
        await screen.until(lambda: "once more" in screen.text)
        assert len(client.acted) == 2
        await perform(screen, "join.copy")
        assert "once more" in screen.copied
        await perform(screen, "join.another")
        assert screen.app.screen.query_one(Input).display
