"""Thoughts are kept apart from the answer, in whatever pieces they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.serve.reasoning import ReasoningSplitter, ReasoningTags, detect_reasoning
from tests.serve import templates
from tests.serve.joined import cuts, pieces

THINK = ReasoningTags("<think>", "</think>")


def run(text: str, *, opened: bool = False, places: list[int] | None = None) -> tuple[str, str]:
    splitter = ReasoningSplitter(THINK, opened=opened)
    reasoning = answer = ""
    for piece in pieces(text, places or []):
        split = splitter.feed(piece)
        reasoning, answer = reasoning + split.reasoning, answer + split.answer
    split = splitter.finish()
    return reasoning + split.reasoning, answer + split.answer


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>\nHm, so.\n</think>\n\nYes.", False, ("Hm, so.", "Yes.")),
        ("Hm, so.\n</think>\n\nYes.", True, ("Hm, so.", "Yes.")),
        ("<think>\nHm.</think>Yes.", True, ("Hm.", "Yes.")),
        ("<think>\n\n</think>\n\nYes.", False, ("", "Yes.")),
        ("Yes, <think> is a tag.", False, ("", "Yes, <think> is a tag.")),
        ("<think>budget ended", False, ("budget ended", "")),
        ("budget ended </thi", True, ("budget ended </thi", "")),
        ("<think>a</think>b<think>c</think>", False, ("a", "b<think>c</think>")),
        ("  \n no thought ", False, ("", "  \n no thought ")),
        ("<thi", False, ("", "<thi")),
        ("", True, ("", "")),
        ("a < b\n\n and c</think>d", True, ("a < b\n\n and c", "d")),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_split(text: str, opened: bool, expected: tuple[str, str], size: int) -> None:
    assert run(text, opened=opened, places=list(range(0, len(text), size))) == expected


FRAGMENTS = st.sampled_from(["<think>", "</think>", "<think", "</", "<", " ", "\n", "\n" * 70, "word", "k>"])


@given(text=st.lists(FRAGMENTS, max_size=12).map("".join), opened=st.booleans(), places=cuts)
def test_any_cutting_gives_the_same(text: str, opened: bool, places: list[int]) -> None:
    whole = run(text, opened=opened)
    assert run(text, opened=opened, places=places) == whole
    assert run(text, opened=opened, places=list(range(len(text)))) == whole


@given(thought=st.text(alphabet="ab <>/\n"), answer=st.text(alphabet="ab <>/\n"), places=cuts)
def test_nothing_but_framing_blanks_is_lost(thought: str, answer: str, places: list[int]) -> None:
    reasoning, content = run(f"<think>{thought}</think>{answer}", places=places)
    assert (reasoning, content) == (thought.strip(), answer.lstrip())


def test_thoughts_stream() -> None:
    splitter = ReasoningSplitter(THINK)
    assert splitter.feed("<think>One ").reasoning == "One"
    assert splitter.feed("two").reasoning == " two"
    assert splitter.feed("</think>Yes").answer == "Yes"


def test_without_tags_all_is_answer() -> None:
    split = ReasoningSplitter(None).feed("<think>x</think>")
    assert (split.reasoning, split.answer) == ("", "<think>x</think>")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (templates.QWEN, THINK),
        (templates.DEEPSEEK, THINK),
        (templates.MISTRAL_ARGS, ReasoningTags("[THINK]", "[/THINK]")),
        (templates.LLAMA3, None),
        ("", None),
    ],
)
def test_detected_from_the_template(template: str, expected: ReasoningTags | None) -> None:
    assert detect_reasoning(template) == expected
