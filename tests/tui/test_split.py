"""Models that are spread over machines, and stages for others: their cards in the models pane."""

from collections.abc import Callable

import pytest

from meshllm_core.state import events as ev
from meshllm_core.state import split_events as split
from meshllm_core.state.snapshot import ModelView, NodeSnapshot
from meshllm_tui.cleaning import cells
from meshllm_tui.present import Line, plain
from meshllm_tui.split_rows import STAGE_STATES, card_map, hosted_card
from tests.support import splits
from tests.tui.conftest import dashboard, make_app
from tests.tui.samples import START, ScriptedClient, bare, fold, serving
from tests.tui.test_snapshots import settle

EVIL = "\x1b]0;owned\x07\u202ename\n\x9b31m[bold]"


def spread(*events: ev.AnyEvent, at: float = START + 50, done: bool = False) -> NodeSnapshot:
    """A node whose model is spread, and that computes two stages for others."""
    fetching = splits.hosted(
        "b2" * 8,
        at=at + 11,
        coordinator="garage",
        state="fetching",
        bytes_done=3 << 30,
        bytes_total=9 << 30,
    )
    events = ((*splits.ready(at),) if done else (*splits.under_way(at),)) + (
        splits.hosted(at=at + 10),
        fetching,
        *events,
    )
    return fold(*events, snapshot=bare())


def model_of(snapshot: NodeSnapshot) -> ModelView:
    model = snapshot.model(splits.MODEL)
    assert model is not None
    assert model.split is not None
    return model


def widest(lines: tuple[Line, ...]) -> int:
    return max(cells(text) for text in plain(lines).split("\n"))


def test_every_state_is_a_word_with_a_glyph_of_its_own() -> None:
    assert set(STAGE_STATES) == set(split.StageState.__args__)  # type: ignore[attr-defined]
    assert len({state.glyph for state in STAGE_STATES.values()}) == len(STAGE_STATES)
    assert all(state.word for state in STAGE_STATES.values())


@pytest.mark.parametrize("width", [20, 33, 41, 80])
def test_the_card_shows_where_in_the_model_each_machine_is(width: int) -> None:
    shown = card_map(model_of(spread()).split, width)  # type: ignore[arg-type]
    assert widest(shown) <= max(width, 8 + 4 + 2 + 15)
    head, attic, desk, shed = plain(shown).split("\n")
    assert head.startswith("1 of 3 stages ready")
    assert [text[:8] for text in (attic, desk, shed)] == ["━━━━────", "────━━━─", "───────━"]
    assert desk.endswith("↓ fetching 41 %")
    assert shed.endswith("● ready")
    assert ("57 ms/token" in head) == (width >= 33)


def test_a_card_of_many_stages_stays_small() -> None:
    many = tuple(splits.row(place, f"box{place}", place, place + 1) for place in range(9))
    model = model_of(fold(splits.under_way()[0], splits.planned(*many), snapshot=bare()))
    assert model.split is not None
    lines = plain(card_map(model.split, 41)).split("\n")
    assert lines[-1] == "and 5 more: s shows all"
    assert len(lines) == 6


def test_a_hosted_stage_is_told_in_three_lines() -> None:
    stage = splits.hosted().stage
    assert plain(hosted_card(stage, 41)).split("\n") == [
        "for cellar                        ● ready",
        "layers 20–29 of Llama-3.3-70B:Q4_K_M",
        "5.0 GiB · 4,312 steps · stage 2 of 4",
    ]
    assert plain(hosted_card(stage, 24)).split("\n")[2] == "5.0 GiB · 4,312 steps"


@pytest.mark.parametrize("width", [20, 33, 69])
def test_texts_and_figures_from_outside_are_shown_and_not_obeyed(width: int) -> None:
    huge = 1 << 70
    row = splits.row(
        0, EVIL * 40, 0, huge, bytes=huge, state="fetching", bytes_done=huge, bytes_total=1, detail=EVIL * 99
    )
    other = splits.row(1, "", huge, -5, rtt_ms=1e300, predicted_ms=1e300, measured_ms=1e-9)
    plan = splits.planned(
        row, other, sentence=EVIL, reasons=(EVIL,) * 500, dtype=EVIL, verdict=EVIL, context=huge, lanes=huge
    )
    hosted = splits.hosted(
        model=EVIL, coordinator=EVIL * 9, detail=EVIL, units=huge, stages=huge, start=-huge, end=huge
    )
    snapshot = fold(splits.under_way()[0], plan, hosted, snapshot=bare())
    model = model_of(snapshot)
    assert model.split is not None
    card = card_map(model.split, width)
    others = hosted_card(snapshot.hosted_stages[0], width)
    for lines in (card, others):
        text = plain(lines)
        assert not set(text) & set("\x1b\x07\u202e\x9b")
    assert widest(others[:3]) <= max(width, 26)


async def test_the_pane_shows_models_first_then_stages_for_others() -> None:
    async with dashboard(ScriptedClient(state=spread()), size=(120, 40)) as screen:
        text = screen.text
        assert text.index("Qwen3-30B-A3B") < text.index("for cellar") < text.index("for garage")
        assert "layers 20–29 of Llama-3.3-70B:Q4_K_M" in text
        assert "Stages" in text
        await screen.press("j")
        assert "Unload" not in screen.text
        assert "Stages" not in screen.text.splitlines()[-1]
        await screen.press("enter", "u", "s", "y")
        assert screen.client.acted == []
        assert screen.app.page.NAME == "mesh"
        released = split.StageReleased(at=START + 70, run="a1" * 8, reason="the model was unloaded")
        screen.client.happen(released)
        await screen.until(lambda: "for cellar" not in screen.text)


async def test_a_node_that_only_computes_for_others_shows_that() -> None:
    async with dashboard(ScriptedClient(state=fold(splits.hosted(), snapshot=bare()))) as screen:
        assert "for cellar" in screen.text
        assert "No model is loaded" not in screen.text


async def test_whole_models_have_no_stages_to_show() -> None:
    async with dashboard(ScriptedClient(state=serving())) as screen:
        await screen.press("s")
        assert screen.app.page.NAME == "mesh"
        assert "Stages" not in screen.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_models(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=spread()))
    assert snap_compare(app, terminal_size=size, run_before=settle)
