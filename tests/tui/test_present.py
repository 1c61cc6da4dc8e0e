"""What the panes say, in every state."""

import msgspec
import pytest

from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, Notice
from meshllm_tui.cleaning import cells
from meshllm_tui.present import NodeView, chat_note, plain, status_line
from meshllm_tui.rows import empty_models, log_lines, model_card, node_lines
from tests.tui.samples import BROKEN, LARGE, SMALL, START, bare, fold, ready, serving

HOSTILE = "\x1b]0;owned\x07\x1b[2J[red]\u202eevil\n\n\x00"


def card(model: ModelId, snapshot: NodeSnapshot | None = None, width: int = 40) -> str:
    snapshot = snapshot or serving()
    view = snapshot.model(model)
    assert view is not None
    return plain(model_card(view, snapshot, width))


def test_ready_model() -> None:
    assert card(SMALL).splitlines() == [
        "SmolLM2-135M-Instruct            ● ready",
        "decode 61.2  prompt 812 tok/s",
        "1 active  0 queued  of 4 lanes",
        "context 8,192  KV 12 % used",
        "llama · 135M · CPU · 412 MiB",
    ]


def test_idle_model_shows_its_last_answer() -> None:
    quiet = ev.ThroughputMeasured(
        at=START + 30,
        model=SMALL,
        decode_tokens_per_second=0,
        prompt_tokens_per_second=0,
        active=0,
        queued=0,
        cells_used=0,
        cells_total=0,
    )
    assert "idle  last answer 61.2 tok/s" in card(SMALL, fold(quiet, snapshot=serving()))
    assert "idle  no answer yet" in card(SMALL, fold(*ready(), snapshot=bare()))


def test_download_shows_share_and_bytes() -> None:
    lines = card(LARGE, width=40).splitlines()
    assert lines[0].endswith("↓ downloading")
    assert lines[1].endswith("  44 %")
    assert lines[2] == "1.1 of 2.4 GiB"


def test_load_shows_share_and_need() -> None:
    loading = fold(*ready()[:2], snapshot=bare())
    lines = card(SMALL, loading).splitlines()
    assert lines[0].endswith("◐ loading")
    assert lines[1].endswith("50 %")
    assert lines[2] == "49.0 of 98.0 MiB read, needs 512 MiB of memory"


def test_failed_model_says_why_and_what_to_do() -> None:
    lines = card(BROKEN).splitlines()
    assert lines[0].endswith("✗ failed")
    assert "needs 31.2 GiB" in lines[1]
    assert "smaller quantization" in lines[2]
    assert lines[3] == "r tries again  u removes it"


def test_restarting_model() -> None:
    died = ev.EngineExited(
        at=START, model=SMALL, reason="signal", detail="killed by signal 9", log_tail=(), restarting=True
    )
    text = card(SMALL, fold(died, snapshot=serving()))
    assert "↻ restarting" in text
    assert "killed by signal 9" in text


@pytest.mark.parametrize("width", [20, 33, 40, 70])
@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_cards_fit_their_width(model: ModelId, width: int) -> None:
    first = card(model, width=width).splitlines()[0]
    assert cells(first) <= max(width, 24)


def test_node_pane() -> None:
    text = plain(node_lines(NodeView(snapshot=serving(), link="live", wall=START + 200), 40))
    assert text.splitlines()[0] == "● serving  up 3 min"
    assert "Endpoint http://127.0.0.1:9337/v1" in text
    assert "10.0 GiB free of 16.0 GiB" in text
    assert "CUDA0 NVIDIA" in text
    assert "0 running, 1 served" in text


@pytest.mark.parametrize(
    ("silent", "started", "words"),
    [
        (0.0, True, "◌ starting the node…"),
        (0.0, False, "◌ looking for the node…"),
        (12.0, False, "! no node answers, asked for 12 s"),
        (25.0, True, "! no node answers, asked for 25 s"),
    ],
)
def test_before_the_node_answers(silent: float, started: bool, words: str) -> None:
    view = NodeView(silent_for=silent, started_by_us=started, trouble="port 3131: refused")
    assert plain(node_lines(view, 40)).splitlines()[0] == words
    assert plain(empty_models(view)).splitlines()[0] == words
    assert words in plain([status_line(view)])
    if silent >= 5:
        assert "refused" in plain(node_lines(view, 40))
        assert "meshllm" in plain(node_lines(view, 40)).splitlines()[-1]


def test_stale_state_tells_its_age() -> None:
    view = NodeView(snapshot=serving(), link="lost", silent_for=12.0)
    assert "stale: no answer for 12 s" in plain([status_line(view)])
    assert "stale: no answer for 12 s" in plain(node_lines(view, 40))
    note = plain(chat_note(view, None, True))
    assert "stale: no answer for 12 s" in note
    assert "run meshllm again" in note


def test_empty_panes_say_what_to_press() -> None:
    view = NodeView(snapshot=bare(), link="live")
    assert plain(empty_models(view)) == "No model is loaded.\nPress l to load one."
    assert "Press l to load one." in plain(chat_note(view, None, False))
    loading = NodeView(snapshot=fold(*ready()[:2], snapshot=bare()), link="live")
    assert "SmolLM2-135M-Instruct is loading." in plain(chat_note(loading, None, False))


def test_log_merges_the_dashboards_own_lines_by_time() -> None:
    own = Notice(at=START + 15.5, level="warning", source="dashboard", text="lost the node")
    lines = plain(log_lines(NodeView(snapshot=serving(), link="live", local=(own,)))).splitlines()
    assert [line.split()[3] for line in lines] == [SMALL, BROKEN, "dashboard", "hub"]
    assert lines[2].split()[1:3] == ["!", "warning"]


def test_every_state_has_its_own_word_and_glyph() -> None:
    from meshllm_tui.present import LEVELS, MODEL_STATES, NODE_STATES

    for states in (NODE_STATES, MODEL_STATES, LEVELS):
        shown = list(states.values())
        assert len({state.word for state in shown}) == len(shown)
        assert len({state.glyph for state in shown}) == len(shown)


def test_hostile_fields_are_shown_as_harmless_text() -> None:
    view = ModelView(
        id=ModelId(HOSTILE),
        ref=HOSTILE,
        status="failed",
        requested_at=0.0,
        error=HOSTILE,
        hint=HOSTILE * 1000,
        architecture=HOSTILE,
        device=HOSTILE,
    )
    snapshot = msgspec.structs.replace(
        serving(), name=HOSTILE, cpu=HOSTILE, version=HOSTILE, api_url=HOSTILE, models=(view,)
    )
    live = NodeView(snapshot=snapshot, link="live")
    ready_view = msgspec.structs.replace(view, status="ready")
    for lines in (
        node_lines(live, 40),
        model_card(view, snapshot, 40),
        model_card(ready_view, snapshot, 40),
        [status_line(live)],
        chat_note(live, ready_view.id, False),
    ):
        text = plain(lines)
        assert "[red]" in text
        assert "owned" not in text
        for each in ("\x1b", "\x07", "\u202e", "\x00"):
            assert each not in text
        assert text.count("\n") == len(tuple(lines)) - 1
