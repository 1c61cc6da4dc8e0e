"""Every action of the chat's page by the palette and by the mouse; its words in every theme."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from meshllm_core.api.client import ChatDelta
from meshllm_tui.actions.action import Action
from meshllm_tui.actions.chat import ACTIONS
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.screens.write import WriteScreen
from meshllm_tui.themes import THEMES
from tests.tui.conftest import Screen, dashboard
from tests.tui.test_page_chat import CODE, answers, ask, click, opened, page
from tests.tui.test_page_chat_pictures import written
from tests.tui.test_themes import faint


async def chosen_in_palette(screen: Screen, words: str) -> None:
    await screen.press("ctrl+p")
    await screen.until(lambda: isinstance(screen.app.screen, CommandPalette))
    screen.app.screen.query_one(Input).value = words
    await screen.until(lambda: words in screen.text.split("\n", 4)[-1])
    await screen.pilot.pause(0.3)
    await screen.press("enter")
    await screen.pilot.pause(0.1)


def _asked_again(screen: Screen) -> bool:
    return len(screen.client.asked) == 2


EFFECTS: dict[str, Callable[[Screen], bool]] = {
    "chat.stop": lambda screen: True,
    "chat.retry": _asked_again,
    "chat.edit": lambda screen: page(screen).chat.prompt.text == "how",
    "chat.pick_model": lambda screen: isinstance(screen.app.screen, ChooseScreen),
    "chat.system": lambda screen: isinstance(screen.app.screen, WriteScreen),
    "chat.new": lambda screen: not page(screen).chat.conversation.turns,
    "chat.list": lambda screen: page(screen).active == "chats",
    "chat.copy": lambda screen: screen.copied == CODE,
    "chat.copy_code": lambda screen: isinstance(screen.app.screen, ChooseScreen),
    "chat.thinking": lambda screen: "hmm hmm" in screen.text,
    "chat.copy_all": lambda screen: screen.copied.startswith("# how"),
    "chat.export": lambda screen: isinstance(screen.app.screen, WriteScreen),
    "chats.open": lambda screen: page(screen).active == "chat",
    "chats.rename": lambda screen: isinstance(screen.app.screen, WriteScreen),
    "chats.delete": lambda screen: isinstance(screen.app.screen, AskScreen),
    "chats.search": lambda screen: page(screen).chats._input.has_focus,
}


def test_every_action_is_tried_by_the_palette() -> None:
    assert set(EFFECTS) == {action.id for action in ACTIONS if action.palette}


@pytest.mark.parametrize("action", [each for each in ACTIONS if each.palette], ids=lambda action: action.id)
async def test_actions_by_the_palette(action: Action) -> None:
    client = answers(CODE)
    client.answer = [ChatDelta(reasoning="hmm hmm"), *client.answer]
    async with dashboard(client) as screen:
        await opened(screen)
        await ask(screen, "how")
        await chosen_in_palette(screen, action.help.rstrip("."))
        await screen.until(lambda: EFFECTS[action.id](screen))


KEYS: tuple[tuple[str, Callable[[Screen], bool]], ...] = (
    ("r Retry", _asked_again),
    ("m Model", EFFECTS["chat.pick_model"]),
    ("o Chats", EFFECTS["chat.list"]),
    ("y Copy", EFFECTS["chat.copy"]),
)


@pytest.mark.parametrize(("words", "effect"), KEYS, ids=[words for words, _ in KEYS])
async def test_the_key_line_is_clicked(words: str, effect: Callable[[Screen], bool]) -> None:
    async with dashboard(answers(CODE)) as screen:
        await opened(screen)
        await ask(screen, "how")
        await screen.press("escape")
        await click(screen, words)
        await screen.until(lambda: effect(screen))


@pytest.mark.parametrize("words", ["n New", "R Rename", "d Delete", "/ Search"])
async def test_the_key_line_of_the_list_is_clicked(words: str) -> None:
    async with dashboard(answers(CODE)) as screen:
        await opened(screen)
        await ask(screen, "how")
        await screen.press("f5")
        await click(screen, words)
        action = {"n New": "chat.new", "R Rename": "chats.rename", "d Delete": "chats.delete"}
        effect = EFFECTS[action.get(words, "chats.search")]
        await screen.until(lambda: effect(screen))


@pytest.mark.parametrize("theme", [each.name for each in THEMES])
async def test_every_word_of_the_page_stands_out(theme: str, tmp_path: Path) -> None:
    await written(tmp_path / "c.sqlite")
    async with dashboard(theme=theme, size=(120, 50), chats_file=tmp_path / "c.sqlite") as screen:
        await opened(screen)
        await screen.until(lambda: "def scattered" in screen.text and "And at sunset?" in screen.text)
        assert not faint(screen)
        await screen.press("f5", "down")
        assert not faint(screen)


async def test_copying_selected_text_from_a_conversation() -> None:
    async with dashboard(answers("some words to take")) as screen:
        await opened(screen)
        await ask(screen, "how")
        await screen.until(lambda: "some words to take" in screen.text)
        rows = screen.text.split("\n")
        y = next(place for place, row in enumerate(rows) if "some words" in row)
        x = rows[y].index("some words")
        await screen.pilot.mouse_down(offset=(x, y))
        await screen.pilot.hover(offset=(x + 5, y))
        await screen.pilot.hover(offset=(x + 9, y))
        await screen.pilot.mouse_up(offset=(x + 9, y))
        await screen.pilot.pause()
        await screen.press("ctrl+c")
        assert screen.copied.strip() == "some words"
