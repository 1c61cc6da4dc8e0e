"""Whole benchmarks against stubs: order, bounds, ratios, verdicts, raw lines."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshllm_core.bench.compare import Limit, compare, limits
from meshllm_core.bench.completion import Target, find_target
from meshllm_core.bench.endpoint import parse_endpoint
from meshllm_core.bench.measure import Run
from meshllm_core.bench.plan import Plan
from meshllm_core.bench.raw import open_raw
from meshllm_core.bench.render import compare_table, side_table
from meshllm_core.bench.session import Side, measure
from meshllm_core.errors import ConfigError, RequestError
from tests.bench.stub import Behaviour, Stub, stub_server

FAST = Behaviour(first_delay=0.02, token_delay=0.005)
SLOW = Behaviour(first_delay=0.06, token_delay=0.01)


async def side(name: str, stub: Stub) -> Side:
    return Side(name, await find_target(parse_endpoint(stub.url), None))


@dataclass
class ScriptedMeter:
    """A meter that says what it was told, first to last."""

    shares: list[float]

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> float:
        return self.shares.pop(0)


def ignore(*_: object) -> None:
    """Takes anything."""


async def test_a_and_b_take_turns_and_their_ratio_is_right() -> None:
    plan = Plan(clients=(1, 3), prompt_tokens=20, max_tokens=20, runs=3, warmup=1)
    order: list[tuple[str, int, int]] = []
    async with stub_server(FAST) as fast, stub_server(SLOW) as slow:
        sides = [await side("a", fast), await side("b", slow)]
        done = await measure(
            sides, plan, say=ignore, on_run=lambda s, run, _: order.append((s.name, run.clients, run.index))
        )
        assert done
        assert (fast.most_busy, slow.most_busy) == (3, 3)
        # The models, one request for the length, and warm-up + 3 runs of 1 and of 3 clients.
        assert len(fast.paths) == len(slow.paths) == 2 + 4 * (1 + 3)
        assert len({body["prompt"] for body in fast.bodies + slow.bodies}) == 1 + 2 * 16
    assert order == [(name, level, index) for level in (1, 3) for index in range(3) for name in "ab"]
    rows = {(row.metric, row.clients): row for row in compare(sides[0], sides[1], plan, [])}
    decode, first = rows["decode_tok_s", 1].ratio, rows["ttft_ms", 1].ratio
    assert decode and 1.3 < decode < 2.5
    assert first and 0.2 < first < 0.7
    three, one = rows["aggregate_tok_s", 3].left, rows["aggregate_tok_s", 1].left
    assert three is not None and one is not None
    assert 1.8 < three / one < 3.6
    table = compare_table(list(rows.values()), sides[0], sides[1], plan)
    assert "20 prompt tokens of which 0 cached" in table
    assert "SHORT" not in table
    assert "tok/s" in side_table(sides[0], plan)


async def test_the_time_limit_ends_it() -> None:
    plan = Plan(clients=(1,), prompt_tokens=5, max_tokens=60, runs=50, warmup=0, time_limit=1.0)
    async with stub_server(Behaviour(token_delay=0.01)) as stub:
        one = await side("a", stub)
        assert not await measure([one], plan, say=ignore, on_run=ignore)
    assert 1 <= len(one.runs) <= 3


async def test_a_disturbed_round_is_done_again_and_does_not_count() -> None:
    """The first two rounds are too loud, each on one side; one wait has to go on for a while."""
    plan = Plan(clients=(1,), prompt_tokens=5, max_tokens=5, runs=2, warmup=0, quiet=0.2, settle=0.01)
    runs = [0.1, 0.5, 0.9, 0.0, 0.1, 0.1, 0.1, 0.1]
    shares = [0.4, 0.3] + [share for run in runs for share in (0.1, run)]
    seen: list[tuple[str, int, bool]] = []
    async with stub_server() as one, stub_server() as other:
        sides = [await side("a", one), await side("b", other)]
        await measure(
            sides, plan, say=ignore, on_run=lambda s, r, k: seen.append((s.name, r.index, k)),
            make_meter=lambda _: ScriptedMeter(shares),
        )  # fmt: skip
    assert shares == []
    assert seen == [(n, i, k) for i, k in ((0, False), (0, False), (0, True), (1, True)) for n in "ab"]
    assert [len(s.runs) for s in sides] == [len(s.disturbed) for s in sides] == [2, 2]


async def test_one_failure_ends_the_run_and_cancels_the_rest() -> None:
    plan = Plan(clients=(4,), prompt_tokens=5, max_tokens=5, runs=1, warmup=0)
    async with stub_server(Behaviour(failure="close")) as stub:
        with pytest.raises(RequestError, match="in the middle"):
            await measure([await side("a", stub)], plan, say=ignore, on_run=ignore)


def test_limits_say_which_level_they_judge() -> None:
    plan = Plan(clients=(1, 4))
    found = limits(plan, 0.95, 0.9, 1.15, 1.3)
    assert [(limit.metric, limit.clients) for limit in found] == [
        ("decode_tok_s", 1),
        ("aggregate_tok_s", 4),
        ("ttft_ms", 1),
        ("memory_mib", None),
    ]
    assert limits(plan, None, None, None, None) == []
    least, most = Limit("x", 1, 0.95, True), Limit("x", 1, 1.15, False)
    assert [least.holds(r) for r in (0.94, 0.95, 2.0, None)] == [False, True, True, False]
    assert [most.holds(r) for r in (1.16, 1.15, 0.1, None)] == [False, True, True, False]


def test_a_limit_on_what_was_not_measured_is_not_kept() -> None:
    sides = [Side(name, Target(parse_endpoint("http://127.0.0.1:1"), "m")) for name in "ab"]
    rows = compare(sides[0], sides[1], Plan(), limits(Plan(), 0.95, None, None, 1.3))
    assert [row.good for row in rows] == [False, False]
    assert "SHORT" in compare_table(rows, sides[0], sides[1], Plan())


async def test_raw_lines_hold_every_request(tmp_path: Path) -> None:
    file = tmp_path / "raw.jsonl"
    plan = Plan(clients=(2,), prompt_tokens=5, max_tokens=5, runs=2, warmup=1)
    async with stub_server() as stub:
        with open_raw(file) as log:
            log.conditions({"plan": {}})
            await measure([await side("a", stub)], plan, say=ignore, on_run=log.run)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0] == {"kind": "conditions", "plan": {}}
    assert [(line["run"], line["client"]) for line in lines[1:] if line["kept"]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert all(line["completion_tokens"] == 5 and line["ttft_s"] > 0 for line in lines[1:])


def test_a_raw_file_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--raw"), open_raw(tmp_path / "none" / "raw.jsonl"):
        pass


def test_an_answer_of_one_token_has_no_decode_rate() -> None:
    run = Run(1, 0, (), None)
    assert run.middle(lambda timing: timing.decode_rate) is None
