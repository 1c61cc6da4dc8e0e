"""The page of settings: every action by key, mouse and palette, at every size."""

import pytest
from textual.command import CommandList
from textual.widgets import Input, OptionList

from meshllm_core.errors import ConfigError, NodeError, NodeNotRunning
from meshllm_tui.cleaning import cells
from meshllm_tui.pages.settings import SettingsPage
from meshllm_tui.themes import THEMES
from tests.tui.certify_samples import FILE, config
from tests.tui.conftest import Screen, dashboard
from tests.tui.samples import ScriptedClient
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (300, 80)]
WRITTEN = {"key": "lanes", "effect": "next_start", "words": "lanes is 8 from the node's next start."}


def client() -> ScriptedClient:
    made = ScriptedClient()
    made.replies["config"] = config()
    made.answers["configure"] = WRITTEN
    return made


async def opened(screen: Screen) -> SettingsPage:
    """The page, by its digit."""
    await screen.press("0")
    await screen.until(lambda: isinstance(screen.app.page, SettingsPage) and screen.app.page.is_mounted)
    page = screen.app.page
    assert isinstance(page, SettingsPage)
    await screen.until(lambda: page.listed.answer is not None)
    await screen.pilot.pause()
    return page


async def choose(screen: Screen, key: str) -> None:
    """Search for a setting and go to it."""
    page = screen.app.page
    assert isinstance(page, SettingsPage)
    page.listed.query_one(Input).value = ""
    await screen.pilot.pause()
    page.listed.found.choose(key)
    page.go("keys-of-config")
    await screen.pilot.pause()
    assert page.listed.chosen is not None and page.listed.chosen.key == key


async def by_palette(screen: Screen, words: str) -> None:
    """Run the action that these words find."""
    await screen.press("ctrl+p")
    await screen.pilot.press(*({" ": "space", ",": "comma", ".": "full_stop"}.get(w, w) for w in words))
    palette = screen.app.screen
    await screen.until(lambda: palette.query_one(CommandList).option_count == 1)
    await screen.press("down", "enter")
    await screen.pilot.pause()


async def test_every_key_is_listed_by_section_with_its_source() -> None:
    async with dashboard(client(), size=(120, 100)) as screen:
        await opened(screen)
        for row in config().rows:
            assert row.key in screen.text, row.key
        for words in ("Network", "Serving", "MESHLLM_PORT", "--ctx-size", "(set, hidden)", "64 → 17"):
            assert words in screen.text
        assert "1 change waits for the node's next start" in screen.text


@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_and_every_pane_is_reached(size: tuple[int, int]) -> None:
    async with dashboard(client(), size=size) as screen:
        page = await opened(screen)
        for name in page.PANES:
            assert page.active == name
            assert page.query_one(f"#{name}").display
            for text in screen.text.splitlines():
                assert cells(text) <= size[0]
            await screen.press("tab")
        assert page.active == page.FIRST


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
async def test_a_number_is_written_and_its_effect_told(size: tuple[int, int]) -> None:
    made = client()
    async with dashboard(made, size=size) as screen:
        page = await opened(screen)
        await choose(screen, "lanes")
        await screen.press("enter")
        box = page.setting.query_one(Input)
        assert box.has_focus
        assert box.value == "2"
        assert "New value: a whole number from 1 to 64" in screen.text
        made.replies["config"] = config(lanes={"next_value": "8", "value": "2", "in_file": True})
        await screen.press("backspace", "8", "enter")
        await screen.until(lambda: made.acted == [("configure", {"key": "lanes", "value": "8"})])
        await screen.until(lambda: "2 → 8" in screen.text)
        if size[0] >= 80:
            assert "✓ lanes is 8 from the node's next start." in screen.text.replace("│\n", "")
        else:
            assert any("lanes is 8" in toast for toast in screen.toasts)
        assert page.active == page.FIRST
        assert not page.setting.editing


async def test_what_is_wrong_is_said_below_the_box_and_can_be_put_right() -> None:
    made = client()
    made.refusal = ConfigError("lanes is 99, outside its range.", hint="Use a whole number from 1 to 64.")
    async with dashboard(made) as screen:
        page = await opened(screen)
        await choose(screen, "lanes")
        await screen.press("enter", "backspace", "9", "9", "enter")
        await screen.until(lambda: "outside its range" in screen.text)
        assert "Use a whole number from 1 to 64." in screen.text
        assert page.setting.query_one(Input).value == "99"
        await screen.press("backspace")
        assert "outside its range" not in screen.text
        await screen.press("escape")
        assert page.active == page.FIRST
        assert not page.setting.query_one(Input).display


async def test_choices_are_taken_from_a_list_by_key_and_mouse() -> None:
    made = client()
    async with dashboard(made) as screen:
        page = await opened(screen)
        await choose(screen, "split")
        await screen.press("enter")
        choices = page.setting.query_one(OptionList)
        assert [str(option.prompt) for option in choices.options] == ["true", "false"]
        assert choices.highlighted == 1
        await screen.press("k", "enter")
        await screen.until(lambda: made.acted == [("configure", {"key": "split", "value": "true"})])
        await screen.until(lambda: not page.setting.editing)
        await choose(screen, "kv_type")
        await screen.press("enter")
        await screen.pilot.click("#setting-choices", offset=(3, 1))
        await screen.until(lambda: made.acted[-1] == ("configure", {"key": "kv_type", "value": "q8_0"}))


