"""Inviting from the dashboard: the form, the code that a camera can read, the list."""

from pathlib import Path

import numpy as np
import pytest
import zxingcpp
from rich.style import Style

from meshllm_core.discovery.token import compact
from meshllm_core.errors import NotPermitted
from meshllm_tui.pages.invite import InvitePage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.invite_code import CodeScreen
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import DAY, TOKEN, founded, invite, invites, meshed
from tests.tui.samples import START, ScriptedClient, bare

MADE = {"token": TOKEN, "id": "3f9a12bc04", "role": "host", "uses": 1, "expires_at": START + DAY}
USED = invite("77aa00bb11", uses=3, used=2, used_by=("cellar", "attic"), created_at=START)


def inviting() -> ScriptedClient:
    client = ScriptedClient(state=meshed())
    client.answers["invite"] = MADE
    client.effects["invite"] = (invites(invite(), USED),)
    return client


async def make(screen: Screen) -> None:
    """From the first page to the code over the whole screen."""
    await form(screen)
    await screen.press("enter")
    await screen.until(lambda: code_open(screen) or "Invite 3f9a12bc04" in screen.text)
    await screen.pilot.pause()
    if not code_open(screen):
        await screen.press("f")
    await screen.until(lambda: code_open(screen))
    await screen.until(lambda: "▄" in screen.text or "MESHLLM:" in screen.text)
    await screen.pilot.pause()


async def form(screen: Screen) -> None:
    """From the first page to the form."""
    await screen.press("v")
    await screen.until(lambda: isinstance(screen.app.screen, InvitePage))
    await screen.until(lambda: screen.app.focused is not None and screen.app.focused.id == "make")


def code_open(screen: Screen) -> bool:
    """Whether the code is over the whole screen."""
    return isinstance(screen.app.screen, CodeScreen)


def dark(style: Style | None) -> tuple[bool, bool]:
    """Whether ink and ground of a piece of text are dark."""
    assert style is not None
    assert style.bgcolor is not None
    ink = style.color is not None and sum(style.color.get_truecolor()) < 382
    return ink, sum(style.bgcolor.get_truecolor()) < 382


def picture(screen: Screen) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    """The screen in pixels, 4 for half a cell: what a camera sees of it."""
    drawn = {" ": (False, False), "▀": (True, False), "▄": (False, True), "█": (True, True)}
    rows: list[list[bool]] = []
    for strip in screen.strips():
        upper: list[bool] = []
        lower: list[bool] = []
        for segment in strip:
            ink, ground = dark(segment.style)
            for character in segment.text:
                top, bottom = drawn.get(character, (False, False))
                upper.append(ink if top else ground)
                lower.append(ink if bottom else ground)
        rows += [upper, lower]
    modules = np.array(rows)
    return np.repeat(np.repeat(np.where(modules, 0, 255).astype(np.uint8), 4, axis=0), 4, axis=1)


@pytest.mark.parametrize("theme", ["meshllm-dark", "meshllm-light", "meshllm-contrast"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 24)])
async def test_the_code_on_the_screen_can_be_read(size: tuple[int, int], theme: str) -> None:
    async with dashboard(inviting(), size=size, theme=theme) as screen:
        await make(screen)
        (found,) = zxingcpp.read_barcodes(picture(screen))
        assert found.text == compact(TOKEN)


async def test_v_and_enter_make_an_invite_with_sane_defaults() -> None:
    async with dashboard(inviting()) as screen:
        await make(screen)
        asked = {
            "uses": 1,
            "expires_seconds": DAY,
            "role": "host",
            "may_invite": False,
            "approve": False,
        }
        assert screen.client.acted == [("invite", asked)]
        assert "for 1 machine as host" in screen.text
        assert "23 h 56 min left" in screen.text
        await screen.press("y")
        assert screen.copied == TOKEN


async def test_what_is_chosen_is_what_is_asked() -> None:
    async with dashboard(inviting()) as screen:
        await form(screen)
        await screen.press("up", "right", "up", "right", "up", "right", "up", "left", "up", "left")
        assert "any number" in screen.text
        assert "1 hour" in screen.text
        assert "client: only asks" in screen.text
        assert "yes, others in turn" in screen.text
        assert "whom I let in" in screen.text
        await screen.press("down", "down", "down", "down", "down", "enter")
        await screen.until(lambda: bool(screen.client.acted))
        asked = {
            "uses": 0,
            "expires_seconds": 3600.0,
            "role": "client",
            "may_invite": True,
            "approve": True,
        }
        assert screen.client.acted == [("invite", asked)]


