"""A list to choose from: each choice is one line, whatever it is called and however small the terminal."""

import msgspec
import pytest
from textual.widgets import OptionList

from meshllm_core.api.schema_plan import PlanModel
from meshllm_tui.cleaning import cells
from meshllm_tui.plan_words import SOURCES, model_words
from meshllm_tui.screens.choose import ChooseScreen, row_width
from tests.tui.conftest import dashboard

SIZES = [(60, 20), (80, 24), (300, 80)]


def models() -> list[PlanModel]:
    names = ["SmolLM2-135M-Instruct.Q4_1", "x", "a-name-that-is-longer-than-any-dialog-has-room-for" * 3] * 6
    sources = list(SOURCES) * 6
    told = [
        {"ref": f"{number}", "name": name, "source": source, "bytes": number * 123_456_789}
        for number, (name, source) in enumerate(zip(names, sources, strict=True))
    ]
    return msgspec.convert(told, list[PlanModel])


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_planner_s_models_are_in_columns(size: tuple[int, int]) -> None:
    rows = [model_words(model, row_width(size[0])) for model in models()]
    assert {cells(row) for row in rows} == {row_width(size[0])}
    ends = [row.index(SOURCES[model.source]) for row, model in zip(rows, models(), strict=True)]
    assert len(set(ends)) == 1
    async with dashboard(size=size) as screen:
        screen.app.push_screen(ChooseScreen("Which?", [(row, row) for row in rows]))
        await screen.pilot.pause()
        shown = screen.app.screen.query_one(OptionList)
        assert shown.virtual_size.height == len(rows)
        assert all(row.rstrip() in screen.text for row in rows[:6]), screen.text


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_row_that_is_too_long_is_cut_and_not_wrapped(size: tuple[int, int]) -> None:
    async with dashboard(size=size) as screen:
        screen.app.push_screen(
            ChooseScreen("Which?", [("a", "word " * 90), ("b", "x" * 400), ("c", "short")])
        )
        await screen.pilot.pause()
        assert screen.app.screen.query_one(OptionList).virtual_size.height == 3
        assert screen.text.count("…") >= 2