async def test_a_click_opens_a_setting() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen)
        await screen.pilot.click("#keys-of-config-list", offset=(5, 3))
        await screen.pilot.pause()
        assert page.setting.editing
        assert page.listed.chosen is not None and page.listed.chosen.key == "lanes"


async def test_a_secret_is_neither_shown_nor_written_in_clear() -> None:
    made = client()
    async with dashboard(made) as screen:
        await opened(screen)
        await choose(screen, "api_key")
        await screen.press("enter")
        await screen.press(*"opensesame")
        assert "opensesame" not in screen.text
        await screen.press("enter")
        await screen.until(lambda: made.acted == [("configure", {"key": "api_key", "value": "opensesame"})])
        await choose(screen, "api_key")
        await screen.press("y")
        assert screen.copied == 'api_key = ""  # a secret, not shown'


async def test_back_to_the_default_by_key_and_palette() -> None:
    made = client()
    async with dashboard(made) as screen:
        await opened(screen)
        await choose(screen, "batch")
        assert "d Default" not in screen.text
        await screen.press("d")
        assert made.acted == [], "the file does not name it"
        await choose(screen, "lanes")
        assert "d Default" in screen.text
        await screen.press("d")
        await screen.until(lambda: made.acted == [("configure", {"key": "lanes", "value": None})])
        await by_palette(screen, "key out of config")
        await screen.until(lambda: len(made.acted) == 2)


async def test_searching_and_copying() -> None:
    async with dashboard(client(), size=(80, 24)) as screen:
        page = await opened(screen)
        await screen.press("slash", *"queue")
        assert "queue_limit" in screen.text
        assert "node_name" not in screen.text
        await screen.press("down", "y")
        assert screen.copied == "queue_limit = 64"
        screen.app.copy_to_clipboard("")
        await by_palette(screen, "line of config")
        assert screen.copied == "queue_limit = 64"
        await by_palette(screen, "settings by name")
        assert page.listed.query_one(Input).has_focus
        await screen.press("escape")
        assert page.listed.search == ""
        await by_palette(screen, "change the chosen setting")
        assert page.setting.editing


async def test_colours_are_tried_while_they_are_chosen() -> None:
    made = client()
    async with dashboard(made) as screen:
        page = await opened(screen)
        await choose(screen, "theme")
        await screen.press("enter", "j")
        assert screen.app.theme == "meshllm-light"
        await screen.press("escape")
        assert screen.app.theme == "meshllm-dark"
        await screen.press("enter", "j", "j", "enter")
        await screen.until(
            lambda: made.acted == [("configure", {"key": "theme", "value": "meshllm-contrast"})]
        )
        await screen.until(lambda: page.active == page.FIRST)
        assert screen.app.theme == "meshllm-contrast"


async def test_a_theme_file_of_ones_own_is_written_in_a_box() -> None:
    made = client()
    async with dashboard(made) as screen:
        page = await opened(screen)
        await choose(screen, "theme")
        await screen.press("enter", "end", "enter")
        box = page.setting.query_one(Input)
        await screen.until(lambda: box.has_focus)
        box.value = "mine.toml"
        await screen.press("enter")
        await screen.until(lambda: made.acted == [("configure", {"key": "theme", "value": "mine.toml"})])
        assert screen.app.theme == "meshllm-dark"


async def test_a_broken_file_is_told_and_the_rest_still_shown() -> None:
    made = client()
    made.replies["config"] = config(problem=f"{FILE}:1: there is no key 'prot'.")
    async with dashboard(made) as screen:
        await opened(screen)
        assert "The node would not start with this file" in screen.text
        assert "wire_dtype" in screen.text


async def test_loading_failed_and_asked_again() -> None:
    made = client()
    made.replies["config"] = NodeError("The settings cannot be read.", hint="Look at the disk.")
    async with dashboard(made, size=(80, 24)) as screen:
        await opened(screen)
        assert "The settings cannot be read." in screen.text
        assert "Press r to ask again." in screen.text
        made.replies["config"] = config()
        await by_palette(screen, "read the settings again")
        await screen.until(lambda: "wire_dtype" in screen.text)
        screen.client.state = None
        screen.client.queue.put_nowait(NodeNotRunning("No node answers.", hint="Start one."))
        await screen.until(lambda: "stale: no answer" in screen.text)
        assert "wire_dtype" in screen.text


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_stands_out(theme: str) -> None:
    made = client()
    made.refusal = ConfigError("lanes is 99, outside its range.", hint="Use a whole number from 1 to 64.")
    async with dashboard(made, theme=theme) as screen:
        await opened(screen)
        assert faint(screen) == []
        await choose(screen, "lanes")
        await screen.press("enter", "9", "enter")
        await screen.until(lambda: "outside its range" in screen.text)
        assert faint(screen) == []
        await screen.press("escape")
        await choose(screen, "kv_type")
        await screen.press("enter")
        assert faint(screen) == []
