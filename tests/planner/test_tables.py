"""The tables of the arithmetic, figure by figure."""

import pytest

from meshllm_core.planner import tables
from meshllm_core.planner.cost import decode_network_ms_per_token
from meshllm_core.planner.wire import row_bytes


def test_stage_counts_are_the_published_ones() -> None:
    rows = [
        (row.stages, row.floor_ms, round(row.tokens_per_second, 1), row.target_met)
        for row in tables.stage_counts()
    ]
    assert rows == [
        (2, 20.0, 50.0, True),
        (3, 30.0, 33.3, True),
        (4, 40.0, 25.0, False),
        (5, 50.0, 20.0, False),
    ]


def test_each_stage_raises_the_floor() -> None:
    floors = [decode_network_ms_per_token(stages, 10.0) for stages in range(1, 9)]
    assert floors == sorted(set(floors))


def test_frames_are_of_the_published_size() -> None:
    assert row_bytes("f32", tables.HIDDEN) == 8 * 1024
    assert (row_bytes("f16", tables.HIDDEN), row_bytes("q8", tables.HIDDEN)) == (4096, 2052)
    assert abs(100 * (1 - 2052 / 4096) - 49.9) < 0.05


def test_tensor_parallelism_pays_twenty_times_the_round_trips_on_every_link() -> None:
    for row in tables.split_axis():
        assert row.tensor_ms / row.pipeline_ms == pytest.approx(20)
    assert tables.tensor_bytes_per_token(2048, 40, 2, 4) == 491_520


def test_petals_shows_two_to_three_hops() -> None:
    found = tables.petals()
    assert found.less_bandwidth_ms == pytest.approx(17.6, abs=0.05)
    assert found.more_latency_ms == pytest.approx(210.6, abs=0.05)
    assert found.implied_hops == pytest.approx(2.22, abs=0.005)
    assert found.more_latency_ms > 10 * found.less_bandwidth_ms


EXPECTED = """\
Model: 40 layers, hidden 2048 (recovered from two independent frames)

                  link  PP hops    PP ms  PP tok/s | TP collectives    TP ms  TP tok/s
       NVLink ~0.005ms        4     0.02   50000.0 |             80      0.4   2500.00
             LAN 0.1ms        4     0.40    2500.0 |             80      8.0    125.00
     Thunderbolt 0.2ms        4     0.80    1250.0 |             80     16.0     62.50
          metro DC 2ms        4     8.00     125.0 |             80    160.0      6.25
     cross-region 10ms        4    40.00      25.0 |             80    800.0      1.25
 intercontinental 80ms        4   320.00       3.1 |             80   6400.0      0.16

TP/PP serialized-round-trip ratio = 2L/stages = 20x, IDENTICAL at every
link latency. It is set by the model's DEPTH, not by the network. A faster link makes
both faster and does not change which axis you must choose.

Bytes/token/node (f16): PP boundary 4,096 B | TP all-reduce 491,520 B (120x)
Bytes are a 120x problem. Serialized round trips are a 20x problem that MULTIPLIES the
link's latency, and latency is what a WAN has. On a 10ms link TP's 80 blocking
collectives cost 0.8s per token before any FLOP is issued.

Independent check, Petals BLOOM-176B over the internet (3 servers):
  10x LESS bandwidth (RTT fixed):   17.6 ms/step
  ~+95 ms RTT (bandwidth fixed) :  210.6 ms/step  (12x worse)
  => implied serialized round trips per token = 210.6/95 = 2.22
  A 3-server chain should cost 2 to 3 hops. The measured slope says 2.22.
  The hop-count model is confirmed by an INDEPENDENT system's published numbers,
  and so is the asymmetry: latency binds, bandwidth is slack."""


def test_the_text_is_the_published_output() -> None:
    assert tables.render().endswith(EXPECTED)
    assert (
        "\n     3      30.0        33.3  possible\n     4      40.0        25.0  out of reach\n"
        in tables.render()
    )
