"""Everything that is written can be read: contrast in every theme, and no reliance on colour."""

import re

import pytest
from rich.color import Color as RichColor
from rich.segment import Segment
from textual.color import Color
from textual.geometry import Region

from meshllm_core.api.client import ChatDelta
from meshllm_tui.actions.pages import PAGES
from meshllm_tui.palettes import BUILT_IN
from meshllm_tui.preferences import Preferences
from meshllm_tui.themes import THEMES
from tests.tui.conftest import Screen, dashboard
from tests.tui.mesh_samples import meshed
from tests.tui.samples import ScriptedClient

TEXT = ("foreground", "muted", "accent-text", "ok", "warn", "bad")
GROUND = ("background", "surface", "panel", "chosen")
ENOUGH = 4.5
"""WCAG AA for text of normal size."""


def contrast(one: Color, other: Color) -> float:
    """WCAG 2 contrast ratio, from relative luminance (Textual's own ratio uses perceived brightness)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(color: Color) -> float:
    parts = [part / 255 for part in color.rgb]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_measure_itself() -> None:
    assert contrast(Color.parse("#000"), Color.parse("#fff")) == pytest.approx(21.0)
    assert contrast(Color.parse("#777"), Color.parse("#fff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", GROUND)
@pytest.mark.parametrize("text", TEXT)
def test_text_tokens_stand_out(theme: object, text: str, ground: str) -> None:
    colors = {**theme.to_color_system().generate(), **theme.variables}  # type: ignore[attr-defined]
    assert contrast(Color.parse(colors[text]), Color.parse(colors[ground])) >= ENOUGH


def faint(screen: Screen, region: Region | None = None) -> list[str]:
    """Words in a part of the screen whose contrast is too low."""
    found = []
    part = region or screen.app.screen.region
    for strip in screen.strips()[part.y : part.bottom]:
        for segment in strip.crop(part.x, part.right):
            if re.search(r"\w", segment.text) and segment.style is not None:
                ratio = contrast(*colors_of(segment))
                if ratio < ENOUGH:
                    found.append(f"{segment.text!r} {ratio:.2f}")
    return found


def colors_of(segment: Segment) -> tuple[Color, Color]:
    style = segment.style
    assert style is not None
    assert style.color is not None
    assert style.bgcolor is not None
    pair = [Color.from_rich_color(each) for each in (style.color, style.bgcolor)]
    return (pair[1], pair[0]) if style.reverse else (pair[0], pair[1])


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_that_is_drawn_stands_out(theme: str) -> None:
    reply = "# Title\n\ntext `code` **bold** [link](http://x)\n\n> quote\n\n"
    reply += "```python\nx = 1  # note\n```\n\n1. one"
    client = ScriptedClient(
        state=meshed(),
        answer=[ChatDelta(text=reply, reasoning="because"), ChatDelta(completion_tokens=9)],
    )
    async with dashboard(client, theme=theme) as screen:
        assert faint(screen) == []
        await screen.press("7")
        await screen.until(lambda: screen.app.page.NAME == "chat")
        await screen.press("x", "enter")
        await screen.until(lambda: "● done" in screen.text)
        assert faint(screen) == []
        await screen.press("escape", "t")
        for page in (*PAGES[1:], PAGES[0]):
            await screen.app.open(page.name)
            await screen.pilot.pause()
            assert faint(screen) == [], page.name
        await screen.to("mesh")
        await screen.press("j", "j")
        assert faint(screen) == []
        for key in ("l", "?", "ctrl+q", "P", "enter"):
            await screen.press(key)
            assert faint(screen, screen.app.screen.query_one(".dialog").region) == []
            await screen.press("escape")


async def test_without_colour_nothing_is_coloured_and_the_focus_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with dashboard() as screen:
        filters = screen.app._filters
        drawn = [list(strip.apply_filter(filters[-1], Color(0, 0, 0))) for strip in screen.strips()]
        segments = [segment for line in drawn for segment in line if segment.style is not None]
        default = RichColor.default()
        assert {segment.style.color for segment in segments if segment.style} <= {default, None}
        assert {segment.style.bgcolor for segment in segments if segment.style} <= {default, None}
        rows = [segment for segment in segments if segment.style and "option" in segment.style.meta]
        assert any("SmolLM2" in row.text and row.style and row.style.reverse for row in rows)
        assert "┏━ Models" in screen.text
        assert "╭─ Node" in screen.text


@pytest.mark.parametrize("name", ["dracula", "ansi-dark", "mine", *(theme.name for theme in THEMES)])
async def test_every_theme_that_can_be_chosen_has_every_colour(name: str) -> None:
    """Textual's own lack colours that the style sheets ask for: the app would end with the choice."""
    first = THEMES[0].name
    own = ("mine", BUILT_IN[first][0], True)
    async with dashboard(size=(80, 24), preferences=Preferences(theme=first, own=own)) as screen:
        await screen.press("ctrl+p", *"theme")
        await screen.until(lambda: "Other colours" in screen.text)
        await screen.press("enter")
        await screen.until(lambda: "Search for themes" in screen.text)
        await screen.until(lambda: all(theme.name in screen.text for theme in THEMES))
        assert "textual-dark" not in screen.text
        await screen.press(*name)
        await screen.pilot.pause(0.5)
        await screen.press("enter")
        await screen.pilot.pause(0.2)
        assert screen.app.theme == (first if name in ("dracula", "ansi-dark") else name)
        await screen.press("escape")
        await screen.until(lambda: "This node" in screen.text)
