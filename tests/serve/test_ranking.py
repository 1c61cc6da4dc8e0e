"""Which replica is asked first: the reasons one by one."""

from typing import Any

import pytest

from meshllm_core.ids import NodeId
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.ranking import rank
from tests.support.peers import offer


def replica(name: str, *, rtt: float = 0.001, **fields: Any) -> Replica:
    return Replica(NodeId(name.encode().ljust(32, b".")), name, offer(**fields), rtt)


def order(*replicas: Replica, **options: Any) -> list[str]:
    return [one.replica.name for one in rank(replicas, **options)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"rtt": 0.001}, {"rtt": 0.1}),
        ({"decode_tokens_per_second": 40.0}, {"decode_tokens_per_second": 20.0}),
        ({"decode_tokens_per_second": 40.0, "rtt": 0.1}, {"decode_tokens_per_second": 20.0}),
        ({"active": 1}, {"active": 2}),
        ({"active": 3, "decode_tokens_per_second": 12.0}, {"active": 4, "queued": 3}),
        ({"active": 4, "queued": 1}, {"active": 4, "queued": 9}),
        # A fast node with a short queue beats a very slow one that is idle.
        ({"active": 4, "decode_tokens_per_second": 200.0}, {"decode_tokens_per_second": 2.0}),
        # Not measured: taken for a modest one.
        ({"decode_tokens_per_second": 15.0}, {"decode_tokens_per_second": 0.0}),
        ({"decode_tokens_per_second": 0.0}, {"decode_tokens_per_second": 5.0}),
        ({"lanes": 0}, {"lanes": 0, "active": 1}),
    ],
)
def test_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    # "z" sorts last, so that equal estimates would fail.
    assert order(replica("a", **second), replica("z", **first)) == ["z", "a"]


def test_a_long_prompt_goes_where_prompts_are_read_quickly() -> None:
    reader = replica("reader", decode_tokens_per_second=18.0, prompt_tokens_per_second=2_000.0)
    writer = replica("writer", decode_tokens_per_second=20.0, prompt_tokens_per_second=50.0)
    assert order(reader, writer, prompt_tokens=10)[0] == "writer"
    assert order(reader, writer, prompt_tokens=3_000)[0] == "reader"


def test_our_own_requests_count_before_the_node_has_told_of_them() -> None:
    a, b = replica("a"), replica("b")
    assert order(a, b, ours=lambda r: 2 if r is a else 0) == ["b", "a"]
    assert order(a, replica("b", active=3), ours=lambda r: 2 if r is a else 3) == ["a", "b"]


def test_a_conversation_stays_while_that_is_not_much_slower() -> None:
    a, b = replica("a", decode_tokens_per_second=24.0), replica("b", decode_tokens_per_second=20.0)
    assert order(a, b) == ["a", "b"]
    assert order(a, b, last=b.node) == ["b", "a"]
    crowded = replica("b", decode_tokens_per_second=20.0, active=4, queued=8)
    assert order(a, crowded, last=b.node) == ["a", "b"]
    slow = replica("b", decode_tokens_per_second=4.0)
    assert order(a, slow, last=b.node) == ["a", "b"]
    assert order(a, slow, last=NodeId(b"gone")) == ["a", "b"]


def test_a_cached_prompt_is_not_read_again() -> None:
    a, b = replica("a"), replica("b", decode_tokens_per_second=10.0)
    assert order(a, b, prompt_tokens=8_000, last=b.node)[0] == "b"


def test_what_is_said_of_a_replica() -> None:
    (one,) = rank([replica("a", active=4, queued=2, rtt=0.012)])
    assert not one.free
    assert one.why == "8 tok/s, 4 of 4 lanes busy, 2 waiting, 12 ms away"
    assert one.expected_seconds > one.wait_seconds > 0
    assert rank([replica("a", active=3)])[0].free
    assert rank([]) == []
