"""What the tests of the page of models share: the page with its questions answered, three ways to act."""

import re

import pytest

from meshllm_tui.pages.models import ModelsPage
from tests.tui.conftest import Screen
from tests.tui.samples import ScriptedClient

WAYS = pytest.mark.parametrize("way", ["key", "mouse", "palette"])


async def opened(screen: Screen, pane: str = "catalog", *pressed: str) -> ModelsPage:
    """The page, its questions answered, the keyboard in a pane."""
    await screen.press("2")
    page = screen.app.page
    assert isinstance(page, ModelsPage)
    page.go(pane)
    await screen.until(lambda: page._library.asking is False and bool(screen.client.questions))
    await screen.pilot.pause(0.05)
    await screen.press(*pressed)
    return page


async def perform(screen: Screen, way: str, key: str, words: str) -> None:
    """An action by its key, by a click on its hint, or by its name in the palette."""
    if way == "key":
        await screen.press(key)
    elif way == "mouse":
        shown = {"slash": "/", "enter": "Enter"}.get(key, key)
        last = screen.text.splitlines()[-1]
        hint = next(part for part in re.split(r" {2,}", last) if part.strip().startswith(f"{shown} "))
        await screen.pilot.click("#keys", offset=(last.index(hint.strip()), 0))
    else:
        await screen.press("ctrl+p")
        await screen.press(*(each if each != " " else "space" for each in words))
        await screen.pilot.pause(0.3)
        await screen.press("enter")
    await screen.pilot.pause()


def asked(node: ScriptedClient, name: str) -> list[dict[str, object]]:
    """Arguments of each time that a question was asked."""
    return [arguments for question, arguments in node.questions if question == name]
