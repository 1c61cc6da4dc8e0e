"""The pictures and the recording that the README shows: all used, small, and of no particular machine."""

import json
import re
from pathlib import Path

import pytest

from tests.contracts import tree

ASSETS = tree.ROOT / "assets"
README = (tree.ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = sorted(ASSETS.glob("*.png"))
CAST = ASSETS / "tour.cast"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_used_and_small(picture: Path) -> None:
    assert f"(assets/{picture.name})" in README
    assert picture.stat().st_size <= 150 * 1024


def test_the_tour_can_be_played_within_two_minutes() -> None:
    head, *pieces = [json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 120, 34)
    times = [at for at, _, _ in pieces]
    assert times == sorted(times)
    assert times[-1] <= 120
    assert CAST.stat().st_size < 3 << 19
    assert {kind for _, kind, _ in pieces} == {"o", "m"}


def test_the_tour_shows_what_it_is_to_show_in_that_order() -> None:
    pieces = [json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines()[1:]]
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "".join(text for _, kind, text in pieces if kind == "o"))
    place = 0
    for words in (
        "Four questions",
        "Make the invite",
        "MESHLLM:",
        "reachability",
        "L splits it",
        "Split it",
        "2 of 2 ready",
        "2 stages",
        "List this mesh publicly?",
        "public",
        "down",
        "waits for machines",
    ):
        found = shown.find(words, place)
        assert found >= 0, words
        place = found


def test_the_tour_names_no_folder_of_the_machine_that_made_it() -> None:
    assert not re.search(r"/(?:tmp|home|root|work)/\w", CAST.read_text(encoding="utf-8"))
