"""What goes on in another line stands below its own text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_tui.actions.registry import help_rows
from meshllm_tui.cleaning import cells
from meshllm_tui.hanging import hang, hang_all
from meshllm_tui.mesh_rows import empty_mesh
from meshllm_tui.present import NodeView, Span, line, plain
from meshllm_tui.widgets.long_text import LongText
from tests.tui.conftest import dashboard
from tests.tui.samples import ScriptedClient, serving

KEYS = 22
"""Cells before a text of the help."""


def test_it_breaks_between_words_and_keeps_the_tones() -> None:
    text = line("  ", Span("v  ", "accent"), "makes an invite, ", Span("here", "strong"), ", now")
    shown = hang(text, 21, 5)
    assert [plain((each,)) for each in shown] == ["  v  makes an invite,", "     here, now"]
    assert Span("here", "strong") in shown[1]
    assert hang(text, 40, 5) == (text,)


def test_what_a_line_is_hung_below() -> None:
    lines = (
        line(Span("Per token     ", "muted"), "62 ms computing + 1.2 ms network"),
        line(Span("· ", "muted"), "one more machine with 6 GiB free"),
        line("   ", "words that go on and on and on"),
        line("plain words that go on and on and on"),
        line(""),
    )
    assert plain(hang_all(lines, 30)).splitlines() == [
        "Per token     62 ms computing",
        "              + 1.2 ms network",
        "· one more machine with 6 GiB",
        "  free",
        "   words that go on and on and",
        "   on",
        "plain words that go on and on",
        "and on",
    ]


@given(st.lists(st.text("ab漢é", min_size=1, max_size=9), min_size=1, max_size=12), st.integers(14, 40))
def test_nothing_is_lost_and_nothing_is_wider_than_it_may_be(words: list[str], width: int) -> None:
    shown = [plain((each,)) for each in hang(line("  ", *(f"{word} " for word in words)), width, 4)]
    assert " ".join(shown).split() == words
    assert all(each.startswith("    ") for each in shown[1:])
    for each in shown:
        assert cells(each.rstrip()) <= width or len(each.split()) == 1


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=str)
async def test_the_help_at_every_width(size: tuple[int, int]) -> None:
    texts = {text for _, rows in help_rows({}, "settings") for _, text in rows}
    async with dashboard(size=(120, 40)) as screen:
        await screen.press("0", "question_mark")
        await screen.pilot.resize_terminal(*size)
        await screen.pilot.pause(0.1)
        frame = screen.app.screen.query_one("#help")
        width = frame.scrollable_content_region.width
        lines = plain(frame.query_one(LongText).lines).splitlines()
        assert max(map(cells, lines)) <= width
        said = " ".join(each[KEYS:].strip() for each in lines)
        assert all(text in said for text in texts)


@pytest.mark.parametrize("width", [34, 36, 52, 74])
def test_a_node_by_itself_at_every_width(width: int) -> None:
    lines = plain(empty_mesh(NodeView(snapshot=serving(), link="live", wall=1.0), width)).splitlines()
    assert all(cells(each) <= width for each in lines)
    steps = lines[lines.index("What you have") :]
    assert all(each[:2] == "  " for each in steps if each and each not in _TITLES)
    assert any(each[:5] == "     " for each in steps)


_TITLES = ("What you have", "How a second machine comes in")


async def test_a_node_by_itself_on_the_smallest_screen_with_two_columns() -> None:
    async with dashboard(ScriptedClient(), size=(80, 24)) as screen:
        assert "     picture of the code" in screen.text, screen.text
