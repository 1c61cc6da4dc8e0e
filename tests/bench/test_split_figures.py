"""Which figures come out of the split benchmark, and when a bound is not kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from meshllm_core.bench.split_figures import (
    AtDelay,
    Figure,
    StageMemory,
    concurrency_figure,
    decode_figures,
    figures_table,
    memory_figures,
    prefill_figures,
)
from meshllm_core.bench.split_plan import PARTS, SplitPlan, parse_delays, parse_parts
from meshllm_core.bench.stats import Summary
from meshllm_core.errors import ConfigError

_MIB = 2**20


def rate(ms: float) -> Summary:
    """Of a side that takes so long for a token."""
    return Summary(1000 / ms, 1000 / ms, 1000 / ms, 3)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    """To look them up."""
    return {figure.name: figure for figure in figures}


def test_time_per_token_is_judged_by_computing_and_two_hops() -> None:
    at = AtDelay(10, 10.2, rate(20), rate(42.4), rate(55), "tls")
    found = by_name(decode_figures(at))
    split = found["split_tls_10ms"]
    assert split.value == pytest.approx(42.4)
    assert split.bound == pytest.approx(1.1 * (20 + 20.4))
    assert split.good is True
    assert found["hop_tls_10ms"].value == pytest.approx((42.4 - 20 - 20.4) / 2)
    assert found["rpc_tls_10ms"].good is True
    slow = by_name(decode_figures(replace(at, split=rate(46))))
    assert slow["split_tls_10ms"].good is False
    assert slow["hop_tls_10ms"].good is False


def test_quic_may_cost_more_than_tls_and_rpc_has_to_be_slower() -> None:
    at = AtDelay(0, 0, rate(20), rate(24), rate(23), "tls")
    assert by_name(decode_figures(at))["hop_tls_0ms"].good is False
    assert by_name(decode_figures(at))["rpc_tls_0ms"].good is False
    quic = by_name(decode_figures(replace(at, way="quic", rpc=None)))
    assert quic["hop_quic_0ms"].good is True
    assert "rpc_quic_0ms" not in quic


def test_clients_and_chunks_have_least_values() -> None:
    assert concurrency_figure(rate(50), rate(50 / 3.1), 4, 10).good is True
    assert concurrency_figure(rate(50), rate(50 / 2.9), 4, 10).good is False
    assert concurrency_figure(rate(50), rate(50), 4, None).good is None
    flight, lock = Summary(4, 4, 4, 1), Summary(6.1, 6.1, 6.1, 1)
    assert prefill_figures(flight, lock, flight, 2048, 10)[-1].good is True
    assert prefill_figures(lock, flight, flight, 2048, 10)[-1].good is False


def test_memory_is_what_the_model_adds_to_a_bare_engine() -> None:
    stage = StageMemory(8, 30, 20 * _MIB, 100 * _MIB, 140 * _MIB, 45 * _MIB, ())
    found = by_name(memory_figures(stage))
    assert found["stage_resident"].value == pytest.approx(95)
    assert found["stage_resident"].bound == pytest.approx(103)
    assert found["stage_resident"].good is True
    whole = by_name(memory_figures(replace(stage, resident=150 * _MIB, foreign=("whole.gguf",))))
    assert whole["stage_resident"].good is False
    assert whole["foreign_files"].good is False


def test_the_table_says_which_bound_is_short() -> None:
    text = figures_table([Figure("a", "kept", "ms", 1, 2), Figure("b", "broken", "×", 1, 2, at_least=True)])
    lines = text.splitlines()
    assert lines[1].split() == ["kept", "1", "ms", "≤", "2", "ok"]
    assert lines[2].split() == ["broken", "1", "×", "≥", "2", "SHORT"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": ("decode", "speed")},
        {"parts": ()},
        {"delays": ()},
        {"delays": (-1.0,)},
        {"delays": (5000.0,)},
        {"delays": (float("nan"),)},
        {"prefill_tokens": 200},
        {"quiet": 2.0},
        {"time_limit": 0.0},
    ],
)
def test_a_plan_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SplitPlan(Path("model.gguf"), **wrong)  # type: ignore[arg-type]


def test_parts_come_in_the_order_of_measuring() -> None:
    assert parse_parts("memory, decode,decode") == ("decode", "memory")
    assert parse_parts(",".join(reversed(PARTS))) == PARTS
    assert parse_delays("0,5,5") == (0.0, 5.0)
    with pytest.raises(ConfigError):
        parse_delays("0,fast")
