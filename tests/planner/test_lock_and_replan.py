"""A fixed topology is honoured or refused by name; a plan that works is never traded for a slower one."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.errors import ConfigError, ModelTooLarge
from meshllm_core.planner.lock import honour, read_lock, write_lock
from meshllm_core.planner.memory import ranges_between
from meshllm_core.planner.plan import plan
from meshllm_core.planner.replan import replan
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate, Plan
from tests.planner.machines import model, network, node

REQUEST = PlanRequest(model(), network([node("a", 8), node("b", 8), node("c", 8)]))


def best(request: PlanRequest) -> Candidate:
    answer = plan(request)
    assert isinstance(answer, Plan)
    return answer.chosen


def lock_of(*stages: tuple[str, int, int], **more: object) -> bytes:
    rows = [{"node": name, "layer_start": first, "layer_end": end} for name, first, end in stages]
    top = {"version": 1, "model": "big", "manifest_sha256": "ab" * 32, "stages": rows}
    return json.dumps(top | more).encode()


def test_what_is_written_is_honoured() -> None:
    chosen = best(REQUEST)
    data = write_lock(REQUEST.model, chosen)
    assert set(json.loads(data)) == {"version", "model", "manifest_sha256", "stages"}
    found = honour(read_lock(data, "lock.json"), REQUEST, "lock.json")
    assert [(s.node, s.first, s.end) for s in found.stages] == [
        (s.node, s.first, s.end) for s in chosen.stages
    ]
    assert found.estimate == chosen.estimate
    assert (found.context, found.lanes) == (chosen.context, chosen.lanes)


def test_a_lock_wins_over_what_would_be_faster() -> None:
    found = honour(read_lock(lock_of(("c", 0, 10), ("b", 10, 20), ("a", 20, 30)), "f"), REQUEST, "f")
    assert found.nodes == ("c", "b", "a")
    assert "fixed by the lock file" in found.reasons[0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "cannot be used"),
        (b"[]", "cannot be used"),
        (lock_of(("a", 0, 30), version=2), "version is 2"),
        (lock_of(("a", 0, 30), extra=1), "extra"),
        (lock_of(), "0 stages"),
        (lock_of(("a", 1, 30)), "begins at layer 1, not at 0"),
        (lock_of(("a", 0, 10), ("b", 11, 30)), "begins at layer 11, not at 10"),
        (lock_of(("a", 0, 10), ("b", 10, 10)), "ends at layer 10"),
        (lock_of(("a", 0, 10), ("a", 10, 30)), "stands in two stages"),
        (lock_of(("a", 0, 1 << 40)), "ends at layer"),
        (b" " * ((1 << 20) + 1), "larger than"),
        (lock_of(("a", 0, 30), stages=[{"node": "a", "layer_start": 0}]), "layer_end"),
    ],
)
def test_a_broken_lock_is_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_lock(data, "lock.json")
    assert words in caught.value.message
    assert "lock.json" in caught.value.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lock_of(("a", 0, 15), ("b", 15, 30), model="other"), "for the model 'other'"),
        (lock_of(("a", 0, 15), ("b", 15, 30), manifest_sha256="cd" * 32), "another file of big"),
        (lock_of(("a", 0, 15), ("b", 15, 29)), "end at layer 29"),
        (lock_of(("a", 0, 15), ("z", 15, 30)), "no node 'z'"),
        (lock_of(("a", 0, 14), ("b", 14, 30)), "no stage of layers 0 to 14"),
    ],
)
def test_what_does_not_match_is_named(data: bytes, words: str) -> None:
    request = replace(REQUEST, windows=ranges_between({10, 15, 29}, 30))
    with pytest.raises(ConfigError) as caught:
        honour(read_lock(data, "f"), request, "f")
    assert words in caught.value.message


def test_a_stage_that_is_too_large_is_named_with_what_it_needs() -> None:
    # Not the lock's fault: what is free there may change, so it is no ConfigError.
    with pytest.raises(ModelTooLarge, match=r"layers 0 to 29 need .* on a .*, which may use"):
        honour(read_lock(lock_of(("a", 0, 29), ("b", 29, 30)), "f"), REQUEST, "f")


def test_a_node_that_takes_no_part_is_named() -> None:
    gone = replace(REQUEST, network=network([node("a", 8), node("b", 8, excluded="it is asleep")]))
    with pytest.raises(ConfigError, match="b takes no part: it is asleep"):
        honour(read_lock(lock_of(("a", 0, 15), ("b", 15, 30)), "f"), gone, "f")


@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
@settings(deadline=None)
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(ConfigError):
        read_lock(data, "f")


def split(order: tuple[str, ...], **more: Any) -> Candidate:
    """A chain of equal parts on three machines that differ in speed."""
    pace = {"a": 1.0, "b": 1.0, "c": 4.0}
    nodes = [node(name, 14, layer) for name, layer in pace.items()]
    each = 30 // len(order)
    rows = [(name, number * each, (number + 1) * each) for number, name in enumerate(order)]
    request = PlanRequest(model(), network(nodes, **more))
    return honour(read_lock(lock_of(*rows), "f"), request, "f")


def test_a_faster_plan_that_lives_is_never_traded_for_a_slower_one() -> None:
    two, three = split(("a", "b")), split(("a", "b", "c"))
    kept = replan(two, three)
    assert not kept.adopt
    assert "slower" in kept.reason
    assert replan(three, two).adopt
    assert not replan(two, split(("a", "c"))).adopt


def test_more_machines_are_no_reason() -> None:
    assert not replan(split(("a",)), split(("a", "b"))).adopt
    assert "the one that runs" in replan(split(("a", "b")), split(("a", "b"))).reason


def test_hardly_faster_is_not_worth_a_load() -> None:
    living, offered = split(("a", "b"), rtt=21.0), split(("b", "a"), rtt=20.0)
    kept = replan(living, offered)
    assert not kept.adopt
    assert "hardly faster" in kept.reason


def test_what_was_measured_counts_more_than_what_was_predicted() -> None:
    two, three = split(("a", "b")), split(("a", "b", "c"))
    assert replan(two, three, measured_ms=500.0).adopt
    assert not replan(three, two, measured_ms=10.0).adopt


def test_a_lost_machine_leaves_no_choice() -> None:
    moved = replan(split(("a", "b")), split(("a", "c")), lost=("b",))
    assert moved.adopt
    assert "b is gone" in moved.reason


def test_without_figures_what_runs_is_kept() -> None:
    kept = replan(split(("a", "b"), rtt=None), split(("b", "a"), rtt=None))
    assert not kept.adopt
    assert "not known" in kept.reason