async def test_a_refusal_stays_in_the_form() -> None:
    client = inviting()
    client.refusal = NotPermitted("This node may not invite.", hint="Ask workshop for an invite.")
    async with dashboard(client) as screen:
        await form(screen)
        await screen.press("enter")
        await screen.until(lambda: "This node may not invite." in screen.text)
        assert "Ask workshop for an invite." in screen.text
        assert isinstance(screen.app.screen, InvitePage)
        client.refusal, client.answers["invite"] = None, {"token": 5}
        button = screen.app.screen.query_one("#make")
        await screen.until(lambda: not button.has_class("-active"))
        await screen.press("enter")
        await screen.until(lambda: "is not understood." in screen.text)


async def test_the_first_invite_founds_a_mesh() -> None:
    client = ScriptedClient(state=bare())
    client.answers["invite"] = MADE
    client.effects["invite"] = (*founded(), invites(invite()))
    async with dashboard(client) as screen:
        await make(screen)
        await screen.press("escape")
        assert isinstance(screen.app.screen, InvitePage)
        assert "◇ private  home no other member yet" in screen.text


async def test_use_and_end_are_shown_as_they_happen() -> None:
    async with dashboard(inviting()) as screen:
        await make(screen)
        screen.client.happen(invites(invite(used=1, state="used_up", used_by=("barn",))))
        await screen.until(lambda: "✓ 1 of 1 used by barn" in screen.text)
        assert "It lets nobody in any more." in screen.text
        assert zxingcpp.read_barcodes(picture(screen)) == []
        assert TOKEN[8:16] not in screen.text


async def test_a_terminal_that_is_too_small_says_so() -> None:
    async with dashboard(inviting(), size=(80, 21)) as screen:
        await make(screen)
        assert "characters, here are 80×20." in " ".join(screen.text.split())
        assert "s saves it as a picture, y copies the token." in screen.text
        assert "▄" not in screen.text
        assert TOKEN[8:16] in screen.text
        await screen.pilot.resize_terminal(80, 24)
        await screen.until(lambda: "▄" in screen.text)


async def test_without_colour_no_code_is_drawn_that_may_be_inverted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with dashboard(inviting(), size=(80, 24)) as screen:
        await make(screen)
        assert "Colours are off (NO_COLOR)" in screen.text
        assert "▄" not in screen.text
        assert TOKEN[8:16] in screen.text


async def test_saving_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with dashboard(inviting()) as screen:
        await make(screen)
        await screen.press("s")
        await screen.until(lambda: any("Saved" in toast for toast in screen.toasts))
        assert (tmp_path / "meshllm-invite-3f9a12bc04.png").stat().st_size > 500
        monkeypatch.setenv("HOME", str(tmp_path / "missing"))
        await screen.press("s")
        await screen.until(lambda: any("The picture was not saved" in toast for toast in screen.toasts))


async def test_the_list_tells_states_and_shows_a_code_again_that_was_made_here() -> None:
    async with dashboard(inviting(), size=(80, 24)) as screen:
        await make(screen)
        await screen.press("escape")
        await screen.until(lambda: "2 of 3 used by" in screen.text)
        await screen.press("tab", "enter")
        await screen.until(lambda: isinstance(screen.app.screen, CodeScreen))
        await screen.press("escape", "down", "enter")
        await screen.until(lambda: "is kept nowhere" in screen.text)
        assert isinstance(screen.app.screen, InvitePage)


async def test_an_invite_can_be_taken_back() -> None:
    async with dashboard(inviting()) as screen:
        await make(screen)
        await screen.press("escape", "tab", "x")
        assert isinstance(screen.app.screen, AskScreen)
        await screen.press("enter")
        assert len(screen.client.acted) == 1
        await screen.press("x", "right", "enter")
        await screen.until(lambda: len(screen.client.acted) == 2)
        assert screen.client.acted[1] == ("revoke", {"target": "3f9a12bc04", "confirm": True})
        screen.client.happen(invites(invite(state="revoked")))
        await screen.until(lambda: "✗ revoked" in screen.text)
        assert "Revoke" not in screen.text, "the chosen one is not open"
        await screen.press("x")
        assert isinstance(screen.app.screen, InvitePage)
        assert len(screen.client.acted) == 2


async def test_hostile_names_of_users_stay_in_their_line() -> None:
    nasty = ("\x1b[2J\u202e" + "x" * 9000, "[red]b", "c\n" * 90)
    async with dashboard(inviting(), size=(80, 24)) as screen:
        await make(screen)
        screen.client.happen(invites(invite(uses=9, used=3, used_by=nasty), USED))
        await screen.until(lambda: "3 of 9 used by" in screen.text)
        await screen.press("escape")
        assert "\x1b" not in screen.text
        assert "\u202e" not in screen.text
        assert len(screen.text.split("\n")) == 24
