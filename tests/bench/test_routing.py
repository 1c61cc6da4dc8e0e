"""What the routing benchmark makes of its figures."""

from benchmarks.routing import Pair, kept, report
from meshllm_core.bench.completion import Timing


def timing(first_ms: float, rate: float) -> Timing:
    first = first_ms / 1000
    return Timing(0.0, first, first + 100 / rate, 0.01, 101, 16, 0, 101)


def pair(later_ms: float, ratio: float, words: int = 16) -> Pair:
    return Pair(0, words, timing(50.0, 40.0), timing(50.0 + later_ms, 40.0 * ratio))


def test_the_bounds() -> None:
    assert kept([pair(9.0, 0.98)])
    assert not kept([pair(11.0, 0.98)])
    assert not kept([pair(9.0, 0.96)])
    assert kept([pair(1.0, 1.0), pair(2.0, 1.0), pair(200.0, 0.5)]), "medians decide"


def test_the_tables() -> None:
    lines = report([pair(4.0, 0.99, 16), pair(6.0, 0.99, 16), pair(3.0, 0.99, 128)])
    rows = [line.split() for line in lines]
    assert rows[1] == ["16", "50.0", "55.0", "+5.0", "(+7.4)"]
    assert rows[2][:4] == ["128", "50.0", "53.0", "+3.0"]
    assert rows[5] == ["16", "40.0", "39.6", "0.990"]
    assert lines[-1] == "3 pairs: +4.0 ms, ratio 0.990; bounds +10 ms and 0.97: kept"
