"""Which public mesh is joined: what rules one out, what speaks for one, and that words go with it."""

import math

import msgspec
import pytest

from meshllm_core.discovery.listing import Listing
from meshllm_core.discovery.score import GB, Candidate, Wants, promise, rank, refusal
from tests.discovery.test_listing import sample


def names(candidates: list[tuple[Listing, float | None]], wants: Wants) -> list[str]:
    return [scored.listing.name for scored in rank([Candidate(*one) for one in candidates], wants)]


def mesh(name: str, **changes: object) -> Listing:
    return sample(name=name, **changes)


def test_the_nearer_of_equals_is_first() -> None:
    assert names([(mesh("far"), 0.2), (mesh("near"), 0.01)], Wants()) == ["near", "far"]


@pytest.mark.parametrize("round_trip", [None, math.nan, math.inf, -1.0])
def test_what_was_not_reached_is_left_out(round_trip: float | None) -> None:
    assert names([(mesh("dead"), round_trip), (mesh("good"), 0.3)], Wants()) == ["good"]


@pytest.mark.parametrize(
    ("changes", "wants", "words"),
    [
        ({}, Wants(model="llama"), "does not serve llama"),
        ({"models": ()}, Wants(model="auto"), "serves no model"),
        ({"clients": 8}, Wants(), "full: 8 of 8"),
        ({"clients": 9}, Wants(), "full"),
        ({"protocol": 9, "oldest": 7}, Wants(), "update meshllm"),
        ({"protocol": 1}, Wants(protocol=3, oldest=2), "protocol 1"),
        ({"vram_total": 8 * GB}, Wants(min_vram=24 * GB), "24 are wanted"),
        ({}, Wants(name="Cellar"), "not Cellar"),
    ],
)
def test_what_rules_a_mesh_out(changes: dict[str, object], wants: Wants, words: str) -> None:
    listing = sample(**changes)
    assert words in refusal(listing, wants)
    assert rank([Candidate(listing, 0.01)], wants) == []


@pytest.mark.parametrize(
    ("changes", "wants"),
    [
        ({}, Wants()),
        ({"models": ()}, Wants()),
        ({}, Wants(model="auto")),
        ({}, Wants(model="QWEN3-8b")),
        ({"max_clients": 0, "clients": 900}, Wants()),
        ({"protocol": 9, "oldest": 1}, Wants()),
        ({}, Wants(name="attic")),
    ],
)
def test_what_does_not(changes: dict[str, object], wants: Wants) -> None:
    assert refusal(sample(**changes), wants) == ""


def test_a_region_outweighs_a_few_milliseconds_not_a_continent() -> None:
    wants = Wants(region="EU")
    assert names([(mesh("here", region="eu"), 0.03), (mesh("there", region="us"), 0.02)], wants) == [
        "here",
        "there",
    ]
    assert names([(mesh("here", region="eu"), 0.9), (mesh("there", region="us"), 0.005)], wants)[0] == "there"


def test_room_and_memory_and_version_count() -> None:
    pairs: list[tuple[dict[str, object], dict[str, object], Wants]] = [
        ({"clients": 0}, {"clients": 7}, Wants()),
        ({"vram_free": 60 * GB}, {"vram_free": GB}, Wants()),
        ({"version": "0.1.0"}, {"version": "0.0.9"}, Wants(version="0.1.0")),
        ({"models": ("a", "b", "c")}, {"models": ("a",)}, Wants()),
    ]
    for better, worse, wants in pairs:
        assert names([(mesh("worse", **worse), 0.02), (mesh("better", **better), 0.02)], wants)[0] == "better"


def test_boasting_is_capped() -> None:
    boaster = mesh("boaster", vram_free=1 << 60, vram_total=1 << 60, max_clients=4096, clients=0)
    boaster = msgspec.structs.replace(boaster, models=tuple(f"m{n}" for n in range(64)))
    assert names([(boaster, 1.5), (mesh("near", max_clients=0), 0.005)], Wants())[0] == "near"


def test_reasons_are_words_and_the_weightiest_is_first() -> None:
    (scored,) = rank([Candidate(sample(), 0.004)], Wants(model="smollm2", region="eu", version="0.1.0"))
    assert scored.reasons[0] == "4 ms away"
    assert {"serves smollm2", "in eu", "room for 7 more", "2 models"} <= set(scored.reasons)


def test_the_order_does_not_depend_on_the_order_of_arrival() -> None:
    candidates = [Candidate(mesh(f"m{n}", node=f"{n:064x}"), 0.01) for n in range(6)]
    assert rank(candidates, Wants()) == rank(candidates[::-1], Wants())


def test_the_promise_is_the_score_without_the_distance() -> None:
    (scored,) = rank([Candidate(sample(), 0.0)], Wants())
    assert scored.score == pytest.approx(100 + promise(sample(), Wants()), abs=0.01)
