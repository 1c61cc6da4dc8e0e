"""Machines, models and changes from text: what is accepted, and that the rest is refused by name."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.errors import ConfigError
from meshllm_core.planner import cluster, quantities
from meshllm_core.planner.cluster import read_cluster
from meshllm_core.planner.describe import described
from meshllm_core.planner.network import Network
from meshllm_core.planner.whatif import suppose
from tests.planner.machines import GB, network, node


@pytest.mark.parametrize(
    ("text", "expected"),
    [("24 GB", 24 * GB), ("24GiB", 24 << 30), ("512", 512), (7, 7), ("1.5 kB", 1500), ("2 TB", 2 * 10**12)],
)
def test_sizes(text: object, expected: int) -> None:
    assert quantities.size(text, "memory") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100 Mbit/s", 12.5e6), ("936 GB/s", 936e9), ("1Gbit/s", 125e6), ("10 Mbps", 1.25e6), (5e6, 5e6)],
)
def test_rates(text: object, expected: float) -> None:
    assert quantities.rate(text, "bandwidth") == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("10 ms", 10), ("0.2s", 200), ("300us", 0.3), (4, 4), ("0", 0), (1.5, 1.5)]
)
def test_times(text: object, expected: float) -> None:
    assert quantities.milliseconds(text, "rtt") == pytest.approx(expected)


ABSURD = [
    float("nan"),
    float("inf"),
    -1,
    "-5 GB",
    "nan",
    "1e99 GB",
    "9" * 39,
    "",
    "GB",
    "12 GX",
    "5 GBit",
    True,
    None,
    [],
    {},
    "1 ms; rm",
]


@pytest.mark.parametrize("value", ABSURD, ids=str)
@pytest.mark.parametrize("read", [quantities.size, quantities.milliseconds, quantities.rate])
def test_absurd_quantities_are_refused_by_name(read: Any, value: object) -> None:
    with pytest.raises(ConfigError, match="the field"):
        read(value, "the field")


@given(st.text(max_size=60))
@settings(deadline=None)
def test_no_text_breaks_a_quantity(text: str) -> None:
    for read in (quantities.size, quantities.milliseconds, quantities.rate):
        try:
            assert read(text, "field") >= 0
        except ConfigError as error:
            assert "field" in error.message


def test_the_documented_file_is_read() -> None:
    lines = (cluster.__doc__ or "").split("\n\n", 1)[1]
    text = "\n".join(line.removeprefix("    ") for line in lines.splitlines())
    # The example shows both ways to give a speed; a machine has one of them.
    text = text.replace('memory_bandwidth = "936 GB/s"', "").replace(
        "[[links]]", '[[nodes]]\nname = "desk"\nmemory = 1\n[[links]]'
    )
    found = read_cluster(tomllib.loads(text), "homes.toml")
    attic = found.nodes[0]
    assert (attic.name, attic.memory, attic.limit, attic.layer_ms, attic.head_ms) == (
        "attic",
        24 * GB,
        20 * GB,
        0.9,
        2,
    )
    assert attic.excluded == "is being updated"
    link = found.link("desk", "attic")
    assert link is not None
    assert (link.rtt_ms, link.bytes_per_second) == (20, 12.5e6)
    assert (found.driver, found.hop_overhead_ms) == ("attic", 1.5)


def test_one_latency_for_all_pairs_that_are_not_listed() -> None:
    nodes = [{"name": name, "memory": "1 GB"} for name in "abc"]
    found = read_cluster({"nodes": nodes, "rtt": 8, "links": [{"between": ["c", "a"], "rtt": 2}]}, "f")
    rtts = [found.link(one, other).rtt_ms for one, other in ("ab", "bc", "ac", "ca")]  # type: ignore[union-attr]
    assert rtts == [8, 8, 2, 2]
    assert found.origin == "a"


A = {"name": "a", "memory": 1}
B = {"name": "b", "memory": 1}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "a table"),
        ({}, "no nodes"),
        ({"nodes": [A], "nods": 1}, "Did you mean nodes"),
        ({"nodes": [{**A, "memroy": 1}]}, "Did you mean memory"),
        ({"nodes": [{"name": "a"}]}, "no memory"),
        ({"nodes": [{"memory": 1}]}, "no name"),
        ({"nodes": [{**A, "memory": float("nan")}]}, "memory"),
        ({"nodes": [{**A, "memory": -4}]}, "memory"),
        ({"nodes": [{**A, "memory": 1 << 80}]}, "memory"),
        ({"nodes": [{**A, "name": "a\x1b[2J"}]}, "name"),
        ({"nodes": [{**A, "name": "x" * 65}]}, "name"),
        ({"nodes": [{**A, "layer": 1, "memory_bandwidth": 5}]}, "both"),
        ({"nodes": [A, A]}, "two nodes are named 'a'"),
        ({"nodes": [A] * 257}, "257"),
        ({"nodes": "a"}, "a list"),
        ({"nodes": [A], "driver": "b"}, "driver 'b'"),
        ({"nodes": [A, B], "rtt": -1}, "rtt"),
        ({"nodes": [A, B], "links": [{"between": ["a", "c"], "rtt": 1}]}, "no node 'c'"),
        ({"nodes": [A, B], "links": [{"between": ["a", "a"], "rtt": 1}]}, "two names"),
        ({"nodes": [A, B], "links": [{"between": ["a"], "rtt": 1}]}, "two names"),
        ({"nodes": [A, B], "links": [{"between": ["a", "b"]}]}, "no rtt"),
        ({"nodes": [A, B], "links": [{"between": ["a", "b"], "rtt": 1e9}]}, "rtt"),
        ({"nodes": [A, B], "links": [{"between": [["a"], "b"], "rtt": 1}]}, "no node"),
    ],
)
def test_bad_files_are_refused_by_name(document: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_cluster(document, "homes.toml")
    assert words in str(caught.value)
    assert "homes.toml" in caught.value.message
    assert caught.value.hint


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["driver", "rtt", "hop_overhead", "nodes", "links", "x"]), json_values),
    st.lists(
        st.dictionaries(st.sampled_from(["name", "memory", "limit", "layer", "head"]), json_values),
        max_size=3,
    ),
)
@settings(deadline=None)
def test_no_document_breaks_the_reader(document: dict[str, Any], nodes: list[Any]) -> None:
    for each in (document, document | {"nodes": nodes}, {"nodes": [A, B], "links": nodes}):
        try:
            assert isinstance(read_cluster(each, "f"), Network)
        except ConfigError as error:
            assert error.message.startswith("f")


def test_a_described_model_adds_up() -> None:
    given_ = {
        "layers": 94,
        "bytes": "132 GB",
        "width": 4096,
        "kv_heads": 4,
        "head_dim": 128,
        "active_bytes": "13 GB",
    }
    found, cuts = described(given_, "q.json")
    assert cuts is None
    assert sum(found.layer_bytes) + 2 * found.last_bytes == found.facts.tensor_bytes == 132 * GB
    assert sum(found.active_bytes) + found.last_bytes == 13 * GB
    assert found.facts.caches[0].key_width == 512
    assert not found.notes
    assert found.fingerprint == described(json.loads(json.dumps(given_)), "other.json")[0].fingerprint
    assert found.fingerprint != described(given_ | {"layers": 93}, "q.json")[0].fingerprint


def test_what_a_description_does_not_say_is_told() -> None:
    found, _ = described({"layers": 10, "bytes": "5GB"}, "q.json")
    assert "width 8192" in found.notes[0]
    assert "kv_heads 8" in found.notes[0]


def test_sliding_layers_of_a_description() -> None:
    found, cuts = described(
        {"layers": 6, "bytes": "5GB", "sliding_window": 512, "window_period": 3, "legal_cuts": [2, 4]},
        "q.json",
    )
    assert [cache.windowed for cache in found.facts.caches] == [True, True, False] * 2
    assert cuts == (2, 4)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"bytes": 5}, "no layers"),
        ({"layers": 5}, "no bytes"),
        ({"layers": 0, "bytes": 5}, "layers"),
        ({"layers": 513, "bytes": 5}, "layers"),
        ({"layers": 2.5, "bytes": 5}, "layers"),
        ({"layers": float("nan"), "bytes": 5}, "layers"),
        ({"layers": 5, "bytes": -1}, "bytes"),
        ({"layers": 5, "bytes": 5, "widht": 1}, "Did you mean width"),
        ({"layers": 5, "bytes": 5, "width": 1 << 40}, "width"),
        ({"layers": 5, "bytes": 100, "active_bytes": 200}, "active_bytes"),
        ({"layers": 5, "bytes": 5, "legal_cuts": [5]}, "legal_cuts"),
        ({"layers": 5, "bytes": 5, "legal_cuts": "2"}, "legal_cuts"),
        ("text", "a table"),
    ],
)
def test_bad_descriptions_are_refused_by_name(document: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        described(document, "q.json")
    assert words in str(caught.value)
    assert "q.json" in caught.value.message


def test_changes_are_applied_in_order() -> None:
    before = network([node("a", 8), node("b", 8), node("c", 8)], rtt=None)
    found = suppose(
        before, ["hop=10ms,hop:b:a=25ms", "memory:a=24GB, layer:c=2ms", "without=b,verdict:f16=exact"]
    )
    after = found.network
    assert [after.link("a", "b").rtt_ms, after.link("a", "c").rtt_ms] == [50, 20]  # type: ignore[union-attr]
    a, b, c = after.nodes
    assert (a.memory, c.layer_ms, b.excluded) == (24 * GB, 2, "left out by --what-if")
    assert found.verdicts == {"f16": "exact"}
    assert before.nodes[0].memory == 8 * GB


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("hop", "no such change"),
        ("hopp=1ms", "Did you mean hop"),
        ("hop=-1", "hop=-1"),
        ("hop=nan", "hop=nan"),
        ("hop:a=1", "no such change"),
        ("hop:a:x=1", "no node 'x'"),
        ("memory:z=1GB", "no node 'z'"),
        ("memory:a=lots", "memory:a=lots"),
        ("without=z", "no node 'z'"),
        ("verdict:f17=exact", "f17"),
        ("verdict:f16=good", "no verdict"),
        (",".join(["hop=1"] * 1025), "1025"),
    ],
)
def test_bad_changes_are_refused_by_name(change: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        suppose(network([node("a", 8), node("b", 8)]), [change])
    assert words in str(caught.value)
