"""What is said of an answer: who computed it, and by which stages. No Textual here."""

import msgspec

from meshllm_core.state.snapshot import NodeSnapshot, SplitView
from meshllm_core.state.split_events import HostedStage, StageRow
from meshllm_tui.chat_models import chat_models, model_choices
from meshllm_tui.chat_words import code_blocks, figure_lines, file_name, how_answered
from meshllm_tui.cleaning import cells
from meshllm_tui.conversation import Answer
from meshllm_tui.present import plain
from tests.tui.mesh_samples import meshed, model, peer
from tests.tui.samples import SMALL, bare, fold, ready


def stage(index: int, name: str, start: int, end: int) -> StageRow:
    return StageRow(index=index, node="ab" * 32, node_name=name, start=start, end=end, bytes=1, state="ready")


def split_over(*stages: StageRow) -> NodeSnapshot:
    """A node that has its model in those stages."""
    split = SplitView(
        run="r1",
        stages=stages,
        dtype="f16",
        verdict="",
        sentence="",
        reasons=(),
        predicted_ms_per_token=20.0,
        network_ms_per_token=2.0,
        target_ms=0.0,
        context=4096,
        lanes=1,
    )
    state = fold(*ready(), snapshot=bare())
    row = msgspec.structs.replace(state.models[0], split=split)
    return msgspec.structs.replace(state, models=(row,))


def test_a_split_of_this_node_names_its_stages() -> None:
    two = split_over(stage(0, "workshop", 0, 15), stage(1, "attic\x1b[2J", 15, 30))
    words = how_answered(two, SMALL, "")
    assert words == f"{SMALL}, 2 stages: workshop layers 0–14 → attic layers 15–29"
    many = split_over(*(stage(n, f"m{n}", n, n + 1) for n in range(9)))
    assert how_answered(many, SMALL, "").endswith("→ m5 layers 5–5 and 3 more")
    assert model_choices(chat_models(two)) == [(SMALL, f"{SMALL}  here, 2 stages")]


def test_another_member_is_named_and_what_is_not_known_is_said() -> None:
    assert how_answered(meshed(), "gemma", "cellar") == (
        "gemma, answered by cellar, which does not tell whether it is split"
    )


def test_a_stage_computed_here_for_another_member_is_told() -> None:
    hosted = HostedStage(
        run="r1",
        model="gemma",
        coordinator="cellar",
        index=1,
        stages=3,
        start=4,
        end=9,
        bytes=1,
        state="ready",
    )
    state = msgspec.structs.replace(meshed(), hosted_stages=(hosted,))
    assert how_answered(state, "gemma", "cellar") == (
        "gemma, answered by cellar, split into 3 stages; stage 2 was computed here"
    )


def test_a_whole_model_of_this_node() -> None:
    assert how_answered(fold(*ready(), snapshot=bare()), SMALL, "") == f"{SMALL}, answered by workshop on CPU"
    assert how_answered(bare(), SMALL, "") == ""
    assert how_answered(None, SMALL, "") == ""


def test_a_model_is_offered_once_with_all_who_hold_it() -> None:
    state = meshed(*(peer(name, models=(model(SMALL),)) for name in ("a", "b", "c", "d")))
    offered = chat_models(state)
    assert [each.where for each in offered] == ["here and a, b, c and 1 more"]


def test_figures_break_between_words_only() -> None:
    answer = Answer("m", state="stopped", text="x", completion_tokens=143, first_at=0.08, last_at=2.0)
    lines = figure_lines(answer, 30)
    assert all(cells(plain([each])) <= 30 for each in lines)
    assert plain(lines) == "■ stopped  143 tokens\n74.0 tok/s  first token 80 ms\nr asks again"


def test_code_is_found_in_lists_and_unfinished_fences() -> None:
    assert code_blocks("- x\n\n  ```sh\n  ls\n  ```\n\n~~~\na\n```\nb\n~~~\n\n```py\nopen") == [
        "ls",
        "a\n```\nb",
        "open",
    ]
    assert code_blocks("no `code` block") == []


def test_file_names_hold_no_paths() -> None:
    assert file_name("../../etc/passwd: why?") == "etc-passwd-why.md"
    assert file_name("Straße 5") == "straße-5.md"
    assert file_name("…") == "conversation.md"
