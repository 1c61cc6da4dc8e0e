"""What lies over a page is closed once, however quickly keys come: what comes too late is nobody's."""

import importlib
import pkgutil

import pytest
from textual import events
from textual.screen import ModalScreen, Screen

import meshllm_tui.screens
from meshllm_tui.pages.mesh import MeshPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.dialog import Overlay
from meshllm_tui.screens.help import HelpScreen
from meshllm_tui.screens.jump import JumpScreen
from meshllm_tui.screens.small import SmallScreen
from tests.tui.conftest import Screen as Dashboard
from tests.tui.conftest import dashboard


def at_once(screen: Dashboard, *keys: str) -> None:
    """Press keys before anything that the first of them does can happen."""
    for key in keys:
        pressed = events.Key(key, None)
        pressed.set_sender(screen.app)
        screen.app.post_message(pressed)


@pytest.mark.parametrize("keys", [("escape", "escape"), ("a", "s"), ("x", "f1")])
async def test_two_keys_at_once_end_jumping_once(keys: tuple[str, ...]) -> None:
    async with dashboard() as screen:
        await screen.press("g")
        assert isinstance(screen.app.screen, JumpScreen)
        at_once(screen, *keys)
        await screen.pilot.pause(0.1)
        assert isinstance(screen.app.screen_stack[0], MeshPage)
        assert not isinstance(screen.app.screen, JumpScreen)


async def test_enter_twice_answers_once() -> None:
    answers: list[str | None] = []
    async with dashboard() as screen:
        question = AskScreen("Really?", "It is a question.", (("no", "No"), ("yes", "Yes")))
        screen.app.push_screen(question, answers.append)
        await screen.pilot.pause()
        at_once(screen, "enter", "enter")
        await screen.pilot.pause(0.1)
        assert answers == ["no"]
        assert isinstance(screen.app.screen, MeshPage)


async def test_what_is_closed_already_closes_nothing_else() -> None:
    answers: list[str | None] = []
    async with dashboard() as screen:
        first, second = (AskScreen("Really?", "It is a question.", (("no", "No"),)) for _ in range(2))
        screen.app.push_screen(first, answers.append)
        screen.app.push_screen(second, answers.append)
        await screen.pilot.pause()
        first.dismiss("below")
        second.dismiss("one")
        second.dismiss("two")
        await screen.pilot.pause()
        assert screen.app.screen is first
        first.dismiss("last")
        await screen.pilot.pause()
        assert answers == ["one", "last"]
        await screen.press("f1")
        assert isinstance(screen.app.screen, HelpScreen)


def test_all_that_lies_over_a_page_is_closed_so() -> None:
    found: set[type[Screen[object]]] = set()
    for module in pkgutil.iter_modules(meshllm_tui.screens.__path__):
        members = vars(importlib.import_module(f"meshllm_tui.screens.{module.name}")).values()
        found |= {each for each in members if isinstance(each, type) and issubclass(each, ModalScreen)}
    own = {each for each in found if each.__module__.startswith("meshllm_tui")}
    assert len(own) > 10
    assert {each for each in own if not issubclass(each, Overlay)} == {SmallScreen}
