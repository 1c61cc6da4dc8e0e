"""Themes and key maps of a person's own: read, refused by name, and what they change on the screen."""

import dataclasses
import re
from pathlib import Path

import pytest

from meshllm_core.errors import ConfigError
from meshllm_tui.actions.registry import ACTIONS
from meshllm_tui.app import MeshApp
from meshllm_tui.palettes import BUILT_IN, DEFAULT_THEME
from meshllm_tui.preferences import FILE_LIMIT, Preferences, read_preferences
from meshllm_tui.screens.help import HelpScreen
from tests.tui.conftest import dashboard
from tests.tui.samples import SMALL

THEME = "".join(
    f'{name} = "{value}"\n' for name, value in dataclasses.asdict(BUILT_IN[DEFAULT_THEME][0]).items()
)


def keys_from(folder: Path, text: str) -> Preferences:
    file = folder / "keys.toml"
    file.write_text(text)
    return read_preferences(DEFAULT_THEME, str(file), mouse=True)


@pytest.mark.parametrize("text", ['"models.unload" = "ctrl+u, f9"', '[models]\nunload = "ctrl+u,f9"'])
def test_a_key_map_is_written_flat_or_by_pane(tmp_path: Path, text: str) -> None:
    assert keys_from(tmp_path, text).keys == {"models.unload": "ctrl+u,f9"}


def test_the_keys_that_actions_have_are_names_that_a_key_map_takes(tmp_path: Path) -> None:
    own = {each.id: each.keys for each in ACTIONS if each.keys and "escape" not in each.keys}
    text = "".join(f'"{name}" = "{keys}"\n' for name, keys in own.items())
    assert keys_from(tmp_path, text).keys == own


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"models.unlaod" = "u"', "Did you mean models.unload"),
        ('"models.unload" = 5', "gives models.unload"),
        ('"models.unload" = ""', "gives models.unload"),
        ('"models.unload" = "ctrl+c"', "'ctrl\\+c'"),
        ('"models.unload" = "ctrl+"', "'ctrl\\+'"),
        ('"models.unload" = "pagedwn"', "'pagedwn'"),
        ('"models.unload" = "ctrl+alt+zork"', "zork"),
        ('"models.unload" = "f25"', "'f25'"),
        ('"models.unload" = "l"', "means"),
        ('"anywhere.invite" = "y"', "means"),
        ("models = [", "is not TOML"),
        ("x" * (FILE_LIMIT + 1), "larger than"),
    ],
)
def test_a_wrong_key_map_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keys_from(tmp_path, text)
    assert re.search(words, str(caught.value)), str(caught.value)


def test_two_actions_may_change_places(tmp_path: Path) -> None:
    keys = keys_from(tmp_path, '"models.unload" = "r"\n"models.retry" = "u"').keys
    assert keys == {"models.unload": "r", "models.retry": "u"}


def test_every_key_as_it_is_clashes_with_nothing(tmp_path: Path) -> None:
    same = "\n".join(
        f'"{action.id}" = "{action.keys}"'
        for action in ACTIONS
        if action.keys and "escape" not in action.keys
    )
    assert len(keys_from(tmp_path, same).keys) > 50


def test_a_theme_file_is_named_after_itself(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(THEME.replace(BUILT_IN[DEFAULT_THEME][0].accent, "#12ab34") + "dark = false\n")
    found = read_preferences(str(file), "", mouse=True)
    assert found.theme == "mine"
    assert found.own is not None
    assert (found.own[1].accent, found.own[2]) == ("#12ab34", False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("accent", "accident"), "accident"),
        (("accent = ", "# accent = "), "has no accent"),
        (('"#', '"'), "Write a colour"),
        (("text = ", "dark = 1\ntext = "), "dark"),
    ],
)
def test_a_wrong_theme_is_refused_by_name(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(THEME.replace(*change))
    with pytest.raises(ConfigError, match=words):
        read_preferences(str(file), "", mouse=True)


def test_a_theme_that_nobody_has_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no theme"):
        read_preferences("solarized", "", mouse=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_preferences(str(tmp_path / "none.toml"), "", mouse=True)


async def test_changed_keys_work_are_shown_and_the_old_ones_do_nothing() -> None:
    async with dashboard(
        preferences=Preferences(keys={"models.unload": "ctrl+u", "anywhere.load": "z"})
    ) as screen:
        await screen.press("u")
        assert screen.client.acted == []
        assert not isinstance(screen.app.screen, HelpScreen)
        await screen.press("ctrl+u", "right", "enter")
        await screen.until(lambda: screen.client.acted == [("unload", {"model": SMALL})])
        assert "^u Unload" in screen.text or "Ctrl+U Unload" in screen.text or "ctrl+u Unload" in screen.text
        await screen.press("f1")
        assert "Ctrl+U" in screen.text
        await screen.press("escape", "z")
        assert type(screen.app.screen).__name__ == "LoadScreen"


async def test_a_theme_of_ones_own_is_drawn() -> None:
    palette, dark = BUILT_IN["meshllm-light"]
    own = Preferences(theme="mine", own=("mine", dataclasses.replace(palette, ground="#fefefe"), dark))
    async with dashboard(preferences=own) as screen:
        app: MeshApp = screen.app
        assert app.theme == "mine"
        assert app.screen.styles.background.hex.lower() == "#fefefe"
