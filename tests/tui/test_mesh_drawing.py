"""The drawing of the mesh: what stands where, at any size, and that words from outside break nothing."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.box_canvas import Box, Canvas
from meshllm_tui.cleaning import cells
from meshllm_tui.mesh_drawing import SMALLEST, TWO_SIDES, Drawing, draw_mesh, is_drawable
from meshllm_tui.mesh_rows import OWN
from meshllm_tui.present import plain
from meshllm_tui.rtt_history import KEPT, RttHistory, bars, trend
from tests.tui.mesh_samples import PEERS, many, meshed, node_id, peer


def drawn(
    snapshot: NodeSnapshot, width: int = 72, height: int = 18, chosen: str | None = None, spark: str = ""
) -> Drawing:
    return draw_mesh(snapshot, width, height, chosen, lambda _: spark)


def text_of(drawing: Drawing) -> str:
    return plain(drawing.lines)


def test_links_say_how_near_and_by_which_way() -> None:
    lines = text_of(drawn(meshed())).splitlines()
    links = {
        name: next(line for line in lines if name in line)
        for name in ("attic", "cellar", "garage", "phone", "laptop")
    }
    assert "─ 1.2 ms tls ─" in links["attic"]
    assert "─ 23 ms quic ─" in links["cellar"]
    assert "╌ 31 ms no link ╌" in links["garage"]
    assert "─ silent ─" in links["phone"]
    assert "╌ gone ╌" in links["laptop"]
    assert "✗ laptop" in links["laptop"]


def test_a_blocked_and_a_paused_member_are_named_as_such() -> None:
    snapshot = meshed(peer("attic"), peer("shed", lending_paused=True, models=()))
    assert snapshot.mesh is not None
    blocked = msgspec.structs.replace(snapshot.mesh, blocked=(node_id("attic"),))
    text = text_of(drawn(msgspec.structs.replace(snapshot, mesh=blocked)))
    assert "╌ blocked ╌" in text
    assert "⊘ attic" in text
    assert next(line for line in text.splitlines() if "● shed" in line).rstrip(" │").endswith("paused")


def test_the_chosen_box_shows_without_colour() -> None:
    plainly, chosen = text_of(drawn(meshed())), text_of(drawn(meshed(), chosen=node_id("cellar")))
    assert "┃" not in plainly
    assert "┃" in next(line for line in chosen.splitlines() if "● cellar" in line)
    assert plainly.replace("─", "").splitlines()[0] == chosen.replace("─", "").splitlines()[0]


def test_members_stand_at_both_sides_where_there_is_room() -> None:
    one, two = drawn(meshed(), TWO_SIDES - 1), drawn(meshed(), TWO_SIDES)
    assert min(box.left for box in one.boxes) == 0 == one.boxes[0].left
    assert two.boxes[0].left > 0
    assert {box.left < two.boxes[0].left for box in two.boxes[1:]} == {True, False}


def test_places_depend_on_names_alone() -> None:
    before = drawn(meshed())
    rows = tuple(msgspec.structs.replace(row, rtt_ms=row.rtt_ms * 7 + 300, models=()) for row in PEERS)
    assert drawn(meshed(*reversed(rows))).boxes == before.boxes


@pytest.mark.parametrize(("count", "height"), [(5, 18), (8, 18), (60, 18), (199, 40), (1, 8), (0, 8)])
def test_as_many_as_fit_and_how_many_more(count: int, height: int) -> None:
    snapshot = meshed(*many(count)) if count else msgspec.structs.replace(meshed(), peers=())
    drawing = drawn(snapshot, height=height)
    assert len(drawing.lines) <= height
    assert drawing.boxes[0].key == OWN
    assert len(drawing.boxes) - 1 + drawing.left_out == count
    assert drawing.left_out == max(count - (height - 1) // 2, 0)


def test_a_name_is_not_cut_for_a_figure() -> None:
    name = "machine-that-is-long"
    assert name in text_of(drawn(meshed(peer(name)), spark="▁▂▃▄▅▆▇█"))
    assert "▂▃" in text_of(drawn(meshed(peer("pi")), spark="▁▂▃▄▅▆▇█"))


hostile = st.text(max_size=80)


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(hostile, min_size=0, max_size=40),
    model=hostile,
    width=st.integers(SMALLEST[0], 220),
    height=st.integers(SMALLEST[1], 60),
    picked=st.integers(0, 40),
)
def test_no_words_break_the_drawing(
    names: list[str], model: str, width: int, height: int, picked: int
) -> None:
    one = mesh.PeerModel(
        id=model,
        status="ready",
        architecture="x",
        parameters=1,
        context=1,
        lanes=1,
        chat=True,
        embeddings=False,
        decode_tokens_per_second=1e9,
        active=0,
        queued=0,
    )
    rows = tuple(
        peer("x", name=name, node=f"{place:064x}", models=(one,)) for place, name in enumerate(names)
    )
    snapshot = meshed(*rows) if rows else msgspec.structs.replace(meshed(), peers=())
    drawing = drawn(snapshot, width, height, f"{picked:064x}", "▁▂▃▄▅▆▇█")
    assert len(drawing.lines) <= height
    for line in drawing.lines:
        assert cells("".join(span.text for span in line)) == width
    boxes = drawing.boxes
    for index, box in enumerate(boxes):
        assert box.left >= 0
        assert box.right < width
        assert box.bottom < len(drawing.lines)
        for other in boxes[index + 1 :]:
            apart = box.right < other.left or other.right < box.left
            assert apart or box.bottom <= other.top or other.bottom <= box.top


def test_where_a_drawing_fits() -> None:
    assert is_drawable(*SMALLEST)
    assert not is_drawable(SMALLEST[0] - 1, 40)
    assert not is_drawable(200, SMALLEST[1] - 1)


def test_lines_that_meet_are_joined() -> None:
    canvas = Canvas(9, 5)
    canvas.box(Box("a", 0, 0, 4, 3), "muted")
    canvas.box(Box("b", 0, 2, 4, 3), "muted")
    canvas.across(1, 3, 7)
    canvas.down(7, 1, 3)
    canvas.text(1, 1, "木", "plain")
    canvas.text(8, 4, "木", "plain")
    assert plain(canvas.lines()).splitlines() == [
        "┌──┐     ",
        "│木├───┐ ",
        "├──┤   │ ",
        "│  │   │ ",
        "└──┘     ",
    ]


def test_round_trips_are_kept_for_members_that_are_there() -> None:
    history, snapshot = RttHistory(), meshed(peer("attic", rtt_ms=2.0), peer("cellar"))
    for second in range(KEPT * 4):
        history.take(snapshot, 1000.0 + second)
    assert history.of(node_id("attic")) == (2.0,) * KEPT
    assert history.taken == KEPT * 2
    history.take(meshed(peer("cellar", status="down", rtt_source="unknown")), 5000.0)
    assert history.of(node_id("attic")) == history.of(node_id("cellar")) == ()


def test_bars_and_words_of_round_trips() -> None:
    assert bars((1.0,)) == trend((1.0,)) == ""
    assert bars((1.0, 8.0, 4.0)) == "▂█▅"
    assert trend((1.0, 8.0, 4.0)) == "▂█▅  1.0 to 8.0 ms"


def test_only_the_border_of_the_chosen_box_is_thick() -> None:
    canvas = Canvas(4, 7)
    for top in (0, 2, 4):
        canvas.box(Box(str(top), 0, top, 4, 3), "muted")
    canvas.box(Box("2", 0, 2, 4, 3), "accent", heavy=True)
    assert plain(canvas.lines()).splitlines() == ["┌──┐", "│  │", "┢━━┪", "┃  ┃", "┡━━┩", "│  │", "└──┘"]
